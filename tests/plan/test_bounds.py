"""What a placement says that no placement goes below: never above what some placement takes, and "optimal"
only where that is so. Of a model that was rewritten for its devices: those of the model before."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graph_runtime import GraphBuilder
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.ir.model import Model
from graph_runtime.plan.passes import place
from graph_runtime.plan.placing import PlacementProblem, evaluate
from graph_runtime.testing.graphs import random_graph

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


def every(problem: PlacementProblem) -> np.ndarray:
    options = [np.flatnonzero(row) for row in problem.allowed]
    return np.array(list(itertools.product(*options)), np.int16)


def test_a_placement_without_a_policy_is_not_called_optimal():
    model = network()
    alone = said_of(place(model.graph, PAIR, inputs=["x"]))
    best = said_of(place(model.graph, PAIR, inputs=["x"], placement="mincut"))
    assert alone["serial"]["bound_ns"] == best["serial"]["ns"] < alone["serial"]["ns"]
    assert alone["serial"]["status"] == "feasible"


def test_pins_do_not_raise_a_bound_and_what_they_leave_may_be_optimal():
    model = network()
    best, pinned = (
        said_of(place(model.graph, PAIR, inputs=["x"], placement="mincut", pins=pins))["serial"]
        for pins in ({}, {"matmul": "cpu:0"})
    )
    assert pinned["ns"] > pinned["bound_ns"] == best["ns"]
    assert (best["status"], pinned["status"]) == ("optimal", "optimal within pins")


@pytest.mark.parametrize("devices", [PAIR, ("cpu:0", "cpu:1", "tt:0"), ("tt:0", "tt:1")], ids=str)
def test_a_bound_is_not_above_any_placement(devices):
    """Against all placements of small graphs, however the one in question was made."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, devices, nodes=6, columns=False)
        inputs = [name for name in graph.input_names if rng.random() < 0.5]
        placed = place(graph, devices, inputs=inputs, placement="greedy")
        rows = every(placed.problem)
        for draw in (None, lambda p, rng=rng: np.array([rng.choice(np.flatnonzero(r)) for r in p.allowed])):
            said = place(graph, devices, inputs=inputs, placement=draw, fallback="host")
            for objective, row in said_of(said).items():
                problem = place(
                    graph, devices, inputs=inputs, placement="single", objective=objective
                ).problem
                least = evaluate(problem, rows).min()
                assert row["bound_ns"] <= least <= row["ns"], (seed, objective)
                assert (row["status"] == "optimal") <= (row["ns"] == least)


# ---------------------------------------------------------------- models rewritten for their devices


@pytest.mark.core
def test_a_placement_of_a_rewritten_model_is_not_called_optimal_for_being_pinned():
    model = network()
    one, best = (prepare(model, PAIR, placement=p).plan.placement for p in (first, "mincut"))
    assert one.graph is not one.before.graph, "weights are in panels"
    slow, fast = said_of(one), said_of(best)
    assert slow["serial"]["ns"] > 5 * fast["serial"]["ns"]
    assert slow["serial"]["bound_ns"] == fast["serial"]["bound_ns"] == fast["serial"]["ns"]
    assert fast["serial"]["status"] == "optimal"
    assert {row["status"] for row in slow.values()} == {"feasible"}


@pytest.mark.core
def test_what_a_rewritten_model_copies_every_run_is_told():
    placed = prepare(network(), PAIR, placement="mincut").plan.placement
    assert {row["device"] for row in placed.report() if row["op"] == "matmul"} == {"tt:0"}
    assert [(row["from"], row["to"]) for row in placed.summary()["copies"]] == [("cpu:0", "tt:0")]
