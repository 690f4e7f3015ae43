"""Lanes: waits between queues, and the race checker, which shares no code with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graph_runtime.base.errors import CheckError
from graph_runtime.ir.graph import COPY, TensorType
from graph_runtime.plan import plan
from graph_runtime.plan.checker.races import check_races, clocks
from graph_runtime.plan.queues.lanes import lanes
from graph_runtime.testing.graphs import GraphMaker, random_graph

DEVICES = ["cpu:0", "cpu:1", "tt:0"]
F = TensorType("float32", (33, 40))


def names(planned, found) -> list[str]:
    return [planned.graph.names[n] for n in found.nid.tolist()]


def without(found, at: int):
    """The lanes without wait number ``at``."""
    owner = int(np.searchsorted(found.wait_ptr, at, side="right")) - 1
    pointers = found.wait_ptr.copy()
    pointers[owner + 1 :] -= 1
    return replace(found, wait=np.delete(found.wait, at), wait_ptr=pointers)


def llama_shape():
    """llama.cpp #26040: the second graph's host writes reuse the storage that the first split's copy to the
    accelerator still reads. Storage 1 is made, copied to tt, and overwritten by a node of another branch."""
    maker = GraphMaker()
    x = maker.input(F)
    first = maker.op("relu", [x])
    moved = maker.call(COPY, [first], [F], 2)
    far = maker.op("tanh", [moved], 2)
    second = maker.op("sigmoid", [x])
    third = maker.op("relu", [second])
    back = maker.call(COPY, [far], [F], 0)
    out = maker.op("add", [third, back])
    sid = np.full(out + 1, -1)
    for at, entry in enumerate([x, first, moved, far, second, third, back, out]):
        sid[entry] = at
    sid[second] = sid[first]  # legal in a serial order: `first` was copied before
    from graph_runtime.base.machine.devices import parse_list

    return maker.graph([out], devices=parse_list(DEVICES), storage_id=sid)


def test_the_shape_of_llama_cpp_26040_is_refused_without_the_wait_and_gets_one():
    planned = plan(llama_shape(), DEVICES)
    assert planned.sid[1] == planned.sid[4]
    found = lanes(planned)
    check_races(planned, found)
    order = names(planned, found)
    reuse = order.index("n4")
    waited = [order[j] for j in found.wait[found.wait_ptr[reuse] : found.wait_ptr[reuse + 1]].tolist()]
    assert waited == ["n2"]
    assert len(found.warnings) == 1
    assert "'n4'" in found.warnings[0]
    assert "'n2'" in found.warnings[0]
    with pytest.raises(CheckError, match=r"race.*'n4'.*writes bytes that 'n2'") as caught:
        check_races(planned, without(found, int(found.wait_ptr[reuse])))
    assert (caught.value.rule, caught.value.node) == ("race", "n4")


def test_storage_that_was_planned_here_waits_silently():
    graph = llama_shape()
    planned = plan(graph, DEVICES, use_storage_hints=False)
    assert lanes(planned).warnings == ()


def test_copies_run_where_copy_engines_are():
    found = lanes(plan(llama_shape(), DEVICES))
    planned = plan(llama_shape(), DEVICES)
    role = {name: found.queues[q] for name, q in zip(names(planned, found), found.qid, strict=True)}
    assert role["n2"] == (2, "copy_in")
    assert role["n6"] == (2, "copy_out")
    assert role["n1"] == (0, "compute")
    assert role["n3"] == (2, "compute")


@pytest.mark.parametrize("seed", range(12))
def test_random_plans_are_free_of_races_and_every_wait_is_needed(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, DEVICES, nodes=30)
    planned = plan(graph, DEVICES)
    for copies in ((), range(len(graph.inputs))):
        found = lanes(planned, copies)
        check_races(planned, found)
        refused = 0
        for at in range(len(found.wait)):
            try:
                check_races(planned, without(found, at))
            except CheckError:
                refused += 1
        assert refused >= 0.9 * len(found.wait)  # a later wait may imply an earlier one


@pytest.mark.parametrize("seed", range(8))
def test_the_checker_agrees_with_reachability(seed):
    """Vector clocks against the transitive closure of queue order and waits."""
    rng = np.random.default_rng(seed)
    planned = plan(random_graph(rng, DEVICES, nodes=25), DEVICES)
    found = lanes(planned)
    count = len(found.nid)
    reach = np.zeros((count, count), bool)  # reach[a, b]: a is over before b begins
    last: dict[int, int] = {}
    for b in range(count):
        queue = int(found.qid[b])
        before = found.wait[found.wait_ptr[b] : found.wait_ptr[b + 1]].tolist()
        for a in before + ([last[queue]] if queue in last else []):
            reach[:, b] |= reach[:, a]
            reach[a, b] = True
        last[queue] = b
    place = [int((found.qid[:i] == found.qid[i]).sum()) for i in range(count)]
    clock = clocks(planned, found)
    for b in range(count):
        for a in range(b):
            assert (clock[b][int(found.qid[a])] > place[a]) == reach[a, b]


def test_a_wait_for_something_later_is_refused():
    planned = plan(llama_shape(), DEVICES)
    found = lanes(planned)
    wrong = replace(found, wait=np.full_like(found.wait, len(found.nid) - 1))
    with pytest.raises(CheckError, match="does not come before"):
        check_races(planned, wrong)
