"""Copies over the links of a topology: how long by hand, one after another where they share a link."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graph_runtime import GraphBuilder
from graph_runtime.base.errors import InputError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.machine.topology import Topology, find_topology
from graph_runtime.costs import CostModel
from graph_runtime.plan import plan
from graph_runtime.plan.passes import place
from graph_runtime.simulation.estimate import bounds
from graph_runtime.simulation.simulation import simulate

NBYTES = 1024 * 1024 * 4


def line(chips: int = 3, **more):
    """Chips in a row, 10 GB/s between two, 500 ns a hop; each has a link to the host."""
    pairs = {(a, a + 1): 1 for a in range(chips - 1)}
    lanes = pairs | {(b, a): n for (a, b), n in pairs.items()}
    words = {"host": tuple((c,) for c in range(chips)), "lane_gb_per_s": 10.0, "hop_ns": 500.0} | more
    return Topology("line", "wormhole_b0", chips, lanes, **words)


def sent(to, topology, at="tt:0", count=1):
    """The timeline of ``count`` tensors that one chip makes and another reads."""
    b = GraphBuilder()
    x = b.input("x", (1024, 1024))
    for _ in range(count):
        b.output(b.op("tanh", b.op("relu", x, device=at), device=to))
    return simulate(plan(b.build(), ["tt:0", "tt:1", "tt:2"], topology=topology, reuse="safe"))


def of_copies(timeline):
    return timeline.start[timeline.is_copy], timeline.end[timeline.is_copy]


class Timed(CostModel):
    """Copies of a topology; nodes of 1000 ns that nothing has to start."""

    def node(self, graph, nid, device, layouts, **more):
        return 1000

    def dispatch(self, device, *, traced=True):
        return 0


def test_a_hop_takes_its_time_and_the_bytes_theirs():
    for to, hops in (("tt:1", 1), ("tt:2", 2)):
        timeline = sent(to, line())
        (begin,), (end,) = of_copies(timeline)
        assert end - begin == round(500 * hops + NBYTES / 10)
        (copy,) = timeline.nid[timeline.is_copy].tolist()
        assert bounds(timeline)[copy] == "ethernet"


@pytest.mark.parametrize("field", ["lane_gb_per_s", "hop_ns"])
def test_every_rate_moves_what_rests_on_it(field):
    times = []
    for factor in (0.25, 1, 4):
        one = line(**{field: getattr(line(), field) * factor})
        begin, end = of_copies(sent("tt:2", one))
        times.append(int((end - begin).sum()))
    assert len(set(times)) == 3
    assert times == sorted(times, reverse=field == "lane_gb_per_s")


def test_copies_over_one_link_follow_each_other_and_those_over_others_do_not():
    """tt:0 -> tt:2 and tt:1 -> tt:2 meet on the link 1>2; tt:0 -> tt:1 and tt:2 -> tt:1 do not meet."""
    b = GraphBuilder()
    x = b.input("x", (1024, 1024))
    b.output(b.op("tanh", b.op("relu", x, device="tt:0"), device="tt:2"))
    b.output(b.op("exp", b.op("relu", x, device="tt:1"), device="tt:3"))
    timeline = simulate(plan(b.build(), [f"tt:{i}" for i in range(4)], costs=Timed(None, line(4))))
    begin, end = of_copies(timeline)
    assert begin.tolist() == [1000, end[0]], "both hold 1>2"
    assert {row["link"]: row["copies"] for row in timeline.link_rows()} == {"0>1": 1, "1>2": 2, "2>3": 1}
    b = GraphBuilder()
    x = b.input("x", (1024, 1024))
    b.output(b.op("tanh", b.op("relu", x, device="tt:0"), device="tt:1"))
    b.output(b.op("exp", b.op("relu", x, device="tt:3"), device="tt:2"))
    timeline = simulate(plan(b.build(), [f"tt:{i}" for i in range(4)], costs=Timed(None, line(4))))
    begin, end = of_copies(timeline)
    assert begin.tolist() == [1000, 1000]


def test_chips_share_a_link_to_the_host():
    b = GraphBuilder()
    for i in range(2):
        b.output(b.op("tanh", b.op("relu", b.input(f"x{i}", (1024, 1024)), device="cpu:0"), device=f"tt:{i}"))
    graph, devices = b.build(), ["cpu:0", "tt:0", "tt:1"]
    for host, together in ((((0,), (1,)), True), (((0, 1),), False), (((0,),), False)):
        timeline = simulate(plan(graph, devices, costs=Timed(None, line(2, host=host)), reuse="safe"))
        begin, end = of_copies(timeline)
        assert (begin[1] < end[0]) == together, host


def test_runs_pass_each_other_on_a_link_where_there_is_room():
    """A run's last copy is late; the first of the next need not wait for it, and none overlap."""
    b = GraphBuilder()
    x = b.input("x", (1024, 1024))
    y = b.op("relu", b.op("tanh", x, device="tt:0"), device="tt:1")
    b.output(b.op("exp", y, device="tt:2"))
    planned = plan(b.build(), ["tt:0", "tt:1", "tt:2"], costs=Timed(None, line(3)), reuse="safe")
    one, many = simulate(planned), simulate(planned, runs=6)
    assert many.makespan_ns < 6 * one.makespan_ns
    for at, name in enumerate(many.links):
        rows = np.flatnonzero([at in links for links in many.held] * 6)
        order = np.argsort(many.start[rows])
        assert (many.start[rows][order][1:] >= many.end[rows][order][:-1]).all(), name


def test_a_predicted_period_is_that_of_the_simulated_runs():
    """A device that is needed early and late in a run holds up the next, which the busiest queue alone does
    not show."""
    b = GraphBuilder()
    x = b.input("x", (256, 256))
    for i in range(6):
        x = b.op("matmul", x, b.param(f"w{i}", (256, 256)), name=f"node{i}")
    b.output(x)
    graph, devices = b.build(), parse_list(["tt:0", "tt:1", "tt:2"])
    for way, late in (([0, 0, 1, 1, 2, 2], False), ([0, 1, 1, 2, 2, 0], True)):
        pins = {f"node{i}": str(devices[d]) for i, d in enumerate(way)}
        placed = place(graph, devices, pins=pins, placement="single", topology=line(3))
        said = {row["objective"]: row["ns"] for row in placed.summary()["predictions"]}
        timeline = simulate(plan(graph, devices, placed=placed, reuse="safe"), runs=8)
        assert said["throughput"] == pytest.approx(1e9 / timeline.throughput, rel=0.01)
        busiest = max(row["busy_ns"] for row in timeline.summary()["queues"]) / 8
        assert (said["throughput"] > 1.5 * busiest) == late


def test_without_a_topology_tensors_go_by_the_host():
    by_host, cabled = sent("tt:1", None), sent("tt:1", line())
    (copy,) = by_host.nid[by_host.is_copy].tolist()
    assert bounds(by_host)[copy] == "PCIe"
    assert by_host.duration[by_host.is_copy].sum() > cabled.duration[cabled.is_copy].sum()
    assert by_host.links == ()


def test_devices_that_the_topology_does_not_have_are_told():
    graph = GraphBuilder()
    graph.output(graph.op("relu", graph.input("x", (32, 32))))
    with pytest.raises(InputError, match=r"tt:2 is not of topology n300"):
        place(graph.build(), ["tt:0", "tt:2"], placement="mincut", topology="n300")
    assert place(graph.build(), ["tt:0", "tt:1"], placement="mincut", topology="n300").did is not None
    halved = replace(find_topology("n300"), lane_gb_per_s=1.0)
    assert halved.way(0, 1).gb_per_s == 1.0
