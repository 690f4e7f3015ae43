"""Storage: TVM's planner fixtures as invariants, file hints followed exactly, in-place use, aliases,
capacity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import CapacityError, CheckError, PlanError
from graph_runtime.base.machine.devices import parse, parse_list
from graph_runtime.ir.graph import NOP, StorageHint, TensorType
from graph_runtime.plan import plan
from graph_runtime.plan.record import record
from graph_runtime.plan.storage.buffers import greedy
from graph_runtime.plan.types import Supplies
from graph_runtime.testing.graphs import GraphMaker, random_graph

LISTS = (["cpu:0"], ["cpu:0", "tt:0"], ["tt:0", "tt:1"], ["tt:1", "cpu:0", "tt:0", "cpu:1"])


def f(*shape):
    return TensorType("float32", shape)


def floats(nbytes):
    return f(nbytes // 4)


def chain(*types, outputs=None):
    """x, then one library function a type; outputs: the last."""
    maker = GraphMaker()
    maker.input(types[0])
    for at, type_ in enumerate(types[1:]):
        maker.call(f"f{at}", [at], [type_])
    return maker, outputs or [len(types) - 1]


def exp_twice():
    maker = GraphMaker()
    x = maker.input(f(4))
    maker.call("add", [maker.call("exp", [x], [f(4)]), maker.call("exp", [x], [f(4)])], [f(4)])
    return maker, [3]


def split():
    maker = GraphMaker()
    x = maker.input(f(4, 4))
    a = maker.call("split", [x], [f(4, 2), f(4, 2)])
    return maker, [maker.call("exp", [a], [f(4, 2)]), a + 1]


def reshaped():
    maker = GraphMaker()
    a = maker.call("exp", [maker.input(f(4, 4))], [f(4, 4)])
    r = maker.call(NOP, [a], [f(16)])
    return maker, [maker.call("add", [maker.call("exp", [r], [f(16)]), r], [f(16)])]


# name -> (graph, TVM v0.14's storage ids, see reference section 6)
FIXTURES = {
    "exp x4": (chain(*[floats(4096)] * 5), [0, 1, 2, 1, 2]),
    "shrinking": (chain(*map(floats, (16384, 16384, 256, 256, 4, 4))), [0, 1, 2, 3, 4, 5]),
    "growing x8": (chain(*map(floats, (256, 256, 256, 2048, 2048, 2048))), [0, 1, 2, 1, 2, 1]),
    "growing x32": (chain(*map(floats, (256, 256, 256, 8192, 8192))), [0, 1, 2, 3, 4]),
    "split": (split(), [0, 1, 2, 3]),
    "exp(x)+exp(x)": (exp_twice(), [0, 1, 2, 3]),
    "reshape": (reshaped(), [0, 1, 1, 2, 3]),
    "casts": (
        chain(f(16), TensorType("int8", (16,)), f(16), f(16), TensorType("bool", (16,))),
        [0, 1, 2, 1, 2],
    ),
}


def total(planned) -> int:
    return int(planned.storage.nbytes.sum())


@pytest.mark.parametrize("name", FIXTURES)
def test_tvms_fixtures_are_followed_and_ours_take_no_more(name):
    (maker, outputs), sids = FIXTURES[name]
    theirs = plan(maker.graph(outputs, storage_id=np.array(sids)), ["cpu:0"])
    assert theirs.sid.tolist() == sids
    ours = plan(maker.graph(outputs), ["cpu:0"])
    assert total(ours) <= total(theirs)
    peak = sum(ours.peak.values())
    assert total(ours) <= peak
    assert sum(ours.lower_bound.values()) <= peak


def test_inputs_are_never_reused():
    (maker, outputs), _ = FIXTURES["exp x4"]
    planned = plan(maker.graph(outputs), ["cpu:0"])
    assert (planned.sid == planned.sid[0]).sum() == 1
    with pytest.raises(CheckError, match="stays as it was set") as caught:
        plan(maker.graph(outputs, storage_id=np.array([0, 1, 0, 1, 2])), ["cpu:0"])
    assert (caught.value.rule, caught.value.path) == ("overlap", "$.attrs.storage_id[1][2]")


def test_a_gap_in_the_ids_is_a_storage_of_no_bytes():
    (maker, outputs), _ = FIXTURES["exp(x)+exp(x)"]
    planned = plan(maker.graph(outputs, storage_id=np.array([0, 2, 5, 3])), ["cpu:0"])
    assert planned.storage.nbytes.tolist() == [16, 0, 16, 16, 0, 16]


def test_sizes_round_up_to_tvms_pool_elements_and_offsets_to_64():
    maker = GraphMaker()
    maker.input(TensorType("int8", (3,)))
    maker.input(TensorType("bool", (65,)))
    maker.input(f())
    planned = plan(maker.graph([0, 1, 2]), ["cpu:0"])
    assert planned.storage.nbytes.tolist() == [4, 68, 4]
    assert planned.storage.offset.tolist() == [0, 64, 192]


def test_entries_of_other_shapes_and_dtypes_share_the_larger_size():
    (maker, outputs), sids = FIXTURES["casts"]
    planned = plan(maker.graph(outputs, storage_id=np.array(sids)), ["cpu:0"])
    assert planned.storage.nbytes.tolist() == [64, 64, 64]


def test_tt_sizes_are_padded_pages_over_banks():
    maker = GraphMaker()
    maker.input(f(33, 40))  # 2 x 2 tiles of 4096 B
    maker.input(f(5))  # one row of 20 B, padded to 32
    planned = plan(maker.graph([0, 1]), ["tt:0"])
    assert planned.storage.nbytes.tolist() == [4 * 4096, 32]
    assert planned.storage.extent.tolist() == [4096, 32]
    assert planned.peak == {(0, 0): 4096 + 32}
    maker.input(f(13 * 32, 32))  # 13 tiles over 12 banks: two pages in the first
    assert plan(maker.graph([0, 1, 2]), ["tt:0"]).storage.extent.tolist() == [4096, 32, 8192]


def test_in_place_use_needs_a_permission_and_a_dying_input():
    maker = GraphMaker()
    x = maker.op("relu", [maker.input(f(8))])
    y = maker.op("relu", [x])  # takes x's buffer
    z = maker.op("add", [y, y])  # and again: both reads may be written over
    graph = maker.graph([maker.op("add", [maker.op("relu", [z]), z])])  # z is read again: relu may not
    planned = plan(graph, ["cpu:0"])
    assert planned.sid[x] == planned.sid[y] == planned.sid[z] != planned.sid[z + 1]
    library = GraphMaker()
    library.call("g", [library.call("g", [library.input(f(8))], [f(8)])], [f(8)])
    apart = plan(library.graph([2]), ["cpu:0"])
    assert len(set(apart.sid.tolist())) == 3
    supplies = Supplies(inplace={"g": (0,)})
    together = plan(library.graph([2]), ["cpu:0"], supplies=supplies)
    assert together.sid[1] == together.sid[2]
    with pytest.raises(CheckError, match="overwrites 'n1'"):
        plan(library.graph([2], storage_id=np.array([0, 1, 1])), ["cpu:0"])
    hinted = plan(library.graph([2], storage_id=np.array([0, 1, 1])), ["cpu:0"], supplies=supplies)
    assert hinted.sid[2] == 1


def test_broadcast_operands_are_not_written_over():
    maker = GraphMaker()
    row = maker.op("relu", [maker.input(f(8))])
    graph = maker.graph([maker.op("add", [maker.op("relu", [maker.input(f(4, 8))]), row])])
    planned = plan(graph, ["cpu:0"])
    assert planned.sid[-1] != planned.sid[row]


def test_an_alias_writes_the_output_into_the_input():
    maker = GraphMaker()
    state, x = maker.input(f(8)), maker.input(f(8))
    new = maker.op("add", [state, x])
    out = maker.op("relu", [maker.op("tanh", [new])])
    planned = plan(maker.graph([out, new], aliases=((1, 0),)), ["cpu:0"])
    assert planned.sid[new] == planned.sid[state] != planned.sid[out]
    late = GraphMaker()
    state = late.input(f(8))
    new = late.op("relu", [state])
    again = late.op("add", [new, state])
    with pytest.raises(CheckError, match="reads the input after") as caught:
        plan(late.graph([new, again], aliases=((0, 0),)), ["cpu:0"])
    assert (caught.value.rule, caught.value.path) == ("alias", "$.metadata.graph_runtime.aliases[0]")
    for aliases, says in (
        (((0, 0), (1, 0)), "one alias"),
        (((2, 0),), "there are 2 outputs"),
        (((0, -1),), "there are"),
    ):
        with pytest.raises(CheckError, match=says):
            plan(late.graph([again, again], aliases=aliases), ["cpu:0"])


def test_too_much_memory_is_refused_before_anything_is_allocated():
    maker = GraphMaker()
    eids = [maker.input(f(1 << 15, 1 << 15)) for _ in range(4)]
    with pytest.raises(
        CapacityError,
        match="Out of Memory: Not enough space to allocate 4294967296 B DRAM buffer across "
        "12 banks, where each bank needs to store 357916672 B",
    ) as caught:
        plan(maker.graph(eids), ["tt:0"])
    assert caught.value.holders[0] == ("'x0'", 1 << 32)
    assert caught.value.available == parse("tt:0").main_memory.usable
    assert caught.value.node == "x2"
    huge = GraphMaker()
    huge.input(f(1 << 40))
    for devices in (["cpu:0"], ["tt:0"]):
        says = r"node 'x0': Out of Memory.*float32\[1099511627776\] in .* alone is too large; .*place less"
        with pytest.raises(CapacityError, match=says) as caught:
            plan(huge.graph([0]), devices)
        assert caught.value.path == "$.nodes[0]"
    whole = GraphMaker()
    eids = [whole.input(TensorType("int8", (parse("cpu:0").main_memory.usable // 2 - 64,))) for _ in range(3)]
    with pytest.raises(CapacityError, match=r"B of cpu:0 host memory, .* for 'x2'; .*held by 'x0' "):
        plan(whole.graph(eids), ["cpu:0"])


# **************** what the file says ****************


def test_a_conflict_in_the_file_is_refused_with_its_place_even_where_copies_are_missing():
    maker = GraphMaker()
    x = maker.op("tanh", [maker.input(f(8), 0)], 0)
    y = maker.op("tanh", [x], 0)
    graph = maker.graph(
        [maker.op("add", [x, y], 1)], devices=parse_list(["cpu:0", "tt:0"]), storage_id=np.array([0, 1, 1, 2])
    )
    with pytest.raises(CheckError, match="overwrites 'n1'") as caught:
        plan(graph, ["cpu:0", "tt:0"])
    assert caught.value.path == "$.attrs.storage_id[1][2]"


def test_ids_that_a_pin_makes_unsafe_are_planned_anew_with_a_warning():
    (maker, outputs), sids = FIXTURES["exp x4"]
    graph = maker.graph(outputs, storage_id=np.array(sids))
    planned = plan(graph, ["cpu:0", "tt:0"], place={"n2": "tt:0"})
    assert any("planned anew" in w for w in planned.warnings)


def test_wrong_storage_rows_are_refused():
    maker = GraphMaker()
    planned = plan(maker.graph([maker.op("tanh", [maker.input(f(8))])]), ["cpu:0"])
    saved = record(planned)

    def with_row(at, **change):
        rows = list(saved.hints.storage)
        rows[at] = replace(rows[at], **change)
        return replace(saved, hints=replace(saved.hints, storage=tuple(rows)))

    for change, says in (
        ({"offset": 64}, "ends at|shares bytes|share bytes"),
        ({"bytes": 16}, "has 16 B"),
        ({"offset": 3}, "no multiple of 64"),
        ({"device": "tt:0"}, "said to lie on tt:0"),
        ({"offset": -64}, "storage.offset has -64"),
        ({"offset": 1 << 50}, "the plan needs"),
    ):
        with pytest.raises(PlanError, match=says):
            plan(with_row(0, **change), ["cpu:0"])
    with pytest.raises(PlanError, match="has 1 rows"):
        plan(
            replace(saved, hints=replace(saved.hints, storage=(StorageHint("cpu:0", "host", 0, 32),))),
            ["cpu:0"],
        )


def test_a_storage_row_in_another_memory_than_its_entrys_layout_is_refused():
    maker = GraphMaker()
    saved = record(plan(maker.graph([maker.op("tanh", [maker.input(f(32, 32))])]), ["tt:0"]))
    rows = tuple(replace(row, memory="l1") for row in saved.hints.storage)  # of all: none is left in DRAM
    with pytest.raises(
        PlanError, match="said to lie in l1, but the layout of its entry 0 says dram"
    ) as caught:
        plan(replace(saved, hints=replace(saved.hints, storage=rows)), ["tt:0"])
    assert caught.value.path == "$.metadata.graph_runtime.storage[0].memory"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LISTS), st.booleans())
def test_plans_pass_the_checker_and_a_recorded_plan_is_followed_exactly(seed, devices, columns):
    graph = random_graph(np.random.default_rng(seed), devices, nodes=20, columns=columns, library=True)
    planned = plan(graph, devices)
    again = plan(record(planned), devices)
    assert again.graph.names == planned.graph.names
    assert not again.warnings
    for column in ("did", "sid", "at_input"):
        assert np.array_equal(getattr(again, column), getattr(planned, column)), column
    for column in ("did", "memory", "offset", "extent", "nbytes"):
        assert np.array_equal(getattr(again.storage, column), getattr(planned.storage, column)), column
    assert [again.layout(e) for e in range(graph.num_entries)] == [
        planned.layout(e) for e in range(graph.num_entries)
    ]
    assert again.peak == planned.peak
    for region, bound in planned.lower_bound.items():
        assert bound <= planned.peak[region]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LISTS))
def test_a_recorded_plan_still_plans_on_other_devices(seed, devices):
    saved = record(plan(random_graph(np.random.default_rng(seed), devices, nodes=16, library=True), devices))
    plan(saved, devices[::-1])
    plan(saved, devices[:1])
    plan(saved, ["tt:3", "cpu:2"], place={"*": "tt:3"})
    plan(saved, devices, use_storage_hints=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(1, 9), st.integers(0, 1)), max_size=20
    )
)
def test_packed_values_never_touch(rows):
    born = np.cumsum([r[0] for r in rows], dtype=np.int64)
    last = born + np.array([r[1] for r in rows], np.int64)
    region = np.array([r[3] for r in rows], np.int64)
    block = greedy(born, last, np.array([r[2] for r in rows], np.int64), region)
    for a in range(len(rows)):
        for b in range(a):
            if block[a] == block[b]:
                assert region[a] == region[b]
                assert last[b] < born[a]
