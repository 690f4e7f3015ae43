"""Placement counts bytes: against brute force where memories are tiny, and where weights do not fit."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.errors import CapacityError, PlanError
from graph_runtime.base.machine.devices import parse, parse_list
from graph_runtime.plan import plan
from graph_runtime.plan.placing import OBJECTIVES, PLACEMENT_POLICIES, decide, evaluate, make_problem
from graph_runtime.plan.placing.bounds import lower_bound
from graph_runtime.plan.placing.cuts import pair_bound, priced, shared_bound
from graph_runtime.plan.placing.exact import solve
from graph_runtime.plan.placing.rows import predictions
from graph_runtime.plan.placing.schedule import NO_ROOM
from graph_runtime.plan.placing.search import singles
from graph_runtime.plan.supports import circular_room
from graph_runtime.study.baselines import BASELINES
from graph_runtime.testing.placing import random_problem

pytestmark = pytest.mark.core  # kernels say what circular buffers they open

_DEVICES = (("cpu:0", "tt:0"), ("cpu:0", "cpu:1", "tt:0"))

SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 24))]


def _problem(seed):
    """A small problem with room for about half of what random placements hold, its objective by the seed."""
    rng = np.random.default_rng(seed)
    devices = _DEVICES[seed % 2]
    nodes = int(rng.integers(4, (10, 7)[seed % 2]))
    room = tuple(rng.integers(10 * nodes, 40 * nodes, len(devices)).tolist())
    l1 = tuple(rng.integers(50, 20 * nodes + 60, len(devices)).tolist()) if seed % 4 > 1 else None
    problem = random_problem(rng, devices, nodes=nodes, room=room, l1=l1)
    return replace(problem, objective=OBJECTIVES[seed % 3])


def _all(problem):
    options = [np.flatnonzero(row) for row in problem.allowed]
    return np.array(list(itertools.product(*options)), np.int16)


def _held(problem, did):
    """Bytes missing, counted value by value and moment by moment."""
    room, count = problem.room, problem.num_nodes
    missing = 0
    for store, device in enumerate(room.device.tolist()):
        resident = {int(which) for nid, which in room.resident_uses if did[nid] == device}
        held = sum(int(room.resident[which, store]) for which in resident)
        held += max((int(room.circular[nid, store]) for nid in range(count) if did[nid] == device), default=0)
        peak = 0
        for moment in range(count):
            now = 0
            for value, owner in enumerate(room.live_owner.tolist()):
                readers = [int(nid) for nid, which in room.live_uses if which == value]
                ends = [nid for nid in readers if device in (did[nid], did[owner])]
                if did[owner] == device:
                    ends.append(count if room.live_end[value] else owner)
                now += int(room.live[value, store]) * (owner <= moment <= max(ends, default=-1))
            peak = max(peak, now)
        missing += max(held + peak - int(room.available[store]), 0)
    return missing


@pytest.mark.parametrize("seed", range(6))
def test_bytes_are_counted_as_one_by_one(seed):
    problem = _problem(seed)
    rows = _all(problem)[:: max(len(_all(problem)) // 40, 1)]
    assert problem.room.excess(rows).tolist() == [_held(problem, row) for row in rows]
    partly = rows.copy()
    partly[:, problem.num_nodes // 2 :] = -1
    assert (problem.room.excess(partly) <= problem.room.excess(rows)).all()


def _decide_what_does_not_fit(problem, name):
    """Refused, but where only activations are over: those a plan counts by itself."""
    try:
        did = decide(problem, name)
    except CapacityError:
        return
    room = problem.room
    assert (room.parameters(did[None])[0] + room.buffers(did[None])[0] <= room.available).all()


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_policies_find_what_fits_or_say_that_nothing_does(seed):
    problem = _problem(seed)
    best = int(evaluate(problem, _all(problem)).min())
    for name in PLACEMENT_POLICIES:
        if best >= NO_ROOM:
            _decide_what_does_not_fit(problem, name)
            continue
        ns = int(evaluate(problem, decide(problem, name)[None])[0])
        assert best <= ns < NO_ROOM, name
        if name == "optimal":
            assert ns == best


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_are_below_all_that_fits(seed):
    problem = _problem(seed)
    rows = _all(problem)
    for objective in OBJECTIVES:
        other = replace(problem, objective=objective)
        best = int(evaluate(other, rows).min())
        assert lower_bound(other) <= best
        if objective == "serial":
            assert priced(other, singles(other))[1] <= best
            assert pair_bound(other) <= best
        else:
            assert shared_bound(other) <= best
        exact = solve(other, rows[0])
        assert exact.bound <= best
        if best < NO_ROOM:
            row = predictions(other, exact.did)[OBJECTIVES.index(objective)]
            assert row["bound_ns"] <= best
            assert row["status"] != "optimal" or row["ns"] == best


def _products(count, width=1024):
    b = gr.GraphBuilder()
    x = b.input("x", (32, width))
    for i in range(count):
        x = b.op("relu", b.op("matmul", x, b.param(f"w{i}", (width, width))))
    b.output(x)
    return b.build()


def _chip(weights):
    """tt:0 with DRAM for so many of the weights, and a few activations."""
    device = parse("tt:0")
    memory = device.main_memory
    budget = weights * 1024 * 1024 * 4 // memory.banks + (256 << 10)
    memories = (replace(memory, budget=budget), *device.descriptor.memories[1:])
    return replace(device, descriptor=replace(device.descriptor, memories=memories))


@pytest.mark.slow
@pytest.mark.parametrize("policy", PLACEMENT_POLICIES)
def test_weights_beyond_the_dram_of_a_device_run_on_the_host(policy):
    graph, devices = _products(14), ["cpu:0", _chip(9)]
    assert not gr.place(graph, ["cpu:0", "tt:0"], placement=policy).did.tolist() == [0] * graph.num_nodes
    placed = gr.place(graph, devices, placement=policy)
    assert len(set(placed.did.tolist())) == 2
    made = plan(graph, devices, placed=placed)
    assert 0 < made.peak[1, 0] <= placed.problem.room.available[1]
    assert placed.summary()["predictions"][0]["single"] == "cpu:0"


def test_what_fits_nowhere_says_what_is_missing():
    with pytest.raises(
        CapacityError,
        match=r"tt:0 needs .* \(parameters and inputs .* B\), the first \d+ of its 28 nodes would fit; ch",
    ) as caught:
        gr.place(_products(14), [_chip(9)], placement="greedy")
    fields = caught.value.fields
    assert fields["needed"] == fields["parameters"] + fields["activations"] > fields["available"]
    with pytest.raises(CapacityError, match="fewer pins to tt:0"):
        gr.place(_products(14), ["cpu:0", _chip(9)], placement="greedy", pins={"matmul*": "tt:0"})


def test_a_policy_of_ones_own_is_checked():
    def everything(problem):
        return np.ones(problem.num_nodes, np.int64)

    with pytest.raises(CapacityError, match="policy everything found no placement that fits"):
        gr.place(_products(14), ["cpu:0", _chip(9)], placement=everything)


def test_a_shared_weight_counts_once_a_device():
    b = gr.GraphBuilder()
    x, w = b.input("x", (32, 1024)), b.param("w", (1024, 1024))
    for _ in range(4):
        x = b.op("matmul", x, w)
    b.output(x)
    room = gr.place(b.build(), ["cpu:0", "tt:0"], placement="single").problem.room
    nodes = len(room.most_live)
    held = room.parameters(np.zeros((1, nodes), np.int64))[0]
    assert held.tolist() == [4 * 1024 * 1024 + 4 * 32 * 1024, 0]


def test_a_plan_that_does_not_fit_says_how_much_is_of_what():
    with pytest.raises(CapacityError, match=r"parameters and inputs .* B of them and activations") as caught:
        plan(_products(14), [_chip(9)])
    fields = caught.value.fields
    assert fields["needed"] == fields["parameters"] + fields["activations"] > fields["available"]
    assert fields["parameters"] > 10 * fields["activations"] > 0


def test_what_fits_only_where_outputs_take_over_inputs_is_not_refused():
    b = gr.GraphBuilder()
    y = b.op("tanh", b.input("x", (1024, 1024)))
    for _ in range(4):
        y = b.op("relu", y)
    b.output(y)
    board = _chip(2)  # x and one more of 4 MiB each, not two
    planned = plan(b.build(), [board], placement="mincut")
    room = planned.placement.problem.room
    assert room.excess(planned.placement.did[None])[0] > 0
    assert planned.peak[0, 0] <= room.available[0]


# **************** circular buffers and tensors in L1 ****************


def _long_rows(count=3):
    """Functions of rows of 500,000 floats, of which a tt kernel keeps a whole one in L1: more than it has."""
    b = gr.GraphBuilder()
    y = b.op("matmul", b.input("x", (64, 64)), b.param("w", (64, 64)))
    z = b.input("z", (500_000,))
    for _ in range(count):
        z = b.op("tanh", z)
    b.output(y, z)
    return b.build()


@pytest.mark.parametrize("policy", [*PLACEMENT_POLICIES, *BASELINES.values()])
def test_what_opens_more_than_a_core_has_runs_elsewhere(policy):
    problem = make_problem(_long_rows(), parse_list(["cpu:0", "tt:0"]))
    rows = decide(problem, policy)
    long = np.array([problem.graph.node(n).op == "tanh" for n in range(problem.num_nodes)])
    assert (rows[long] == 0).all()
    assert (problem.circular[long, 1] > circular_room(problem.devices[1])).all()
    assert not problem.circular[:, 0].any()


def test_what_a_node_opens_is_what_its_plan_says():
    graph = _products(3, 512)
    layouts, numerics = {"relu": "l1", "matmul_1": "l1/row_major"}, {"tt": {"dst": "bf16"}}
    planned = gr.prepare(
        graph, ["cpu:0", "tt:0"], placement="single", layouts=layouts, numerics=numerics
    ).plan
    opened = planned.placement.problem.circular[:, 1]
    of = {name: nid for nid, name in enumerate(graph.names)}
    assert planned.circular.any()
    for nid, name in enumerate(planned.graph.names):
        if planned.circular[nid]:
            assert opened[of[name]] == planned.circular[nid], name


def test_what_opens_too_much_on_every_device_says_so():
    with pytest.raises(
        CapacityError, match=r"'tanh' .* opens \d+ B .* whose L1 has \d+ B, and no other"
    ) as caught:
        gr.place(_long_rows(), ["tt:0", "tt:1"], placement="greedy")
    fields = caught.value.fields
    assert fields["needed"] > fields["available"]
    assert fields["memory"] == "l1"
    with pytest.raises(CapacityError, match="it is pinned to tt:0"):
        gr.place(_long_rows(), ["cpu:0", "tt:0"], placement="greedy", pins={"tanh": "tt:0"})


@pytest.mark.parametrize("policy", PLACEMENT_POLICIES)
@pytest.mark.parametrize("tiles", [200, 300])
def test_tensors_in_l1_leave_room_for_circular_buffers(policy, tiles):
    b = gr.GraphBuilder()
    held = b.op("relu", b.input("a", (32 * tiles, 2048)), name="held")
    b.output(b.op("exp", held, name="out"))
    graph, layouts = b.build(), {"held": "l1"}
    planned = gr.prepare(graph, ["cpu:0", "tt:0"], placement=policy, layouts=layouts).plan
    at = planned.graph.names.index("held")
    assert planned.did[at] == (1 if tiles == 200 else 0)
    assert (tiles == 300) == any("as the placement policy decided" in text for text in planned.warnings)


def test_tensors_that_leave_no_room_say_what_would_fit():
    b = gr.GraphBuilder()
    a = b.input("a", (32 * 300, 2048))
    b.output(b.op("exp", a, name="out"))
    with pytest.raises(
        CapacityError,
        match=r"tt:0 l1 needs .* B, of node 'out'\), the first 0 of its 1 nodes would fit; change: fewer",
    ) as caught:
        gr.place(b.build(), ["tt:0"], placement="greedy", layouts={"a": "l1"})
    fields = caught.value.fields
    assert (fields["device"], fields["memory"]) == ("tt:0", "l1")
    parts = fields["parameters"], fields["activations"], fields["circular"]
    assert fields["needed"] == sum(parts) > fields["available"] == circular_room(parse("tt:0"))


def test_place_and_simulate_price_tensors_in_l1_alike():
    graph, layouts = _products(4, 512), {"relu*": "l1"}
    near, far = (
        gr.prepare(graph, ["cpu:0", "tt:0"], placement="single", layouts=said).plan for said in (layouts, {})
    )
    for planned in (near, far):
        said = {row["objective"]: row["ns"] for row in planned.placement.summary()["predictions"]}
        assert gr.simulate(planned).end.max() == said["makespan"]
    assert near.placement.problem.cost.tolist() != far.placement.problem.cost.tolist()


def test_a_wish_that_nothing_can_follow_is_refused():
    with pytest.raises(
        PlanError, match=r"cannot have on tt:0 the layout that 'relu\*' asks for: .*no rectangle"
    ):
        gr.place(_products(2), ["cpu:0", "tt:0"], placement="mincut", layouts={"relu*": "block[99x99]"})
