"""LaidOutGraph -> Plan: the storage id of each entry, and the place of each storage in its device's memory.

The file's storage_id is followed; where a pin, an inserted copy or a relayout makes it unsafe, storage is
planned anew.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..graph import Graph
from .capacity import check_capacity
from .columns import follow
from .lifetimes import Values, find_values, inplace_slots, take_over
from .pack import greedy
from .pools import lay_out
from .sizes import Sizes, entry_sizes
from .types import LaidOutGraph, Plan, Storage

__all__ = ["Pack", "assign_storage"]

# (born, last, size, region), each int64 [values] -> block int64 [values]; see pack.greedy
Pack = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def assign_storage(laid_out: LaidOutGraph, *, loaded: Graph | None = None, in_place: bool = True,
                   inplace: Mapping[str, tuple[int, ...]] | None = None, use_hints: bool = True,
                   pack: Pack = greedy) -> Plan:
    """Give every entry a storage id and every storage an offset.

    ``loaded``: the graph as the file has it, if passes or pins may have changed it since: then the file's
    storage ids are followed only where they are still safe. ``in_place``: let an output take over the buffer
    of an input that dies there, as the op registry or ``inplace`` (func_name -> inputs, from manifests)
    allows. ``pack`` chooses which values share.

    Raises CapacityError, before anything is allocated, if a device has too little memory; PlanError for a
    storage column that says two things.
    """
    graph, at_input = laid_out.placed.graph, laid_out.placed.at_input
    sizes = entry_sizes(laid_out)
    values = find_values(graph, at_input)
    slots = inplace_slots(graph, inplace) if in_place else np.zeros(len(graph.in_eid), bool)
    donor = take_over(laid_out, values, slots)
    warnings, sid, hinted = laid_out.placed.warnings, None, False
    if use_hints and graph.hints.storage_id is not None:
        sid = _follow_ids(graph, values)
        hinted = True
        if loaded is not None and _unsafe(sid, values, donor, sizes) and not _was_unsafe(loaded):
            sid, hinted = None, False
            warnings = (
                *warnings,
                "the file's storage_id does not fit the devices and copies chosen here: planned anew",
            )
    buffers = _Buffers.join(graph, values, donor)
    if sid is None:
        sid = buffers.assign(sizes, pack)
    storage = lay_out(laid_out, sid, sizes, hinted and loaded is None)
    plan = _make_plan(laid_out, sid, storage, buffers, sizes, warnings)
    check_capacity(plan)
    return plan


# **************** the file's storage ids ****************

def _follow_ids(graph: Graph, values: Values) -> np.ndarray:
    """The hinted sids: fresh ones for new entries, an alias output on its input, a reshape of a new copy on
    that copy."""
    hinted = np.asarray(graph.hints.storage_id, np.int64)
    sid = hinted.copy()
    new = np.flatnonzero(hinted < 0)
    sid[new] = max(int(hinted.max(initial=-1)), len(graph.hints.storage or ()) - 1) + 1 + np.arange(len(new))
    rewired = (hinted[values.of] < 0) & (hinted >= 0)
    sid[rewired] = sid[values.of[rewired]]
    into = np.full(len(sid), -1, np.int64)
    for out, entry in _alias_entries(graph):
        into[values.of[out]] = sid[entry]
    return np.where(into[values.of] >= 0, into[values.of], sid)


def _alias_entries(graph: Graph) -> list[tuple[int, int]]:
    """(output entry, input entry) of each alias whose indices are in range."""
    outputs, inputs = graph.outputs.tolist(), graph.input_eids.tolist()
    return [(outputs[o], inputs[i]) for o, i in graph.hints.aliases
            if 0 <= o < len(outputs) and 0 <= i < len(inputs)]


def _unsafe(sid: np.ndarray, values: Values, donor: np.ndarray, sizes: Sizes) -> bool:
    """True where a sid has entries in two memories, or two values that live at once."""
    first = np.zeros(int(sid.max(initial=-1)) + 1, np.int64)
    first[sid] = np.arange(len(sid))
    return bool((sizes.region != sizes.region[first[sid]]).any()) or _overlap(sid, values, donor)


def _overlap(sid: np.ndarray, values: Values, donor: np.ndarray | None) -> bool:
    """Two values on one sid live at once. ``donor`` None: believe every in-place use."""
    firsts = values.firsts
    born, last = 2 * values.born, 2 * values.last
    if donor is None:
        last = np.maximum(last - 1, born)
    else:
        taken = firsts[donor[firsts] != firsts]
        taken = taken[sid[taken] == sid[donor[taken]]]
        last[donor[taken]] -= 1                           # written over as it is read for the last time
    order = firsts[np.lexsort((born[firsts], sid[firsts]))]
    return bool(((sid[order][1:] == sid[order][:-1]) & (last[order][:-1] >= born[order][1:])).any())


def _was_unsafe(loaded: Graph) -> bool:
    """True where the file contradicts itself before any pass changed it: then it is followed, for the check
    to refuse."""
    sid, hints = np.asarray(loaded.hints.storage_id, np.int64), loaded.hints
    at_input = np.zeros(loaded.num_nodes, bool)
    at_input[list(hints.at_input)] = True
    values = find_values(loaded, at_input)
    first = np.zeros(int(sid.max(initial=-1)) + 1, np.int64)
    first[sid] = np.arange(len(sid))
    for column in (hints.device_type, hints.device_id):
        if column is not None and (column != column[first[sid]]).any():
            return True
    return False if hints.aliases else _overlap(sid, values, None)


# **************** planning anew ****************

@dataclass(frozen=True, slots=True, eq=False)
class _Buffers:
    """Values joined by in-place use and aliases. ``of`` int64 [entries]: the first entry of each entry's
    buffer; ``firsts`` int64 [buffers], ascending; ``born`` and ``last`` int64 [buffers] as in Values."""

    of: np.ndarray
    firsts: np.ndarray
    born: np.ndarray
    last: np.ndarray

    @classmethod
    def join(cls, graph: Graph, values: Values, donor: np.ndarray) -> _Buffers:
        parent = donor.copy()
        for out, into in _alias_entries(graph):
            parent[values.of[out]] = values.of[into]
        root = follow(parent) if (parent != np.arange(len(parent))).any() else parent
        of = root[values.of]
        last = np.zeros(len(of), np.int64)
        born = values.born
        heads = values.firsts
        np.maximum.at(last, root[heads], values.last[heads])
        firsts = heads[root[heads] == heads]
        return cls(of, firsts, born[firsts], last[firsts])

    def sizes(self, sizes: Sizes) -> np.ndarray:
        """int64 [buffers]: the largest extent of each buffer's entries."""
        most = sizes.extent.copy()
        np.maximum.at(most, self.of, sizes.extent)
        return most[self.firsts]

    def assign(self, sizes: Sizes, pack: Pack) -> np.ndarray:
        """int64 [entries]: a sid each; buffers that are never overwritten come first and share nothing."""
        order = np.argsort(self.born, kind="stable")
        pinned = int((self.born < 0).sum())
        rest = order[pinned:]
        block = np.empty(len(order), np.int64)
        block[order[:pinned]] = np.arange(pinned)
        if len(rest):
            block[rest] = pinned + pack(self.born[rest], self.last[rest], self.sizes(sizes)[rest],
                                        sizes.region[self.firsts[rest]])
        by_entry = np.empty(len(self.of), np.int64)
        by_entry[self.firsts] = block
        return by_entry[self.of]

    def most_live(self, sizes: Sizes, num_nodes: int) -> dict[int, int]:
        """{region: the most bytes that live at once}."""
        size, region = self.sizes(sizes), sizes.region[self.firsts]
        bound = {}
        for which in np.flatnonzero(np.bincount(region)).tolist():
            mine = region == which
            change = np.bincount(self.born[mine] + 1, size[mine], num_nodes + 3)
            change -= np.bincount(self.last[mine] + 2, size[mine], num_nodes + 3)
            bound[which] = int(change.cumsum().max())
        return bound


def _make_plan(laid_out: LaidOutGraph, sid: np.ndarray, storage: Storage, buffers: _Buffers, sizes: Sizes,
               warnings: tuple[str, ...]) -> Plan:
    placed = laid_out.placed
    peak: dict[tuple[int, int], int] = {}
    ends = storage.offset + storage.extent
    for which in np.unique(storage.did.astype(np.int64) * 16 + storage.memory).tolist():
        mine = (storage.did == which // 16) & (storage.memory == which % 16)
        peak[which // 16, which % 16] = int(ends[mine].max(initial=0))
    bound = {(int(sizes.region_did[r]), int(sizes.region_memory[r])): most
             for r, most in buffers.most_live(sizes, placed.graph.num_nodes).items()}
    return Plan(
        placed.graph,
        placed.devices,
        placed.did,
        placed.origin,
        placed.at_input,
        placed.cause_id,
        placed.causes,
        laid_out.layouts,
        laid_out.layout_id,
        sid.astype(np.int32),
        storage,
        placed.graph.hints.aliases,
        peak,
        bound,
        laid_out.layout_causes,
        warnings,
    )
