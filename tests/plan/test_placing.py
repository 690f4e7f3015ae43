"""Policies on random problems: equal to brute force where they are exact, no worse than a device alone,
and always within pins and what devices can run."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import InputError, PlanError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.options import Options
from graph_runtime.costs import SPIN_NS, CostModel, Machine
from graph_runtime.ir.graph import Graph
from graph_runtime.plan import plan
from graph_runtime.plan.columns import is_nop
from graph_runtime.plan.placing.bounds import lower_bound
from graph_runtime.plan.placing.cuts import best_cut
from graph_runtime.plan.placing.exact import solve
from graph_runtime.plan.placing.maxflow import FlowNetwork
from graph_runtime.plan.placing.policies import PLACEMENT_POLICIES, decide
from graph_runtime.plan.placing.problem import PlacementProblem, make_problem
from graph_runtime.plan.placing.schedule import (
    OBJECTIVES,
    copy_changes,
    copy_table,
    evaluate,
    measure,
    serial_ns,
)
from graph_runtime.plan.placing.search import singles
from graph_runtime.plan.pricing import Pricing
from graph_runtime.plan.types import Placement, Plan, Storage
from graph_runtime.simulation.simulation import simulate
from graph_runtime.testing.graphs import random_graph
from graph_runtime.testing.placing import random_problem

PAIR, THREE = ("cpu:0", "tt:0"), ("cpu:0", "cpu:1", "tt:0")
SLOW = Machine(1e-3, 1e-3, 1e-3, 1e-2, 100.0)  # steps of some 100 us: longer than threads look for work
SEEDS = st.integers(0, 2**32 - 1)
CHIPS = ("cpu:0", *(f"tt:{i}" for i in range(8)))
TOPOLOGIES = st.sampled_from([None, "t3000", "galaxy"])
DEVICES = st.sampled_from([PAIR, ("cpu:0", "cpu:1"), THREE, ("tt:0",)])


def every(problem: PlacementProblem) -> np.ndarray:
    """All assignments that a problem allows."""
    options = [np.flatnonzero(row) for row in problem.allowed]
    return np.array(list(itertools.product(*options)), np.int16)


def one_by_one(problem: PlacementProblem, did: np.ndarray) -> int:
    """The serial time, written down as it is defined."""
    ns = sum(int(problem.cost[n, d]) for n, d in enumerate(did))
    wanted = {
        (v, did[n])
        for n, v in zip(problem.use_nid, problem.use_value, strict=True)
        if did[n] != did[problem.owner[v]]
    }
    return ns + sum(int(problem.copy[v, did[problem.owner[v]], d]) for v, d in wanted)


# **************** cuts ****************


def test_a_cut_is_the_least_serial_time_of_600_random_graphs():
    for seed in range(600):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, nodes=int(rng.integers(2, 12)))
        did = best_cut(problem, [])
        assert problem.allowed[np.arange(len(did)), did].all(), seed
        assert serial_ns(problem, did) == evaluate(problem, every(problem)).min(), seed


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 7), st.integers(0, 14))
def test_a_minimum_cut_is_that_of_brute_force(seed, count, arcs):
    rng = np.random.default_rng(seed)
    excess = rng.integers(-9, 10, count).tolist()
    drawn = [
        (int(a), int(b), int(c), int(d))
        for a, b, c, d in np.c_[rng.integers(count, size=(arcs, 2)), rng.integers(0, 8, (arcs, 2))]
        if a != b
    ]
    network = FlowNetwork(count)
    for node, one in enumerate(excess):
        network.terminal(node, one)
    for tail, head, room, back in drawn:
        network.arc(tail, head, room, back)

    def cut(source):
        ns = sum(
            -e if s and e < 0 else e if not s and e > 0 else 0 for s, e in zip(source, excess, strict=True)
        )
        return ns + sum(
            (r if source[a] and not source[b] else b_ if source[b] and not source[a] else 0)
            for a, b, r, b_ in drawn
        )

    assert cut(network.sources()) == min(map(cut, itertools.product([False, True], repeat=count)))


def test_a_cut_of_a_large_graph_cannot_be_bettered_by_one_node():
    problem = random_problem(np.random.default_rng(3), nodes=10_000)
    did = best_cut(problem, [])
    gain = problem.cost - problem.cost[np.arange(len(did)), did][:, None] + copy_changes(problem, did)
    assert gain[problem.allowed].min() >= 0
    assert serial_ns(problem, did) < evaluate(problem, singles(problem)).min()


# **************** times ****************


def apart(planned: Plan) -> Plan:
    """The plan with every entry in bytes of its own: reuse would add waits that a placement does not know."""
    count, old = planned.graph.num_entries, planned.storage
    storage = Storage(
        old.did[planned.sid],
        old.memory[planned.sid],
        np.arange(count) << 20,
        old.extent[planned.sid],
        old.nbytes[planned.sid],
    )
    return replace(planned, sid=np.arange(count, dtype=np.int32), storage=storage)


@settings(max_examples=30, deadline=None)
@given(SEEDS, DEVICES)
def test_serial_time_and_its_changes_are_as_defined(seed, devices):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, devices, nodes=9)
    did = every(problem)[rng.integers(len(every(problem)))]
    ns = one_by_one(problem, did)
    assert serial_ns(problem, did) == ns == measure(problem, did[None]).serial[0]
    change, copies = copy_changes(problem, did), copy_table(problem, did).sum()
    for nid, device in itertools.product(range(9), range(len(devices))):
        moved = did.copy()
        moved[nid] = device
        assert copy_table(problem, moved).sum() - copies == change[nid, device]


def has_reshapes_in_a_row(graph: Graph) -> bool:
    """Whether the second of two reshapes of a constant runs on every run depends on where the first is."""
    nop, maker = is_nop(graph), graph.entry_nid
    return any(nop[n] and nop[maker[graph.in_eid[graph.in_ptr[n]]]] for n in range(graph.num_nodes))


@settings(max_examples=30, deadline=None)
@given(SEEDS, DEVICES | st.just(CHIPS), st.booleans(), st.sampled_from([None, SLOW]), TOPOLOGIES)
def test_times_are_those_of_the_simulated_plan(seed, devices, set_anew, host, topology):
    """The same queues, the same costs: what the schedule says of an assignment is what simulate() says of its
    plan, also where threads fall asleep, and where copies share links."""
    rng = np.random.default_rng(seed)
    listed = parse_list(devices)
    graph = random_graph(rng, devices, nodes=14, columns=False)
    assume(set_anew or not has_reshapes_in_a_row(graph))
    inputs = graph.input_names if set_anew else ()
    costs = CostModel(host, topology)
    problem = make_problem(graph, listed, Pricing(Options(costs=costs), inputs))
    did = np.array([rng.choice(np.flatnonzero(row)) for row in problem.allowed], np.int32)
    placed = Placement(graph, listed, did, np.zeros(len(did), np.int32), ("drawn",))
    planned = plan(graph, listed, placed=placed, reorder=False)
    timeline = simulate(apart(planned), inputs=inputs, costs=costs)
    times = measure(problem, did[None])
    assert times.serial[0] == timeline.duration.sum()
    busiest = np.bincount(timeline.queue, timeline.duration).max(initial=0)
    busiest = max([busiest, *(row["busy_ns"] for row in timeline.link_rows())])
    assert times.bottleneck[0] == busiest
    if not set_anew:  # simulate() begins with the copies of all inputs
        assert times.makespan[0] == timeline.latency_ns


def chain(ns: int) -> PlacementProblem:
    """a, b and c one after another, ns each, with free copies."""
    problem = random_problem(np.random.default_rng(0), ("cpu:0", "cpu:1"), nodes=3, reach=1, unsupported=0)
    return replace(problem, cost=np.full((3, 2), ns), copy=problem.copy * 0, handoff=5, wake=70)


@pytest.mark.parametrize(("ns", "late"), [(SPIN_NS // 2, 5 + 5), (SPIN_NS + 1, 70 + 5)])
def test_a_device_that_had_nothing_to_do_for_long_has_to_be_woken(ns, late):
    """b's device hears of a twice, in the queue that copies and in the one that computes."""
    assert measure(chain(ns), np.array([[0, 1, 1]])).makespan[0] == 3 * ns + late


