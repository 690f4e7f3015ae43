"""A plan over machines, cut: whatever the placement, its parts compute what the whole graph does, each
stage has its values before it runs, and each value crosses once, with the cause and the bytes of the plan's
copy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.cluster.graphs.cut import Cut, cut
from graph_runtime.cluster.graphs.machine_stages import cut_into_stages
from graph_runtime.ir.graph import Graph
from graph_runtime.ir.model import Model
from graph_runtime.plan import plan
from graph_runtime.testing.graphs import random_graph

DEVICES = ("node0/cpu:0", "node0/tt:0", "node1/tt:0", "node2/cpu:0")


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    types = {
        name: graph.entry_type(int(e)) for name, e in zip(graph.input_names, graph.input_eids, strict=True)
    }
    return {name: rng.standard_normal(t.shape).astype(t.dtype) for name, t in types.items()}


def run_parts(pieces: Cut, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs, by numpy: stages run when their values are there, and none is left over."""
    tables: dict[str, dict[str, np.ndarray]] = {name: {} for name in pieces.parts}
    todo = {name: list(enumerate(part.stages)) for name, part in pieces.parts.items()}
    while any(todo.values()):
        before = sum(map(len, todo.values()))
        for machine, stages in todo.items():
            while stages and all(value in tables[machine] for value in stages[0][1].reads.values()):
                number, stage = stages.pop(0)
                given = {name: inputs[of] for name, of in (*stage.given.items(), *stage.constants.items())}
                given |= {name: tables[machine][value] for name, value in stage.reads.items()}
                shapes = [stage.graph.entry_type(int(e)).shape for e in stage.graph.input_eids]
                shaped = {
                    n: given[n].reshape(s) for n, s in zip(stage.graph.input_names, shapes, strict=True)
                }
                made = heads(stage.graph, interpret(stage.graph, shaped))
                tables[machine] |= dict(zip(stage.makes, made, strict=True))
                for one in pieces.crossings:
                    if (one.source, one.stage) == (machine, number):
                        tables[one.target][one.received] = tables[machine][one.sent]
        assert sum(map(len, todo.values())) < before, "stages wait for each other"
    found = [inputs[value] if at is None else tables[at][value] for at, value in pieces.outputs]
    return [value.reshape(type_.shape) for value, type_ in zip(found, pieces.types, strict=True)]


@pytest.mark.parametrize("seed", range(40))
def test_parts_compute_what_the_graph_does(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), DEVICES, nodes=14)
    planned = plan(graph, DEVICES)
    inputs = inputs_of(graph, seed)
    pieces = cut(planned, constants=graph.input_names[::3])
    expected = heads(planned.graph, interpret(planned.graph, inputs))
    for got, wanted in zip(run_parts(pieces, inputs), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    for one in pieces.crossings:
        assert one.source != one.target
    arrived = [(one.target, one.received) for one in pieces.crossings]
    assert len(arrived) == len(set(arrived))


@pytest.mark.parametrize("seed", range(6))
def test_a_part_is_planned_as_the_whole_says(seed: int) -> None:
    graph = random_graph(np.random.default_rng(100 + seed), DEVICES, nodes=14)
    planned = plan(graph, DEVICES)
    for part in cut(planned).parts.values():
        for stage in part.stages:
            again = plan(stage.graph, part.devices)
            assert not again.warnings
            where = dict(zip(planned.graph.names, planned.did.tolist(), strict=True))
            for nid in np.flatnonzero(stage.graph.func_id >= 0).tolist():
                name = stage.graph.names[nid]
                new = again.graph.names.index(name)
                assert again.devices[again.did[new]] == planned.devices[where[name]].at_home


def chain(layers: int = 4) -> Model:
    builder = gr.GraphBuilder()
    value = builder.input("x", (8, 16))
    for i in range(layers):
        weight = builder.param(f"w{i}", np.full((16, 16), 0.1 * (i + 1), np.float32))
        value = builder.op("tanh", builder.op("matmul", value, weight), name=f"t{i}")
    builder.output(value)
    return Model.from_builder(builder)


def test_a_pipeline_is_one_stage_a_machine_and_one_crossing() -> None:
    prepared = gr.prepare(
        chain(),
        ["node0/cpu:0", "node1/cpu:0"],
        fuse=False,
        place={"t[23]": "node1/cpu:0", "matmul_[23]": "node1/cpu:0"},
    )
    pieces = cut(prepared.plan, prepared.model.constants)
    assert {name: len(part.stages) for name, part in pieces.parts.items()} == {"node0": 1, "node1": 1}
    (one,) = pieces.crossings
    assert (one.source, one.target, one.nbytes) == ("node0", "node1", 8 * 16 * 4)
    assert one.cause.startswith("'matmul_2' on node1/cpu:0 reads 't1', which lives on node0/cpu:0")
    assert pieces.parts["node0"].given == ("x",)
    assert pieces.parts["node1"].given == ()
    assert pieces.report()[0]["bytes"] == 512


def test_a_machine_that_waits_in_the_middle_has_two_stages() -> None:
    prepared = gr.prepare(
        chain(),
        ["node0/cpu:0", "node1/cpu:0"],
        fuse=False,
        place={"t1": "node1/cpu:0", "matmul_1": "node1/cpu:0"},
    )
    pieces = cut(prepared.plan, prepared.model.constants)
    assert [stage.program for stage in pieces.parts["node0"].stages] == ["stage0", "stage1"]
    assert [stage.program for stage in pieces.parts["node1"].stages] == ["stage0"]


def test_a_machine_that_can_finish_goes_first() -> None:
    machine = {0: "b", 1: "a", 2: "b"}  # 0 could run at once, but b would stop before 2
    assert cut_into_stages(machine, {0: (), 1: (), 2: (0, 1)}) == [("a", [1]), ("b", [0, 2])]


def stateful() -> gr.GraphBuilder:
    builder = gr.GraphBuilder()
    x, total = builder.input("x", (4,)), builder.input("total", (4,))
    added = builder.op("add", x, total, name="added")
    builder.output(added, builder.op("relu", added, name="shown"))
    builder.alias(added, total)
    return builder


def test_state_stays_on_its_machine() -> None:
    place = {"shown": "node1/cpu:0"}
    prepared = gr.prepare(stateful(), ["node0/cpu:0", "node1/cpu:0"], place=place)
    pieces = cut(prepared.plan)
    (stage,) = pieces.parts["node0"].stages
    assert pieces.parts["node0"].state == ("total",)
    assert pieces.parts["node1"].state == ()
    assert [stage.graph.input_names[i] for _, i in stage.graph.hints.aliases] == ["total"]


def test_state_that_two_machines_read_is_refused() -> None:
    builder = gr.GraphBuilder()
    x, total = builder.input("x", (4,)), builder.input("total", (4,))
    first = builder.op("tanh", total, name="first")
    shown = builder.op("relu", total, name="shown")
    added = builder.op("add", x, total, name="added")
    builder.output(added, first, shown)
    builder.alias(added, total)
    prepared = gr.prepare(builder, ["node0/cpu:0", "node1/cpu:0"], place={"shown": "node1/cpu:0"})
    with pytest.raises(gr.PlanError, match=r"state 'total' lies on node0 and is read by .* on node1"):
        cut(prepared.plan)
