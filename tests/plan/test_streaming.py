"""Weights that stay on the host: each run copies them, devices hold them only while they are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

import graph_runtime as gr
from graph_runtime.base.errors import CapacityError, InputError, PlanError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.plan import plan
from graph_runtime.plan.passes import place
from graph_runtime.simulation.simulation import simulate

WIDTH = 1024
PAIR = ["cpu:0", "tt:0"]


def products(count: int, width: int = WIDTH, rows: int = 64):
    """``count`` products of their own weights, one after another."""
    b = gr.GraphBuilder()
    x = b.input("x", (rows, width))
    for i in range(count):
        x = b.op("matmul", x, b.input(f"w{i}", (width, width)), name=f"node{i}")
    b.output(x)
    return b.build()


def small(weights: float):
    """cpu:0, and tt:0 with DRAM for so many of the weights, and some activations."""
    cpu, tt = parse_list(PAIR)
    memory = tt.descriptor.memories[0]
    budget = int(weights * WIDTH * WIDTH * 4) // memory.banks + (256 << 10)
    memories = (replace(memory, bank_bytes=memory.base + budget, budget=0), *tt.descriptor.memories[1:])
    return [cpu, replace(tt, descriptor=replace(tt.descriptor, memories=memories))]


def on_tt(placed) -> int:
    return int((placed.did[placed.graph.func_id >= 0] == 1).sum())


def test_a_device_holds_a_streamed_weight_only_while_it_is_read():
    graph = products(6)
    whole = plan(graph, PAIR, place={"node*": "tt:0"})
    streamed = plan(graph, PAIR, place={"node*": "tt:0"}, stream=["w*"])
    weight = WIDTH * WIDTH * 4 // 12
    assert sum(whole.peak.values()) > 6 * weight
    assert streamed.peak[1, 0] < 2.5 * weight, "of two that follow each other"
    assert not streamed.at_input[[n.startswith("w") and "copy" in n for n in streamed.graph.names]].any()


@pytest.mark.parametrize("policy", ["single", "greedy", "mincut", "heft"])
def test_auto_streams_where_the_rest_would_have_to_leave(policy):
    graph, devices = products(8), small(2.5)
    without = place(graph, devices, placement=policy, inputs=["x"])
    auto = place(graph, devices, placement=policy, inputs=["x"], stream=["auto"])
    said = [{r["objective"]: r["ns"] for r in p.summary()["predictions"]}["serial"] for p in (without, auto)]
    assert said[1] <= said[0]
    if auto.pricing.streamed:
        assert said[1] < said[0]
        assert on_tt(auto) > on_tt(without)
    planned = plan(graph, devices, placed=auto)
    assert planned.peak.get((1, 0), 0) <= devices[1].descriptor.memories[0].available
    assert auto.summary()["streamed"] == list(auto.pricing.streamed)


def slow_host(graph, devices, **more):
    """A host that computes a hundred times as slowly."""
    from graph_runtime.costs import CostModel

    class Slow(CostModel):
        def node(self, graph, nid, device, layouts, **how):
            found = super().node(graph, nid, device, layouts, **how)
            return found.cycles * 100 if device.descriptor.on_host else found

    return place(graph, devices, placement="mincut", inputs=["x"], costs=Slow(), **more)


def test_auto_streams_as_little_as_it_needs_where_the_host_is_slow():
    graph, devices = products(8), small(5.5)
    auto = slow_host(graph, devices, stream=["auto"])
    assert on_tt(slow_host(graph, devices)) < 8
    assert on_tt(auto) == 8
    assert 3 <= len(auto.pricing.streamed) < 8
    assert slow_host(graph, small(20), stream=["auto"]).pricing.streamed == ()
    assert set(auto.pricing.streamed) <= {f"w{i}" for i in range(8)}


def test_place_and_simulate_say_the_same():
    graph = products(4)
    for stream in ((), ("w*",), ("w1", "w2")):
        placed = place(graph, PAIR, pins={"node*": "tt:0"}, placement="single", stream=stream, inputs=["x"])
        serial, _, _ = placed.summary()["predictions"]
        timeline = simulate(plan(graph, PAIR, placed=placed))
        assert serial["ns"] == timeline.duration.sum()
        assert len(timeline.link_rows()) == 0
        assert (len(timeline.nid) - 5) == len(placed.pricing.streamed)


def test_what_cannot_be_streamed_is_told():
    graph = products(2)
    with pytest.raises(PlanError, match=r"stream 'v\*' matches no input"):
        plan(graph, PAIR, stream=["v*"])
    with pytest.raises(InputError, match="stay on a host"):
        plan(graph, ["tt:0"], stream=["w0"])
    with pytest.raises(InputError, match="list of globs"):
        plan(graph, PAIR, stream="w0")
    b = gr.GraphBuilder()
    state = b.input("state", (4, 4))
    new = b.op("relu", state)
    b.output(new)
    b.alias(new, state)
    with pytest.raises(PlanError, match="an output is written into it"):
        plan(b.build(), PAIR, stream=["state"])
    with pytest.raises(CapacityError):
        plan(products(8), small(0.1)[1:], placement="mincut", stream=["auto"])