# **************** policies ****************


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("devices", [PAIR, pytest.param(THREE, marks=pytest.mark.slow)], ids=["two", "three"])
def test_policies_are_near_brute_force_and_never_worse_than_one_device(devices, objective):
    gaps: dict[str, list[float]] = {name: [] for name in PLACEMENT_POLICIES}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        most = 10 if devices == PAIR else 7
        problem = replace(random_problem(rng, devices, nodes=int(rng.integers(2, most))), objective=objective)
        best = evaluate(problem, every(problem)).min()
        single = evaluate(problem, singles(problem)).min()
        assert lower_bound(problem) <= best
        for name in PLACEMENT_POLICIES:
            did = decide(problem, name)
            assert problem.allowed[np.arange(len(did)), did].all()
            ns = evaluate(problem, did[None])[0]
            assert best <= ns <= single
            gaps[name].append(ns / max(best, 1) - 1)
    assert max(gaps["optimal"]) == 0
    least = 0.04 if objective == "throughput" else 0.02  # of a whole number of ns, on plateaus
    for name in ("greedy", "mincut", "heft"):
        assert np.mean(gaps[name]) <= least, name


def test_optimal_says_what_it_has_proved(monkeypatch):
    problem = replace(random_problem(np.random.default_rng(5), nodes=14), objective="makespan")
    start = singles(problem)[0]
    exact = solve(problem, start)
    assert exact.ns == exact.bound == evaluate(problem, every(problem)).min()
    monkeypatch.setattr("graph_runtime.plan.placing.exact._MOST_CELLS", 500)
    narrow = solve(problem, start)
    assert narrow.bound <= exact.ns <= narrow.ns == evaluate(problem, narrow.did[None])[0]


