"""Bounds of a model that was rewritten for its devices: those of the model before."""

from __future__ import annotations

import numpy as np

from graph_runtime import GraphBuilder
from graph_runtime.build.prepare import prepare
from graph_runtime.ir.model import Model
from graph_runtime.plan.placing import PlacementProblem

PAIR = ("cpu:0", "tt:0")
RNG = np.random.default_rng(11)


def network() -> Model:
    """Products of constant weights, which hosts and boards want in different ways."""
    b = GraphBuilder()
    y = b.input("x", (512, 512))
    for i, width in enumerate((512, 512, 64)):
        weight = b.param(f"w{i}", RNG.standard_normal((y.type.shape[-1], width)).astype(np.float32))
        y = b.op("relu", b.op("matmul", y, weight))
    b.output(b.op("softmax", y))
    return Model.from_builder(b)


def first(problem: PlacementProblem) -> np.ndarray:
    """A policy: all on the first device of the list."""
    return np.zeros(problem.num_nodes, int)


def said_of(placement) -> dict[str, dict]:
    return {row["objective"]: row for row in placement.summary()["predictions"]}


def test_a_placement_of_a_rewritten_model_is_not_called_optimal_for_being_pinned():
    model = network()
    one, best = (prepare(model, PAIR, placement=p).plan.placement for p in (first, "mincut"))
    assert one.graph is not one.before.graph, "weights are in panels"
    slow, fast = said_of(one), said_of(best)
    assert slow["serial"]["ns"] > 5 * fast["serial"]["ns"]
    assert slow["serial"]["bound_ns"] == fast["serial"]["bound_ns"] == fast["serial"]["ns"]
    assert fast["serial"]["status"] == "optimal"
    assert {row["status"] for row in slow.values()} == {"feasible"}


def test_what_a_rewritten_model_copies_every_run_is_told():
    placed = prepare(network(), PAIR, placement="mincut").plan.placement
    assert {row["device"] for row in placed.report() if row["op"] == "matmul"} == {"tt:0"}
    assert [(row["from"], row["to"]) for row in placed.summary()["copies"]] == [("cpu:0", "tt:0")]
