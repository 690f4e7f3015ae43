"""Contiguous cuts against brute force over all cuts, and that throughput grows with the devices."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.machine.topology import Topology
from graph_runtime.base.options import Options
from graph_runtime.costs import CostModel
from graph_runtime.plan.placing import decide, evaluate, make_problem
from graph_runtime.plan.placing.bounds import lower_bound
from graph_runtime.plan.placing.cuts import pair_bound, shared_bound
from graph_runtime.plan.placing.exact import solve
from graph_runtime.plan.placing.pipeline import contiguous, reseat
from graph_runtime.plan.pricing import Pricing
from graph_runtime.testing.placing import random_problem
from graph_runtime.views.placement import text


def _chain(length, shape=(512, 1024)):
    b = gr.GraphBuilder()
    x = b.input("x", shape)
    for i in range(length):
        x = b.op("relu", b.op("matmul", x, b.param(f"w{i}", (shape[1], shape[1]))))
    b.output(x)
    return b.build()


def _blocks(count):
    b = gr.GraphBuilder()
    x = b.input("x", (512, 1024))
    for i in range(count):
        y = b.op("relu", b.op("matmul", x, b.param(f"u{i}", (1024, 1024))))
        x = b.op("relu", b.op("add", x, b.op("matmul", y, b.param(f"v{i}", (1024, 1024)))))
    b.output(x)
    return b.build()


def _ring(count):
    """Chips in a ring, each cabled to the next."""
    lanes = {}
    for chip in range(count):
        lanes[chip, (chip + 1) % count] = lanes[(chip + 1) % count, chip] = 2
    hosts = tuple((chip,) for chip in range(count))
    return CostModel(topology=Topology("ring", "wormhole_b0", count, lanes, hosts, 11.78, 600))


def _equal_devices(seed, room=None):
    """A random problem on three chips that differ in nothing."""
    rng = np.random.default_rng(seed)
    problem = random_problem(
        rng, ("tt:0", "tt:1", "tt:2"), nodes=9, reach=3, unsupported=0, pinned=0, room=room and (room,) * 3
    )
    cost = np.repeat(problem.cost[:, :1], 3, 1)
    copy = np.repeat(np.repeat(problem.copy[:, :1, 1:2], 3, 1), 3, 2)
    copy[:, np.arange(3), np.arange(3)] = 0
    return replace(problem, cost=cost, copy=copy, objective="throughput")


def _cuts(problem):
    count = problem.num_nodes
    pairs = itertools.combinations_with_replacement(range(count + 1), 2)
    return np.array([np.searchsorted([a, b], np.arange(count), side="right") for a, b in pairs], np.int16)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_contiguous_cut_is_found(seed):
    problem = _equal_devices(seed)
    found = evaluate(problem, np.stack(contiguous(problem))).min()
    assert found == evaluate(problem, _cuts(problem)).min()


@pytest.mark.parametrize("seed", range(10))
def test_stages_have_room(seed):
    problem = _equal_devices(seed, room=300)
    for did in contiguous(problem):
        held = problem.room.excess(did[None])[0]
        assert held == 0 or (problem.room.excess(_cuts(problem)) > 0).any()


@pytest.mark.parametrize(
    "policy", ["heft", *(pytest.param(p, marks=pytest.mark.slow) for p in ("greedy", "mincut"))]
)
@pytest.mark.parametrize("graph", [_chain(24), _blocks(12)], ids=["chain", "blocks"])
def test_throughput_is_near_the_bound_on_every_number_of_chips(graph, policy):
    last = None
    for count in (2, 4, 6, 12):
        devices = parse_list([f"tt:{i}" for i in range(count)])
        problem = make_problem(graph, devices, Pricing(Options(objective="throughput", costs=_ring(count))))
        ns = int(evaluate(problem, decide(problem, policy)[None])[0])
        assert lower_bound(problem) <= ns <= 1.1 * lower_bound(problem), count
        assert last is None or ns < last
        last = ns


@pytest.mark.slow
def test_forty_eight_devices_are_placed():
    devices = parse_list([f"tt:{i}" for i in range(48)])
    problem = make_problem(_chain(48), devices, Pricing(Options(objective="throughput", costs=_ring(48))))
    ns = int(evaluate(problem, decide(problem, "heft")[None])[0])
    assert ns <= 1.1 * lower_bound(problem)


@pytest.mark.parametrize("seed", range(30))
def test_bounds_of_three_unequal_devices(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, ("cpu:0", "cpu:1", "tt:0"), nodes=7, reach=2 + seed % 3)
    problem = replace(problem, copy=problem.copy * (1 + seed % 4))
    rows = np.array(list(itertools.product(*[np.flatnonzero(row) for row in problem.allowed])), np.int16)
    for objective in ("serial", "makespan", "throughput"):
        other = replace(problem, objective=objective)
        assert lower_bound(other) <= evaluate(other, rows).min(), objective
        assert objective == "serial" or shared_bound(other) <= evaluate(other, rows).min()
    assert pair_bound(problem) <= evaluate(problem, rows).min()


def test_serial_time_over_three_devices_says_its_gap():
    placed = gr.place(_chain(20), ["cpu:0", "tt:0", "tt:1"], placement="mincut")
    row = placed.summary()["predictions"][0]
    assert 0 < row["bound_ns"] <= row["ns"]
    assert row["gap_percent"] == round(100 * (row["ns"] / row["bound_ns"] - 1), 1)
    assert f"{row['gap_percent']} %" in text(placed)


def _chained(seed):
    """Nodes that read the one before, and some an earlier one; chips that differ in nothing, in a row."""
    rng = np.random.default_rng(seed)
    nodes, k = 8, 3
    problem = random_problem(rng, ("tt:0", "tt:1", "tt:2"), nodes=nodes, reach=1, unsupported=0, pinned=0)
    reads = [(n - 1, n) for n in range(1, nodes)]
    reads += [(int(rng.integers(0, n - 1)), n) for n in range(2, nodes) if rng.random() < 0.4]
    value, nid = np.array(sorted(reads, key=lambda pair: (pair[1], pair[0]))).T
    way = rng.integers(0, 61, nodes)[:, None, None] * (1 - np.eye(k, dtype=np.int64))
    links = np.zeros((k, k, 4), bool)  # 0>1, 1>2, 1>0, 2>1
    for a, b, taken in ((0, 1, [0]), (1, 2, [1]), (0, 2, [0, 1]), (1, 0, [2]), (2, 1, [3]), (2, 0, [2, 3])):
        links[a, b, taken] = True
    return replace(
        problem,
        cost=np.repeat(rng.integers(0, 101, (nodes, 1)), k, 1),
        copy=way,
        use_value=value,
        use_nid=nid,
        links=links,
        objective="throughput",
    )


def _everywhere(problem):
    rows = itertools.product(range(problem.num_devices), repeat=problem.num_nodes)
    return np.array(list(rows), np.int16)


@pytest.mark.parametrize("seed", range(6))
def test_no_placement_of_a_chain_goes_below_its_bound(seed):
    problem = _chained(seed)
    best = int(evaluate(problem, _everywhere(problem)).min())
    assert lower_bound(problem) <= best
    assert solve(problem, np.zeros(problem.num_nodes, np.int16)).ns == best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 60))
def test_no_placement_of_many_chains_goes_below_its_bound(seed):
    problem = _chained(seed)
    assert lower_bound(problem) <= int(evaluate(problem, _everywhere(problem)).min())


def test_a_device_that_is_needed_twice_is_as_slow_as_what_lies_between():
    """Three nodes of 10 in a chain: on one device 30; the first and the last on one and a copy of 5 each way
    between: 40, though no queue has more than 20 of work."""
    problem = _chained(0)
    count = problem.num_nodes
    line = replace(
        problem,
        cost=np.where(np.arange(count) < 3, 10, 0)[:, None].repeat(3, 1),
        copy=np.broadcast_to(5 * (1 - np.eye(3, dtype=np.int64)), (count, 3, 3)).copy(),
        use_value=np.arange(2),
        use_nid=np.arange(1, 3),
    )
    rest = [0] * (count - 3)
    rows = np.array([[0, 0, 0, *rest], [0, 1, 0, *rest], [0, 1, 2, *rest]], np.int16)
    assert evaluate(line, rows).tolist() == [30, 40, 10]


def test_seats_spare_links_that_are_shared():
    """Chips in a row: share 0 sends one value to share 1 and three to share 2. In the order of their numbers
    the first link carries all four, with share 0 in the middle the busier link three."""
    problem = _chained(1)
    count = problem.num_nodes
    line = replace(
        problem,
        cost=np.ones((count, 3), np.int64),
        copy=np.broadcast_to(9 * (1 - np.eye(3, dtype=np.int64)), (count, 3, 3)).copy(),
        use_value=np.array([0, 0, 1, 2]),
        use_nid=np.array([3, 4, 5, 6]),
    )
    did = np.array([0, 0, 0, 1, 2, 2, 2, 2], np.int16)
    rows = np.stack([did, *reseat(line, did)])
    assert evaluate(line, rows).tolist() == [36, 27, 27]
    for row in rows:  # each share is whole
        assert [len(set(row[did == share].tolist())) for share in range(3)] == [1, 1, 1]
        assert len(set(row.tolist())) == 3
