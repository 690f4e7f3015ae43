"""Buffers: values joined by in-place use and aliases. This module has their sizes, the bytes that they share,
and their offsets."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.dtypes import FORMATS
from ...base.errors import CapacityError, DeviceError, GraphRuntimeError, PlanError
from ...base.machine.descriptors import Memory
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, L1, Layout, footprint, shard_fault
from ...ir.graph import Graph, TensorType
from ..columns import Values, first_of, follow, intern, most_live, slot_nid
from ..queues.happens import Users
from ..types import LaidOutGraph
from .offsets import MOST, Packed, Packer, pack_conflicts, pack_offsets


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """``sid`` int64 [entries]: storage id of each entry; ``offset`` int64 [sids]: bytes from the start of the
    memory; ``bound`` {region: bytes}: a lower bound of all plans by the same rule."""

    sid: np.ndarray
    offset: np.ndarray
    bound: Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Values joined by in-place use and aliases. ``of`` int64 [entries]: each entry's buffer. Columns int64
    [buffers], in the order of first entries: ``born`` and ``last`` as in Values; ``size``: bytes taken from
    ``region``. Buffers begin at multiples of the memory's alignment."""

    of: np.ndarray
    born: np.ndarray
    last: np.ndarray
    size: np.ndarray
    region: np.ndarray

    @classmethod
    def join(cls, graph: Graph, values: Values, donor: np.ndarray, sizes: Sizes) -> Buffers:
        parent = donor.copy()
        for out, into in alias_entries(graph):
            parent[values.of[out]] = values.of[into]
        root = follow(parent) if (parent != np.arange(len(parent))).any() else parent
        heads = values.firsts
        last = np.zeros(len(root), np.int64)
        np.maximum.at(last, root[heads], values.last[heads])
        firsts = heads[root[heads] == heads]
        row = np.zeros(len(root), np.int64)
        row[firsts] = np.arange(len(firsts))
        of = row[root[values.of]]
        extent = np.zeros(len(firsts), np.int64)
        np.maximum.at(extent, of, sizes.extent)
        region = sizes.region[firsts]
        size = round_up(extent, sizes.alignment[region]) if len(firsts) else extent
        return cls(of, values.born[firsts], last[firsts], size, region)

    def most_live(self) -> dict[int, int]:
        """{region: the most bytes that are live at once}, a lower bound of all plans."""
        return {
            r: most_live(self.born[mine], self.last[mine] + 1, self.size[mine]) for r, mine in self._regions()
        }

    def _regions(self) -> list[tuple[int, np.ndarray]]:
        used = np.flatnonzero(np.bincount(self.region)).tolist()
        return [(r, np.flatnonzero(self.region == r)) for r in used]

    # **************** which buffer lies where ****************

    def apart(self) -> Allocation:
        """The allocation in which every buffer has its own bytes."""
        return self._one_after_another(np.argsort(np.argsort(self.born, kind="stable"), kind="stable"))

    def share(self, packer: Packer | None, users: Users | None) -> Allocation:
        """The allocation in which buffers share bytes, for a serial order, or with ``users`` for queues.
        Buffers that are never overwritten come first. The other buffers use whole blocks in turn, as in TVM,
        if that reaches the lower bound; else each has an offset of its own."""
        block = self._blocks(users)
        allocation = self._one_after_another(block)
        end = self._ends(allocation)
        better = {}
        bounds = self.most_live()
        for r, bound in bounds.items():
            if end[r] > bound:
                packed = self._offsets(r, packer, users)
                if packed is not None:
                    bounds[r] = max(bound, packed.bound)
                if packed is not None and packed.peak < end[r]:
                    better[r] = packed.offset
        return replace(self._at_offsets(allocation, better) if better else allocation, bound=bounds)

    def _blocks(self, users: Users | None) -> np.ndarray:
        order = np.argsort(self.born, kind="stable")
        pinned = int((self.born < 0).sum())
        rest = order[pinned:]
        block = np.empty(len(order), np.int64)
        block[order[:pinned]] = np.arange(pinned)
        if len(rest):
            columns = self.last[rest], self.size[rest], self.region[rest]
            block[rest] = pinned + (
                greedy(self.born[rest], *columns) if users is None else users.greedy(rest, *columns[1:])
            )
        return block

    def _one_after_another(self, block: np.ndarray) -> Allocation:
        """The allocation in which each block follows the block before it in its region."""
        count = int(block.max(initial=-1)) + 1
        size, region = np.zeros(count, np.int64), np.zeros(count, np.int64)
        np.maximum.at(size, block, self.size)
        region[block] = self.region
        offset = np.zeros(count, np.int64)
        for r, _ in self._regions():
            mine = np.flatnonzero(region == r)
            offset[mine] = size[mine].cumsum() - size[mine]
        return Allocation(block[self.of], offset, {})

    def _ends(self, allocation: Allocation) -> dict[int, int]:
        begin = self._begin(allocation)
        return {r: int((begin[mine] + self.size[mine]).max()) for r, mine in self._regions()}

    def _begin(self, allocation: Allocation) -> np.ndarray:
        begin = np.zeros(len(self.size), np.int64)
        begin[self.of] = allocation.offset[allocation.sid]
        return begin

    def _offsets(self, region: int, packer: Packer | None, users: Users | None) -> Packed | None:
        """Offsets of a region's buffers; None if the region has more than MOST buffers."""
        mine = np.flatnonzero(self.region == region)
        pinned, moving = mine[self.born[mine] < 0], mine[(self.born[mine] >= 0) & (self.size[mine] > 0)]
        if len(moving) > MOST:
            return None
        base = int(self.size[pinned].sum())
        born, size = self.born[moving], self.size[moving]
        if users is None:
            packed = pack_offsets(born, self.last[moving] + 1, size, packer)
        else:
            packed = pack_conflicts(users.conflicts(moving), born, size, packer)
        offset = np.zeros(len(self.size), np.int64)
        offset[pinned] = self.size[pinned].cumsum() - self.size[pinned]
        offset[moving] = base + packed.offset
        return Packed(offset[mine], base + packed.peak, base + packed.bound)

    def _at_offsets(self, allocation: Allocation, better: dict[int, np.ndarray]) -> Allocation:
        """``allocation`` with ``better``, the offsets found for some regions. There, buffers of equal offset
        and size share a sid."""
        begin, block = self._begin(allocation), np.zeros(len(self.size), np.int64)
        block[self.of] = allocation.sid
        key = np.stack([block, np.full_like(block, -1), np.full_like(block, -1)])
        for r, offset in better.items():
            mine = np.flatnonzero(self.region == r)
            begin[mine] = offset
            loose = mine[self.born[mine] >= 0]
            key[0, loose] = -1 - r
            key[1:, loose] = begin[loose], self.size[loose]
        order = np.argsort(self.born, kind="stable")  # sids are numbered by their first use
        _, first, row = np.unique(key[:, order], axis=1, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        sid = np.empty(len(order), np.int64)
        sid[order] = rank[row.reshape(-1)]
        return Allocation(sid[self.of], begin[first_of(sid, len(first))], allocation.bound)


def alias_entries(graph: Graph) -> list[tuple[int, int]]:
    """(output entry, input entry) of each alias whose indices are in range."""
    outputs, inputs = graph.outputs.tolist(), graph.input_eids.tolist()
    return [
        (outputs[o], inputs[i])
        for o, i in graph.hints.aliases
        if 0 <= o < len(outputs) and 0 <= i < len(inputs)
    ]


def greedy(born: np.ndarray, last: np.ndarray, size: np.ndarray, region: np.ndarray) -> np.ndarray:
    """int64 [values]: the block of each value. The rule is best fit over lifetimes, as in TVM's planner, but
    without its limit on waste; values whose lifetimes [born, last] touch never share a block.

    Values come in the order of ``born``. A value takes the smallest free block of its region that is large
    enough, else the largest free block, which grows, else a new block. Blocks are numbered in order of
    creation.
    """
    ending = np.argsort(last, kind="stable")
    ends, ending = last[ending].tolist(), ending.tolist()
    born, size, region = born.tolist(), size.tolist(), region.tolist()
    free = [
        list[tuple[int, int]]() for _ in range(max(region, default=-1) + 1)
    ]  # sorted pairs (capacity, block)
    capacity: list[int] = []
    block = [0] * len(born)
    at = 0
    for value, start in enumerate(born):
        while ends[at] < start:
            done = ending[at]
            at += 1
            insort(free[region[done]], (capacity[block[done]], block[done]))
        blocks, need = free[region[value]], size[value]
        if not blocks:
            block[value] = len(capacity)
            capacity.append(need)
            continue
        fit = bisect_left(blocks, (need, -1))
        if fit == len(blocks):
            fit -= 1
        found = block[value] = blocks.pop(fit)[1]
        if capacity[found] < need:
            capacity[found] = need
    return np.array(block, np.int64)


# **************** sizes ****************


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Sizes of entries, int64 [entries]: ``extent``, bytes in each bank; ``nbytes``, padded bytes in all
    banks (equal to ``extent`` on a host); ``region``, row in the table of memories in use. The columns of
    that table, int64 [regions]: ``region_did``, ``region_memory``, ``alignment``."""

    extent: np.ndarray
    nbytes: np.ndarray
    region: np.ndarray
    region_did: np.ndarray
    region_memory: np.ndarray
    alignment: np.ndarray


def entry_sizes(laid_out: LaidOutGraph) -> Sizes:
    """Sizes of all entries; the Python code for a size runs once for each distinct (type, layout, device).

    Raises PlanError for a block format that is not tiled, for a shard that the tensor or the device cannot
    have and for a memory that the device lacks; CapacityError for an entry larger than its memory, so that
    sums of sizes cannot overflow.
    """
    graph, devices, layouts = laid_out.placed.graph, laid_out.placed.devices, laid_out.layouts
    entry_did = np.repeat(laid_out.placed.did, np.diff(graph.row_ptr))
    keys = (graph.type_id.astype(np.int64) * len(layouts) + laid_out.layout_id) * len(devices) + entry_did
    distinct, row = intern(keys, len(graph.types) * len(layouts) * len(devices))
    first, maker = first_of(row, len(distinct)), graph.entry_nid
    regions: dict[tuple[int, int], int] = {}
    table = np.zeros((3, len(distinct)), np.int64)
    for at, key in enumerate(distinct.tolist()):
        rest, did = divmod(key, len(devices))
        type_, layout = graph.types[rest // len(layouts)], layouts[rest % len(layouts)]
        try:
            name = graph.names[int(maker[first[at]])]
            memory, extent, nbytes = _size(type_, layout, devices[did], name)
        except (DeviceError, PlanError) as error:
            raise _at_node(laid_out, int(first[at]), error) from None
        table[:, at] = extent, nbytes, regions.setdefault((did, memory), len(regions))
    extent, nbytes, region = table[:, row]
    alignment = [devices[d].descriptor.memories[m].alignment for d, m in regions]
    dids, memories = np.array(list(regions), np.int64).reshape(-1, 2).T
    return Sizes(extent, nbytes, region, dids, memories, np.array(alignment, np.int64))


def _size(type_: TensorType, layout: Layout, device: Device, node: str) -> tuple[int, int, int]:
    """(index of the memory, extent in each bank, bytes over all banks) of an entry of a node."""
    memory = device.descriptor.memory(layout.memory)
    index = device.descriptor.memories.index(memory)
    if memory.name == HOST:
        extent = nbytes = type_.nbytes
    else:
        reason = shard_fault(layout, type_.shape, memory, device.descriptor.grid)
        if reason:
            raise PlanError(f"{type_} cannot be {layout} on {device}: {reason}", got=str(layout))
        extent, nbytes = footprint(layout, type_.shape, memory)
    if extent > memory.available:
        raise CapacityError(
            f"{out_of_memory(device, memory, nbytes, extent, 0)}: {type_} in {layout} alone is too large; "
            f"{remedy(device, memory, layout, node)}",
            needed=extent,
            available=memory.available,
        )
    return index, extent, nbytes


def out_of_memory(device: Device, memory: Memory, nbytes: int, extent: int, taken: int) -> str:
    """tt-metal's error text for a buffer that does not fit if ``taken`` bytes of each bank are allocated."""
    if memory.banks == 1:
        return (
            f"Out of Memory: Not enough space to allocate {extent} B of {device} {memory.name} memory, "
            f"of which {memory.available} B are for tensors (allocated: {taken} B, free: "
            f"{memory.available - taken} B)"
        )
    return (
        f"Out of Memory: Not enough space to allocate {nbytes} B {memory.name.upper()} buffer across "
        f"{memory.banks} banks, where each bank needs to store {extent} B, but bank size is "
        f"{memory.available} B (allocated: {taken} B, free: {memory.available - taken} B, largest free "
        f"block: {memory.available - taken} B) on {device}"
    )


def remedy(device: Device, memory: Memory, layout: Layout | None, node: str) -> str:
    """Advice to a user about a full memory that holds a node's result."""
    if memory.name == HOST:
        return f"place less on {device}"
    if memory.name == L1:
        cores = "shard it over more cores, or " if layout is not None and layout.shard else "shard it, or "
        return f"{cores}keep it in dram (--layout '{node}=dram')"
    blocks = layout is not None and FORMATS[layout.format].shared_exponent
    formats = "" if blocks else f"--format {device.kind}=bfp8_b, "
    return f"change: {formats}a smaller batch, or place less on {device}"


def _at_node(laid_out: LaidOutGraph, eid: int, error: GraphRuntimeError) -> PlanError:
    nid = laid_out.placed.graph.maker(eid)
    fields = laid_out.placed.where(nid)
    kind = CapacityError if isinstance(error, CapacityError) else PlanError
    return kind(f"node {fields['node']!r}: {error}", **{**error.fields, **fields})


def round_up(value: Any, step: int | np.integer) -> Any:
    """A number, or an array of numbers, rounded up to a multiple of ``step``."""
    return -(-value // step) * step


def take_over(laid_out: LaidOutGraph, values: Values, slots: np.ndarray) -> np.ndarray:
    """int64 [entries]: for a value's first entry, the value whose buffer it may overwrite; the entry itself
    if there is no such value. The overwritten value must have exactly the type and layout of the node's
    output 0. That node must be the last that needs the value, and must read it only through ``slots``
    (inplace_slots) of that type."""
    graph = laid_out.placed.graph
    donor = np.arange(graph.num_entries)
    if not slots.any():
        return donor
    reader, value = slot_nid(graph), values.of[graph.in_eid]
    slots = slots & (np.diff(graph.row_ptr) > 0)[reader]
    output = np.minimum(graph.row_ptr[reader], graph.num_entries - 1)  # a node may have no output
    entry_did = np.repeat(laid_out.placed.did, np.diff(graph.row_ptr))
    dies = (values.last[value] == reader) & (values.born[value] >= 0)
    fits = (
        slots
        & dies
        & _equal(laid_out, entry_did, graph.in_eid, output)
        & _equal(laid_out, entry_did, value, output)
    )
    spoilt = np.zeros(graph.num_entries, bool)
    spoilt[value[dies & ~fits]] = True
    fits &= ~spoilt[value]
    made = output[fits][::-1]  # the first fitting input of a node is written last and is kept
    donor[made] = value[fits][::-1]
    return donor


def _equal(laid_out: LaidOutGraph, entry_did: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    type_id, layout_id = laid_out.placed.graph.type_id, laid_out.layout_id
    return (type_id[a] == type_id[b]) & (layout_id[a] == layout_id[b]) & (entry_did[a] == entry_did[b])
