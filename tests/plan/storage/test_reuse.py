"""Ways of reusing memory, proved by the race checker; offsets; orders that need less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.base.errors import CheckError, InputError
from graph_runtime.binding.packing import pack
from graph_runtime.ir.graph import TensorType
from graph_runtime.plan import check, plan
from graph_runtime.plan.checker.races import check_races
from graph_runtime.plan.queues.lanes import lanes
from graph_runtime.plan.record import record
from graph_runtime.plan.storage.buffers import round_up
from graph_runtime.plan.storage.memory import peaks
from graph_runtime.plan.types import Supplies
from graph_runtime.testing.graphs import GraphMaker, random_graph

pytestmark = pytest.mark.core

DEVICES = ["cpu:0", "tt:0"]
seeds = st.integers(0, 2**32 - 1)


def planned_for(seed, reuse, devices=DEVICES, nodes=30):
    graph = random_graph(np.random.default_rng(seed), devices, nodes=nodes, library=True)
    return plan(graph, devices, reuse=reuse, packer=pack, use_storage_hints=False, reorder=False)


def waits(planned) -> int:
    found = lanes(planned)
    check_races(planned, found)
    return len(found.wait)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_a_safe_plan_waits_for_data_only(seed):
    safe, off = planned_for(seed, "safe"), planned_for(seed, "off")
    assert waits(safe) == waits(off)  # off has no bytes to wait for but those it reads
    assert len(set(off.sid.tolist())) >= len(set(safe.sid.tolist()))


def test_a_serial_plan_takes_least_and_makes_queues_wait():
    serial, safe, off = ([planned_for(seed, mode) for seed in range(8)] for mode in ("serial", "safe", "off"))
    assert sum(map(waits, serial)) > sum(map(waits, safe))
    for least, middle, most in zip(serial, safe, off, strict=True):
        for where, peak in least.peak.items():
            assert least.lower_bound[where] <= peak
            assert peak <= most.peak[where]
            assert middle.peak[where] <= most.peak[where]
        modes = peaks(least, Supplies(packer=pack))
        assert modes == {
            "serial": least.peak,
            "safe": middle.peak,
            "off": most.peak,
        }


def test_the_search_brings_safe_plans_to_their_own_bound():
    """Which lies between the serial one and what greedy offsets take."""
    found = {}
    for seed in range(12):
        graph = random_graph(np.random.default_rng(seed), DEVICES, nodes=60, library=False)
        greedy, packed = (
            plan(graph, DEVICES, reuse="safe", packer=packer, use_storage_hints=False)
            for packer in (None, pack)
        )
        serial = plan(graph, DEVICES, packer=pack, use_storage_hints=False, reorder=False)
        for where, peak in packed.peak.items():
            assert serial.lower_bound[where] <= packed.lower_bound[where] <= peak <= greedy.peak[where]
            found[seed, where] = peak / packed.lower_bound[where], greedy.peak[where] / peak
    assert max(over for over, _ in found.values()) <= 1.02
    assert max(more for _, more in found.values()) > 1


@settings(max_examples=25, deadline=None)
@given(seeds, st.sampled_from(["serial", "safe"]))
def test_a_recorded_plan_with_offsets_is_followed_exactly(seed, reuse):
    planned = planned_for(seed, reuse)
    again = plan(record(planned), DEVICES)
    assert not again.warnings
    assert np.array_equal(again.sid, planned.sid)
    assert np.array_equal(again.storage.offset, planned.storage.offset)
    assert again.peak == planned.peak


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_an_offset_moved_onto_a_living_value_is_refused(seed):
    planned = planned_for(seed, "serial", ["cpu:0"])
    storage, rng = planned.storage, np.random.default_rng(seed)
    sid = int(rng.choice(planned.sid))
    other = int(rng.choice(planned.sid))
    fits = storage.offset[other] + storage.extent[sid] <= planned.peak[0, 0]
    if not fits or not min(storage.extent[sid], storage.extent[other]):
        return
    offset = storage.offset.copy()
    offset[sid] = storage.offset[other]
    wrong = replace(planned, storage=replace(storage, offset=offset))
    if collide(wrong, sid):
        with pytest.raises(CheckError) as caught:
            check(wrong)
        assert caught.value.rule == "overlap"
    else:
        check(wrong)


def collide(planned, sid) -> bool:
    """Whether entries of ``sid`` share bytes with another storage while both are needed, step by step."""
    graph, storage = planned.graph, planned.storage
    maker = graph.entry_nid
    reader = np.repeat(np.arange(graph.num_nodes), np.diff(graph.in_ptr))
    born, last = maker.copy(), maker.copy()
    np.maximum.at(last, graph.in_eid, reader)
    kept = graph.func_id[maker] < 0
    born[kept] = -1
    last[kept] = graph.num_nodes
    last[graph.outputs] = graph.num_nodes
    of = np.arange(graph.num_entries)
    for nid in range(graph.num_nodes):
        if graph.func_id[nid] >= 0 and graph.funcs[graph.func_id[nid]].name == "__nop":
            of[graph.row_ptr[nid]] = of[graph.in_eid[graph.in_ptr[nid]]]
    values = {int(v): [e for e in range(graph.num_entries) if of[e] == v] for v in set(of.tolist())}
    span = {v: (born[v], max(int(last[e]) for e in es)) for v, es in values.items()}
    begin, end = storage.offset[planned.sid], (storage.offset + storage.extent)[planned.sid]
    for a in values:
        for b in values:
            if planned.sid[a] != sid or planned.sid[b] == sid or end[a] == begin[a] or end[b] == begin[b]:
                continue
            in_space = begin[a] < end[b] and begin[b] < end[a]
            if in_space and span[a][0] <= span[b][1] and span[b][0] <= span[a][1]:
                return True
    return False


# **************** offsets ****************


def block(kib: int) -> TensorType:
    return TensorType("float32", (kib * 256,))


def brick() -> tuple:
    """Lifetimes that blocks used in turn cannot serve: a large value lies where two small ones lay."""
    maker = GraphMaker()
    x = maker.input(block(1))
    a = maker.call("make2", [x], [block(2)])
    b = maker.call("make3", [x], [block(3)])
    c = maker.call("join", [a, b], [block(1)])
    d = maker.call("grow", [c], [block(5)])
    e = maker.call("shrink", [d], [block(1)])
    return maker.graph([e]), d


def test_values_that_follow_each_other_overlap_in_space_where_blocks_cannot():
    graph, large = brick()
    planned = plan(graph, ["cpu:0"], packer=pack)
    assert planned.peak == planned.lower_bound
    assert planned.status == {(0, 0): "optimal"}
    begin = planned.storage.offset[planned.sid]
    end = begin + planned.storage.extent[planned.sid]
    small = [e for e in range(1, 4) if begin[e] < end[large] and begin[large] < end[e]]
    assert len(small) >= 2
    assert len({int(planned.sid[e]) for e in (*small, large)}) == len(small) + 1


# **************** orders ****************


def branches(width: int) -> tuple:
    """``width`` branches, each large in the middle, written level by level: all are large at one time."""
    maker = GraphMaker()
    x = maker.input(block(1))
    wide = [maker.call(f"widen{i}", [x], [block(64)]) for i in range(width)]
    thin = [maker.call(f"narrow{i}", [w], [block(1)]) for i, w in enumerate(wide)]
    out = maker.call("join", thin, [block(1)])
    return maker.graph([out])


def test_branches_run_one_after_the_other():
    graph = branches(8)
    as_written = plan(graph, ["cpu:0"], reorder=False)
    planned = plan(graph, ["cpu:0"])
    assert as_written.peak[0, 0] >= 8 * 64 * 1024
    assert planned.peak[0, 0] <= (64 + 12) * 1024
    assert planned.graph.input_names == graph.input_names
    assert planned.graph.output_names == graph.output_names
    assert [graph.names[at] for at in planned.origin] == list(planned.graph.names)
    assert plan(record(as_written), ["cpu:0"]).graph.names == graph.names  # a file with storage ids
    assert plan(graph, ["cpu:0"], reuse="safe").graph.names == graph.names


@settings(max_examples=25, deadline=None)
@given(seeds, st.sampled_from([["cpu:0"], DEVICES]))
@example(26411692, DEVICES)
def test_no_order_that_is_chosen_needs_more(seed, devices):
    """But for the padding of the buffer that lies last, which is in no peak and which no order knows."""
    graph = random_graph(np.random.default_rng(seed), devices, nodes=25, library=True)
    chosen = plan(graph, devices, use_storage_hints=False)
    written = plan(graph, devices, use_storage_hints=False, reorder=False)
    for (did, memory), bound in chosen.lower_bound.items():
        padded = round_up(
            written.lower_bound[did, memory], chosen.devices[did].descriptor.memories[memory].alignment
        )
        assert bound <= padded
    assert sorted(chosen.graph.names) == sorted(written.graph.names)
    assert chosen.graph.output_names == written.graph.output_names


def test_a_mode_that_is_none_is_named():
    with pytest.raises(InputError, match=r"serial, safe, off, not 'save' \(did you mean 'safe'"):
        plan(branches(2), ["cpu:0"], reuse="save")


def test_sessions_with_queues_do_not_wait_for_bytes_unless_told_to():
    graph = random_graph(np.random.default_rng(3), DEVICES, nodes=30, library=False)
    planned = {
        mode: gr.create(graph, devices=DEVICES, **options).session.plan
        for mode, options in (
            ("default", {}),
            ("queues", {"queues": "threads"}),
            ("told", {"queues": "threads", "reuse": "off"}),
        )
    }
    of = {mode: plan(graph, DEVICES, reuse=mode, packer=pack).peak for mode in ("serial", "safe", "off")}
    assert planned["default"].peak == of["serial"]
    assert planned["queues"].peak == of["safe"]
    assert planned["told"].peak == of["off"]
