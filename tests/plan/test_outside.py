"""What users bring from outside: cost models, node orders, packers. What they answer is checked."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime import GraphBuilder, Options
from graph_runtime.base.errors import InputError, PlanError
from graph_runtime.base.machine.devices import Device
from graph_runtime.costs import Cost, CostModel
from graph_runtime.plan import plan
from graph_runtime.plan.passes import place
from graph_runtime.plan.storage.offsets import FITS, UNKNOWN, Groups, find_packer
from graph_runtime.simulation.simulation import simulate
from graph_runtime.testing.graphs import random_graph

PAIR = ("cpu:0", "tt:0")


def graph():
    b = GraphBuilder()
    x = b.input("x", (64, 64))
    left = b.op("relu", b.op("matmul", x, b.input("u", (64, 64)), name="left"))
    right = b.op("tanh", b.op("matmul", x, b.input("v", (64, 64)), name="right"))
    b.output(b.op("add", left, right, name="sum"))
    return b.build()


class Flat(CostModel):
    """1000 ns a node, 7 on tt; 50 a copy; nothing to launch."""

    def node(self, graph, nid, device, layouts, **more):
        return 7 if device.kind == "tt" else Cost(1000.0, "measured", "by hand")

    def copy(self, source: Device, before, target: Device, after, type_):
        return 50

    def dispatch(self, device, *, traced=True):
        return 0


# **************** cost models ****************


def test_one_cost_model_serves_placing_reports_and_the_simulation():
    for policy in ("single", "greedy", "mincut", "heft", "optimal"):
        planned = plan(graph(), PAIR, placement=policy, costs=Flat())
        rows = planned.placement.report()
        assert {row["device"] for row in rows} == {"tt:0"}
        assert sum(row["ns"] for row in rows) == 5 * 7
        timeline = simulate(planned)
        assert int((timeline.end - timeline.start).sum()) == 5 * 7
        said = {row["objective"]: row["ns"] for row in planned.placement.summary()["predictions"]}
        assert said["serial"] == 35
    assert simulate(planned, costs=CostModel()).end.max() > 35
    assert {row["device"] for row in plan(graph(), PAIR, placement="mincut").placement.report()} == {"cpu:0"}


def test_a_cost_model_by_name_and_without_a_policy():
    name = f"{__name__}:Flat"
    placed = place(graph(), ["cpu:0"], costs=name)
    assert sum(row["ns"] for row in placed.report()) == 5000
    assert Options(costs=name).as_json() == {"costs": name}
    assert Options(costs=Flat()).as_json() == {"costs": name}


def test_a_name_that_is_no_function_lists_only_the_modules_own():
    with pytest.raises(PlanError, match="has no function 'numpyy'") as caught:
        place(graph(), PAIR, placement=f"{__name__}:numpyy")
    assert "find_packer" not in str(caught.value), "what the module imports is none of its own"
    with pytest.raises(PlanError, match=r"'PAIR' of .* is a tuple, no function"):
        place(graph(), PAIR, placement=f"{__name__}:PAIR")


@pytest.mark.parametrize("said", [-1, float("nan"), float("inf"), "7", None, Cost(1.0, "guessed", "")])
def test_what_is_no_time_is_refused(said):
    class Wrong(CostModel):
        def node(self, *args, **words):
            return said

    with pytest.raises(PlanError, match=r"cost model Wrong says .* for node 'left' on cpu:0: a time is"):
        place(graph(), PAIR, placement="mincut", costs=Wrong())


def test_a_cost_model_that_fails_is_named():
    class Broken(CostModel):
        def copy(self, *args):
            return {}["copies"]

    with pytest.raises(PlanError, match=r"cost model Broken failed for a copy of .* KeyError: 'copies'"):
        place(graph(), PAIR, placement="mincut", costs=Broken(), inputs=["x"])


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (7, InputError, "costs is a costs.CostModel"),
        ("Flat", InputError, "package.module:Name"),
        ("nowhere:Flat", PlanError, "cannot import nowhere"),
        (f"{__name__}:Flatt", PlanError, "did you mean 'Flat'"),
        (f"{__name__}:graph", InputError, "made a Graph"),
    ],
)
def test_what_is_no_cost_model_is_refused(given, error, text):
    with pytest.raises(error, match=text):
        place(graph(), PAIR, placement="mincut", costs=given)


# **************** node orders ****************


def branch_by_branch(laid_out):
    """Depth first from the outputs, the right branch before the left one."""
    g = laid_out.placed.graph
    seen: list[int] = []

    def visit(nid: int) -> None:
        for eid in g.in_eid[g.in_ptr[nid] : g.in_ptr[nid + 1]][::-1].tolist():
            visit(int(g.entry_nid[eid]))
        if nid not in seen:
            seen.append(nid)

    for eid in g.outputs.tolist():
        visit(int(g.entry_nid[eid]))
    return [*seen, *(n for n in range(g.num_nodes) if n not in seen)]


def test_nodes_are_in_the_order_that_is_given():
    planned = plan(graph(), PAIR, order=branch_by_branch)
    names = [n for n in planned.graph.names if n in ("left", "right")]
    assert names == ["right", "left"]
    assert planned.peak == plan(graph(), PAIR, order=f"{__name__}:branch_by_branch").peak


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda laid_out: range(laid_out.placed.graph.num_nodes - 1), "give each of the 8 nodes once"),
        (lambda laid_out: [0] * laid_out.placed.graph.num_nodes, "give each of the 8 nodes once"),
        (lambda laid_out: np.arange(laid_out.placed.graph.num_nodes) * 1.0, "gave float64"),
        (lambda laid_out: np.arange(laid_out.placed.graph.num_nodes)[::-1], "which it reads"),
        (lambda laid_out: 1 / 0, "failed: ZeroDivisionError"),
    ],
)
def test_what_is_no_order_is_refused(given, text):
    with pytest.raises(PlanError, match=text):
        plan(graph(), ["cpu:0"], order=given)
    with pytest.raises(InputError, match="order is a function"):
        plan(graph(), ["cpu:0"], order=3)


# **************** packers ****************


def first_fit(groups, size, capacity):
    """The largest first, each at the lowest offset that is free of those it may not touch."""
    near = [set() for _ in size]
    for g in range(len(groups.ptr) - 1):
        members = groups.member[groups.ptr[g] : groups.ptr[g + 1]].tolist()
        for m in members:
            near[m].update(members)
    offset = np.full(len(size), -1, np.int64)
    for at in np.argsort(-size, kind="stable").tolist():
        low = 0
        for other in sorted((o for o in near[at] if offset[o] >= 0), key=lambda o: offset[o]):
            if low + size[at] > offset[other]:
                low = max(low, int(offset[other] + size[other]))
        if low + size[at] > capacity:
            return UNKNOWN, None
        offset[at] = low
    return FITS, offset


def times(count: int):
    rng = np.random.default_rng(count)
    lower = rng.integers(0, 30, count)
    return Groups.of_times(lower, lower + rng.integers(1, 9, count)), rng.integers(1, 100, count) * 64


def test_a_packer_from_outside_is_asked_and_what_fits_is_taken():
    calls = []

    def counted(groups, size, capacity):
        calls.append(capacity)
        return first_fit(groups, size, capacity)

    for seed in range(40):
        some = random_graph(np.random.default_rng(seed), nodes=30, columns=False)
        planned = plan(some, ["cpu:0"], packer=counted)
        greedy = plan(some, ["cpu:0"])
        assert planned.peak[0, 0] <= greedy.peak[0, 0]
    assert calls
    groups, size = times(40)
    status, offset = find_packer(first_fit)(groups, size, int(size.sum()))
    assert status == FITS
    assert offset.dtype == np.int64


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda g, s, c: (FITS, np.zeros(len(s), np.int64)), "which overlap"),
        (lambda g, s, c: (FITS, np.zeros(len(s) - 1, np.int64)), "of offsets, for integers"),
        (lambda g, s, c: (FITS, np.zeros(len(s))), "float64"),
        (lambda g, s, c: (FITS, np.cumsum(s) + c), "bytes .* of "),
        (lambda g, s, c: (FITS, -np.cumsum(s)), "bytes -"),
        (lambda g, s, c: (FITS, None), "of offsets, for integers"),
        (lambda g, s, c: ("maybe", None), "'maybe', which is none of"),
        (lambda g, s, c: None, "failed: TypeError"),
    ],
)
def test_what_does_not_fit_is_refused(answer, text):
    groups, size = times(20)
    with pytest.raises(PlanError, match=text):
        find_packer(answer)(groups, size, groups.most(size))


def test_a_packer_cannot_change_the_sizes_that_it_is_checked_by():
    def shrinks(groups, size, capacity):
        size[:] = 0
        return FITS, np.zeros(len(size), np.int64)

    groups, size = times(20)
    with pytest.raises(PlanError, match="overlap"):
        find_packer(shrinks)(groups, size, int(size.sum()))
    with pytest.raises(InputError, match="a packer is a function"):
        find_packer("best")
