"""The buffers of a run, and the place of each entry in them: a plan's memory divided into separate buffers,
called slots.

kept      a value that runs only read: an input, a constant, or a copy made when an input is set. Its slot is
          memory of the session's own, or memory that the caller gives
output    an output of a run: a new buffer for each run
arena     one arena for each memory of each device: it has all other values, at the plan's offsets without the
          gaps
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...base.machine.devices import Device
from ...base.machine.layout import HOST, footprint
from ...base.unique import unique_values
from ...plan.columns import follow, is_nop, starts
from ...plan.queues.lanes import overlapping
from ...plan.storage.buffers import round_up
from ...plan.types import Plan, Storage
from .program import Program


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """``value`` int64 [entries]: the first entry of the value that each entry shows. ``slot`` int32 [entries]
    and ``offset`` uint64 [entries]: the place of each entry. For each slot: ``did`` and ``memory`` int32 (its
    device and memory), ``extent`` int64 (its bytes), ``eid`` int64 (the value that has the slot alone, -1 for
    an arena), ``kept`` bool (whether runs only read it). ``outputs``: the slot of each graph output;
    ``copied`` {output: entry} of the outputs that are copies of a kept value, made at the end of the run.
    ``into`` {output: input}: the graph's aliases."""

    value: np.ndarray
    slot: np.ndarray
    offset: np.ndarray
    did: np.ndarray
    memory: np.ndarray
    extent: np.ndarray
    eid: np.ndarray
    kept: np.ndarray
    outputs: tuple[int, ...]
    copied: dict[int, int]
    into: dict[int, int]

    @property
    def count(self) -> int:
        return len(self.did)


def assign_slots(plan: Plan) -> Slots:
    """The slots of a plan: first one for each value that has a slot alone, then the arenas, then outputs that
    are copies of kept values."""
    graph, value = plan.graph, values_of(plan)
    kept = ((graph.func_id < 0) | plan.at_input)[graph.entry_nid]
    firsts, own_slot = _own_slots(plan, value, kept)
    columns = [
        [int(d) for d in plan.entry_did()[firsts]],
        [memory_of(plan, int(eid)) for eid in firsts],
        [extent_of(plan, int(eid)) for eid in firsts],
    ]
    own = np.array(columns, np.int64).reshape(3, len(firsts))
    slot, offset, arenas = _with_arenas(plan, own_slot[value], len(firsts))
    copied = {o: int(graph.outputs[o]) for o in np.flatnonzero(kept[value[graph.outputs]]).tolist()}
    sources = np.array(list(copied.values()), np.int64)
    did, memory, extent = np.concatenate([own, arenas, own[:, slot[sources]]], axis=1)
    eids = np.concatenate([firsts, np.full(arenas.shape[1], -1), sources])
    behind = {o: len(firsts) + arenas.shape[1] + at for at, o in enumerate(copied)}
    outputs = tuple(behind.get(o, at) for o, at in enumerate(slot[graph.outputs].tolist()))
    only_read = np.concatenate([kept[firsts], np.zeros(len(did) - len(firsts), bool)])
    slot, did, memory = (column.astype(np.int32) for column in (slot, did, memory))
    into = dict(plan.aliases)
    return Slots(value, slot, offset, did, memory, extent, eids, only_read, outputs, copied, into)


def _own_slots(plan: Plan, value: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the first entries of the values that have a slot alone, which are kept values and outputs; int64
    [entries]: that slot, -1 for all other entries). A value that is written into an input has the input's
    slot."""
    graph = plan.graph
    heads, entries = value[graph.outputs], np.arange(graph.num_entries)
    written = {int(heads[o]): int(value[graph.input_eids[i]]) for o, i in plan.aliases}
    own = np.zeros(graph.num_entries, bool)
    own[value] = kept[value]
    own[[head for head in heads.tolist() if head not in written]] = True
    firsts = np.flatnonzero(own & (value == entries))
    slot = np.full(graph.num_entries, -1, np.int64)
    slot[firsts] = np.arange(len(firsts))
    for made, there in written.items():
        slot[made] = slot[there]
    return firsts, slot


def values_of(plan: Plan) -> np.ndarray:
    """int64 [entries]: the entry whose bytes each entry shows. A reshape that moves nothing shows the bytes
    of its source."""
    graph = plan.graph
    parent = np.arange(graph.num_entries)
    nops = np.flatnonzero(is_nop(graph))
    parent[graph.row_ptr[nops]] = graph.in_eid[graph.in_ptr[nops]]
    return follow(parent)


def _with_arenas(plan: Plan, slot: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(slot and offset of every entry, those in arenas included; (did, memory, extent) of the arenas)."""
    offset, loose = np.zeros(len(slot), np.uint64), np.flatnonzero(slot < 0)
    offset_of, arena, arenas = _arenas(plan, unique_values(plan.sid[loose]), plan.storage)
    slot = slot.copy()
    slot[loose], offset[loose] = first + arena[plan.sid[loose]], offset_of[plan.sid[loose]]
    return slot, offset, np.array(arenas, np.int64).reshape(-1, 3).T