@pytest.mark.slow
def test_equal_problems_have_equal_answers():
    for objective in OBJECTIVES[:2]:
        problem = replace(random_problem(np.random.default_rng(8), THREE, nodes=14), objective=objective)
        for name in PLACEMENT_POLICIES:
            assert np.array_equal(decide(problem, name), decide(problem, name))


# **************** from outside ****************


def to_the_last(problem):
    """A policy from outside: all to the last device that can."""
    k = problem.num_devices
    return k - 1 - np.argmax(problem.allowed[:, ::-1], 1)


def test_a_function_is_a_policy():
    problem = random_problem(np.random.default_rng(0), THREE)
    did = decide(problem, to_the_last)
    assert np.array_equal(did, to_the_last(problem))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of policies, importable by the name outside_policies."""
    (tmp_path / "outside_policies.py").write_text(
        "import numpy as np\n"
        "def fine(problem): return problem.allowed.argmax(1)\n"
        "def short(problem): return np.zeros(1, int)\n"
        "def floats(problem): return problem.allowed.argmax(1) * 1.0\n"
        "def nothing(problem): return None\n"
        "def far(problem): return np.full(problem.num_nodes, 7)\n"
        "def ragged(problem): return [[0], [1, 2]]\n"
        "def floats(problem): return np.zeros(problem.num_nodes)\n"
        "def before(problem): return np.full(problem.num_nodes, -1)\n"
        "def vast(problem): return np.full(problem.num_nodes, 1 << 63, np.uint64)\n"
        "def meddling(problem): problem.cost[:] = 0\n"
        "def stubborn(problem): return problem.allowed.argmin(1)\n"
        "def broken(problem): return {}['x']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ragged", r"returned no array: .* returns integers \[11\]"),
        ("floats", r"returned float64\[11\]: a policy returns integers \[11\]"),
        ("before", "on device -1: there are 0 to"),
        ("vast", "on device 9223372036854775808: there are 0 to"),
        ("meddling", "failed: ValueError: assignment destination is read-only"),
        ("short", r"returned int64\[1\]: a policy returns integers \[11\]"),
        ("floats", "returned float64"),
        ("nothing", r"returned object\[\]"),
        ("far", "on device 7: there are 0 to 1"),
        ("stubborn", r"'n\d+' on (cpu|tt):0: (the device cannot run it|it is pinned to)"),
        ("broken", "failed: KeyError: 'x'"),
        ("fien", r"no function 'fien' \(did you mean 'fine'"),
    ],
)
def test_what_a_policy_from_outside_may_not_do_is_told(name, says):
    problem = random_problem(np.random.default_rng(1), unsupported=0.3)
    with pytest.raises(PlanError, match=says):
        decide(problem, f"outside_policies:{name}")
    assert np.array_equal(decide(problem, "outside_policies:fine"), problem.allowed.argmax(1))


def test_unknown_policies_are_told():
    problem = random_problem(np.random.default_rng(1))
    with pytest.raises(InputError, match=r"did you mean 'mincut'"):
        decide(problem, "mincat")
    with pytest.raises(PlanError, match="cannot import no_such_module"):
        decide(problem, "no_such_module:f")
    with pytest.raises(InputError, match="a policy's name or a function, got int"):
        decide(problem, 3)
