"""Simulated timelines: what must hold of every one, and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import costs
from graph_runtime.base.errors import InputError
from graph_runtime.base.machine.devices import parse
from graph_runtime.plan import plan
from graph_runtime.plan.queues.lanes import lanes
from graph_runtime.simulation.simulation import node_times, simulate
from graph_runtime.testing.graphs import random_graph

DEVICES = ["cpu:0", "tt:0", "tt:1"]
COLUMNS = ("queue", "run", "nid", "start", "end", "dispatch", "basis", "cause", "chain")


def made(seed: int, nodes: int = 30):
    return plan(random_graph(np.random.default_rng(seed), DEVICES, nodes=nodes), DEVICES)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("runs", [1, 3])
def test_a_queue_runs_one_event_at_a_time_in_order(seed, runs):
    found = simulate(made(seed), runs=runs)
    for q in range(len(found.queues)):
        rows = np.flatnonzero(found.queue == q)
        assert (found.start[rows][1:] >= found.end[rows][:-1]).all()


@pytest.mark.parametrize("seed", range(12))
def test_every_wait_and_every_value_is_respected(seed):
    planned = made(seed)
    found, cut = simulate(planned, runs=2), lanes(planned)
    count = len(cut.nid)
    for run in range(2):
        for i in range(count):
            for j in cut.wait[cut.wait_ptr[i] : cut.wait_ptr[i + 1]].tolist():
                assert found.end[run * count + j] <= found.start[run * count + i]
    graph, end = planned.graph, np.zeros(planned.graph.num_nodes, np.int64)
    for nid, start, stop in zip(found.nid[:count], found.start[:count], found.end[:count], strict=True):
        made_by = graph.entry_nid[graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]]]
        assert (end[made_by] <= start).all()
        end[nid] = stop


@pytest.mark.parametrize("seed", range(12))
def test_the_makespan_lies_between_the_critical_path_and_the_serial_sum(seed):
    found = simulate(made(seed))
    assert found.critical_ns <= found.makespan_ns <= int(found.duration.sum())
    assert int(found.duration[found.limiting].sum()) == found.makespan_ns


@pytest.mark.parametrize("seed", range(4))
def test_equal_plans_give_equal_bytes(seed):
    one, other = (simulate(made(seed), runs=2) for _ in range(2))
    for column in COLUMNS:
        assert getattr(one, column).tobytes() == getattr(other, column).tobytes()


def test_several_runs_overlap_and_no_run_overtakes_its_bound():
    planned = made(5)
    one, many, single = simulate(planned), simulate(planned, runs=6), simulate(planned, runs=6, in_flight=1)
    assert many.makespan_ns <= 6 * one.latency_ns == single.makespan_ns
    assert many.throughput >= single.throughput * 0.999
    for run in range(1, 6):
        assert single.start[single.run == run].min() >= single.end[single.run == run - 1].max()


def two_matmuls():
    b = gr.GraphBuilder()
    x = b.input("x", (256, 512), device="cpu:0")
    h = b.op("matmul", x, b.input("w", (512, 512)), name="first", device="tt:0")
    b.output(b.op("matmul", h, b.input("v", (512, 64)), name="second", device="tt:0"))
    return gr.load_graph(b.to_json())


def test_ttnn_pays_for_each_op_what_starting_it_takes():
    planned = plan(two_matmuls(), ["cpu:0", "tt:0=n150"])
    traced, untraced = simulate(planned), simulate(planned, traced=False)
    board = planned.devices[1].descriptor
    ops = 2
    more = costs.dispatch_ns(board, traced=False).cycles - costs.dispatch_ns(board).cycles
    assert untraced.latency_ns - traced.latency_ns == round(ops * more)
    rows = [r for r in traced.nodes() if r["op"] == "matmul"]
    assert {r["dispatch_ns"] for r in rows} == {round(costs.dispatch_ns(board).cycles)}


def test_times_are_those_of_the_costs():
    planned = plan(two_matmuls(), ["cpu:0", "tt:0=n150"])
    nid = planned.graph.names.index("first")
    graph = planned.graph
    layouts = [planned.layout(e) for e in (*graph.node(nid).inputs, *graph.node(nid).outputs)]
    expected = costs.node_cost(graph, nid, planned.devices[1], layouts)
    ns, _, basis = node_times(planned, np.array([nid]))
    row = next(r for r in simulate(planned).nodes() if r["nid"] == nid)
    assert row["bytes"] == (256 * 512 + 512 * 512 + 256 * 512) * 4
    assert ns[0] == round(expected.cycles)
    assert basis[0] >= costs.BASES.index(expected.basis)


def test_copies_of_inputs_are_part_of_a_run_that_sets_them():
    planned = plan(two_matmuls(), ["cpu:0", "tt:0=n150"])
    without, having = simulate(planned), simulate(planned, inputs=["x"])
    assert len(having) == len(without) + 1
    assert having.latency_ns > without.latency_ns
    assert having.queues[0] == (1, "copy_in")


def test_shares_and_utilisation_are_shares():
    found = simulate(made(7), runs=2)
    assert sum(found.basis_shares().values()) == pytest.approx(1)
    assert ((found.utilisation >= 0) & (found.utilisation <= 1)).all()


def test_a_graph_of_inputs_alone_takes_no_time():
    b = gr.GraphBuilder()
    b.output(b.input("x", (4,)))
    found = simulate(plan(gr.load_graph(b.to_json()), ["cpu:0"]), runs=3)
    assert (len(found), found.latency_ns, found.makespan_ns, found.critical_ns) == (0, 0, 0, 0)
    assert found.summary()["critical_path"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"runs": 0}, "runs"),
        ({"in_flight": 0}, "in_flight"),
        ({"runs": "3"}, "runs is '3'"),
        ({"runs": 1 << 40}, "fewer runs"),
        ({"inputs": ["y"]}, "there are: v, w, x"),
    ],
)
def test_bad_options_say_what_is_wrong(options, said):
    with pytest.raises(InputError, match=said):
        simulate(plan(two_matmuls(), ["cpu:0", "tt:0=n150"]), **options)


def test_what_is_no_plan_is_told():
    with pytest.raises(InputError, match="simulate takes a Plan, got GraphBuilder"):
        simulate(gr.GraphBuilder())


# **************** ops that are resident together ****************


@pytest.fixture(scope="module")
def epochs():
    """A chain of products on a Grayskull, cut by the balancer."""
    b = gr.GraphBuilder(device="tt:0")
    x = b.input("x", (256, 256))
    for i in range(6):
        x = b.op("matmul", x, b.input(f"w{i}", (256, 256)), name=f"mm{i}")
    b.output(x)
    return plan(gr.load_graph(b.to_json()), ["tt:0=e150"], policy="nlp")


def test_epochs_follow_one_another_and_their_ops_run_side_by_side(epochs):
    found, runs = simulate(epochs, runs=5), 5
    balanced = epochs.balanced[0]
    ends = np.zeros(len(balanced.epoch_cycles), np.int64)
    starts = np.full(len(ends), np.iinfo(np.int64).max)
    which = found.epoch[found.nid]
    np.maximum.at(ends, which, found.end)
    np.minimum.at(starts, which, found.start)
    assert (starts[1:] >= ends[:-1]).all()
    clock = epochs.devices[0].descriptor.clock_mhz
    least = sum(round(int(c) * 1000 / clock) * runs for c in balanced.epoch_cycles)
    assert least <= found.makespan_ns <= int(found.duration.sum())
    if len(ends) < 6:  # ops of one epoch overlap over runs
        assert found.makespan_ns < int(found.duration.sum())


def test_a_resident_op_takes_one_input_after_the_other(epochs):
    found = simulate(epochs, runs=4)
    for nid in np.unique(found.nid):
        rows = np.flatnonzero(found.nid == nid)
        assert (found.start[rows][1:] >= found.end[rows][:-1]).all()
    assert int(found.duration[found.limiting].sum()) == found.makespan_ns
    assert not found.dispatch.any()


def test_throughput_through_epochs_is_that_of_the_slowest_op_of_each(epochs):
    few, many = simulate(epochs, runs=2), simulate(epochs, runs=200)
    ideal = epochs.devices[0].descriptor.clock_mhz * 1e6 / epochs.balanced[0].total
    assert few.throughput < many.throughput <= ideal * 1.001
    assert many.throughput == pytest.approx(ideal, rel=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_the_hosts_turn_lies_between_a_run_and_the_next(seed):
    turn, planned = 700_000, made(seed)
    alone, found = simulate(planned), simulate(planned, runs=3, turn_ns=turn)
    for run in (1, 2):
        assert found.start[found.run == run].min() == found.run_ends[run - 1] + turn
    assert found.throughput == pytest.approx(1e9 / (alone.latency_ns + turn), rel=1e-3)
    one = simulate(planned, turn_ns=turn)
    assert (one.latency_ns, one.throughput) == (alone.latency_ns, 1e9 / (alone.makespan_ns + turn))


@pytest.mark.parametrize("turn", [-1.0, float("nan"), float("inf"), "5"])
def test_a_turn_that_is_no_time_is_refused(turn):
    with pytest.raises(InputError, match=r"turn_ns is .*, must be a number of ns from 0"):
        simulate(made(0), turn_ns=turn)


def test_one_host_serves_cards_one_after_another():
    buda, ttnn = (parse(f"tt:0={name}").descriptor for name in ("wormhole_b0/buda", "n150"))
    assert costs.host_turn_ns(buda, cards=4).cycles == 4 * costs.host_turn_ns(buda).cycles > 0
    assert costs.host_turn_ns(ttnn).cycles == 0
