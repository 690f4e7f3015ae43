"""Placement counts bytes: against brute force where memories are tiny, and where weights do not fit."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.errors import CapacityError
from graph_runtime.base.machine.devices import parse
from graph_runtime.plan import plan
from graph_runtime.plan.placing import OBJECTIVES, PLACEMENT_POLICIES, decide, evaluate
from graph_runtime.plan.placing.cuts import pair_bound, priced, shared_bound
from graph_runtime.plan.placing.exact import lower_bound, solve
from graph_runtime.plan.placing.rows import predictions
from graph_runtime.plan.placing.schedule import NO_ROOM
from graph_runtime.plan.placing.search import singles
from graph_runtime.testing.placing import random_problem

_DEVICES = (("cpu:0", "tt:0"), ("cpu:0", "cpu:1", "tt:0"))


def _problem(seed):
    """A small problem with room for about half of what random placements hold, its objective by the seed."""
    rng = np.random.default_rng(seed)
    devices = _DEVICES[seed % 2]
    nodes = int(rng.integers(4, (10, 7)[seed % 2]))
    room = tuple(rng.integers(10 * nodes, 40 * nodes, len(devices)).tolist())
    problem = random_problem(rng, devices, nodes=nodes, room=room)
    return replace(problem, objective=OBJECTIVES[seed % 3])


def _all(problem):
    options = [np.flatnonzero(row) for row in problem.allowed]
    return np.array(list(itertools.product(*options)), np.int16)


def _held(problem, did):
    """Bytes missing, counted value by value and moment by moment."""
    room, count = problem.room, problem.num_nodes
    missing = 0
    for device in range(problem.num_devices):
        resident = {int(which) for nid, which in room.resident_uses if did[nid] == device}
        held = sum(int(room.resident[which, device]) for which in resident)
        peak = 0
        for moment in range(count):
            now = 0
            for value, owner in enumerate(room.live_owner.tolist()):
                readers = [int(nid) for nid, which in room.live_uses if which == value]
                ends = [nid for nid in readers if device in (did[nid], did[owner])]
                if did[owner] == device:
                    ends.append(count if room.live_end[value] else owner)
                now += int(room.live[value, device]) * (owner <= moment <= max(ends, default=-1))
            peak = max(peak, now)
        missing += max(held + peak - int(room.available[device]), 0)
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
    assert (problem.room.parameters(did[None])[0] <= problem.room.available).all()


@pytest.mark.parametrize("seed", range(24))
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


@pytest.mark.parametrize("seed", range(24))
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
        CapacityError, match=r"tt:0 needs .* \(parameters and inputs .* B\); change"
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