def closed_up(plan: Plan, entries: np.ndarray) -> tuple[np.ndarray, dict[tuple[int, int], int]]:
    """(offset of each storage, {(did, memory): bytes}), if only ``entries`` have memory. The offsets, int64
    [storages], are the plan's with the gaps closed. ``entries``: bool [entries]."""
    offset_of, _, arenas = _arenas(plan, unique_values(plan.sid[entries]), _extents(plan, entries))
    return offset_of, {(did, memory): extent for did, memory, extent in arenas}


def _extents(plan: Plan, entries: np.ndarray) -> Storage:
    """The plan's storages, each with the extent of its largest entry among ``entries``."""
    shared = np.intersect1d(plan.sid[entries], plan.sid[~entries])
    extent = plan.storage.extent.copy()
    extent[shared] = 0
    for eid in np.flatnonzero(entries & np.isin(plan.sid, shared)).tolist():
        sid = plan.sid[eid]
        extent[sid] = max(extent[sid], extent_of(plan, eid))
    return replace(plan.storage, extent=extent)


def _arenas(
    plan: Plan, used: np.ndarray, storage: Storage
) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int, int]]]:
    """(offset int64 [storages], arena int64 [storages], [(did, memory, extent) of each arena]) of the
    storages ``used``; each memory has one arena. Storages that share bytes keep their distances; gaps between
    others are closed."""
    region, cell = storage.region[used], overlapping(storage, used)
    offset_of, arena = np.zeros(storage.count, np.int64), np.zeros(storage.count, np.int64)
    arenas: list[tuple[int, int, int]] = []
    for which in unique_values(region).tolist():
        mine = used[region == which]
        did, memory = int(storage.did[mine[0]]), int(storage.memory[mine[0]])
        alignment = max(64, plan.devices[did].descriptor.memories[memory].alignment)
        offset_of[mine], end = _close_up(storage, mine, cell[region == which], alignment)
        arena[mine] = len(arenas)
        arenas.append((did, memory, end))
    return offset_of, arena, arenas


def _close_up(storage: Storage, sids: np.ndarray, cell: np.ndarray, alignment: int) -> tuple[np.ndarray, int]:
    """(new offsets int64 [sids], end of the last storage). Storages that overlap are in one cell, and the
    cells lie one after another."""
    _, cell = np.unique(cell, return_inverse=True)
    begin = np.full(cell.max() + 1, np.iinfo(np.int64).max)
    end = np.zeros(cell.max() + 1, np.int64)
    np.minimum.at(begin, cell, storage.offset[sids])
    np.maximum.at(end, cell, storage.offset[sids] + storage.extent[sids])
    offset_of = starts(round_up(end - begin, alignment))
    return offset_of[cell] + storage.offset[sids] - begin[cell], int(offset_of[-1])


def slots_of_copies(program: Program, slots: Slots) -> dict[int, tuple[int, ...]]:
    """{graph input: the slots of the copies that are made when that input is set}."""
    first_entry = program.plan.graph.row_ptr
    return {
        index: tuple(int(slots.slot[first_entry[nid]]) for nid in program.nid[first:last])
        for index, (first, last) in program.at_input.items()
    }


# **************** one entry ****************


def _device(plan: Plan, eid: int) -> Device:
    return plan.devices[int(plan.did[plan.graph.maker(eid)])]


def memory_of(plan: Plan, eid: int) -> int:
    """Index of an entry's memory on its device."""
    descriptor = _device(plan, eid).descriptor
    return descriptor.memories.index(descriptor.memory(plan.layout(eid).memory))


def extent_of(plan: Plan, eid: int) -> int:
    """Bytes of an entry in each bank, at least 1."""
    type_, layout = plan.graph.entry_type(eid), plan.layout(eid)
    if layout.memory == HOST:
        return max(type_.nbytes, 1)
    return max(footprint(layout, type_.shape, _device(plan, eid).descriptor.memory(layout.memory))[0], 1)
