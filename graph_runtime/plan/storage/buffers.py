"""Buffers: values joined by in-place use and aliases; which of them share bytes, and where they lie."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...ir.graph import Graph
from ..columns import first_of, follow
from ..lifetimes import Values
from ..queues.happens import Users
from .offsets import MOST, Packed, Packer, most_live, pack_conflicts, pack_offsets
from .sizes import Sizes, round_up

__all__ = ["Allocation", "Buffers", "alias_entries", "greedy"]


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """``sid`` int64 [entries], and for each sid ``offset`` int64: from the start of its memory. ``bound``
    {region: bytes}: no plan by the same rule takes less."""

    sid: np.ndarray
    offset: np.ndarray
    bound: Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Values joined by in-place use and aliases. ``of`` int64 [entries]: the row of each entry's buffer; for
    each, in the order of first entries: ``born`` and ``last`` int64 as in Values, ``size`` int64, the bytes
    that it takes of its region (int64), which begin at a multiple of the memory's alignment."""

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
        """{region: the most bytes that live at once}: no plan takes less."""
        return {
            r: most_live(self.born[mine], self.last[mine] + 1, self.size[mine]) for r, mine in self._regions()
        }

    def _regions(self) -> list[tuple[int, np.ndarray]]:
        used = np.flatnonzero(np.bincount(self.region)).tolist()
        return [(r, np.flatnonzero(self.region == r)) for r in used]

    # **************** which buffer lies where ****************

    def apart(self) -> Allocation:
        """Every buffer at bytes of its own."""
        block = np.argsort(np.argsort(self.born, kind="stable"), kind="stable")
        return self._one_after_another(block)

    def share(self, packer: Packer | None, users: Users | None) -> Allocation:
        """Bytes for a serial order, or with ``users`` for queues. What is never overwritten comes first.

        Whole blocks that buffers use in turn, as TVM has them, where they reach the bound; else offsets.
        """
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
        """Each block after the one before it in its region."""
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
        begin = np.zeros(len(self.size), np.int64)
        begin[self.of] = allocation.offset[allocation.sid]
        return {r: int((begin[mine] + self.size[mine]).max()) for r, mine in self._regions()}

    def _offsets(self, region: int, packer: Packer | None, users: Users | None) -> Packed | None:
        """Offsets of a region's buffers, None where there are too many of them."""
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
        """With the offsets found for some regions: buffers of one offset and one size share a sid."""
        begin = np.zeros(len(self.size), np.int64)
        begin[self.of] = allocation.offset[allocation.sid]
        block = np.zeros(len(self.size), np.int64)
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
    """int64 [values]: the block of each value, by best fit over lifetimes, the rule of TVM's planner without
    its limit on waste; values whose lifetimes [born, last] touch never share one.

    Values come in the order of ``born``. Of the free blocks of its region a value takes the smallest that is
    large enough, else the largest, which grows, else a new one: blocks are numbered as they are made.
    """
    ending = np.argsort(last, kind="stable")
    ends, ending = last[ending].tolist(), ending.tolist()
    born, size, region = born.tolist(), size.tolist(), region.tolist()
    free: list[list[tuple[int, int]]] = [
        [] for _ in range(max(region, default=-1) + 1)
    ]  # sorted (capacity, block)
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
