"""Where a plan's values lie on its boards, were they empty before: addresses of storages, pages of L1."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ...base.machine.layout import L1, TILE, Layout, Memory, pages, unit_bytes, unit_places
from ...ir.graph import TensorType
from ...plan.lifetimes import find_values
from ...plan.storage.sizes import round_up
from ...plan.types import Plan

__all__ = ["Page", "Places"]

Page = tuple[int, int, int, int]  # its number, its bank, its address, its bytes


class Places:
    """The storages of a plan as buffers of its boards. A board is a device whose tensors are no host
    pointers; ``board`` {did: its number here}, as ttnn counts devices."""

    def __init__(self, plan: Plan):
        self.plan = plan
        boards = [did for did, device in enumerate(plan.devices) if not device.descriptor.on_host]
        self.board = {did: number for number, did in enumerate(boards)}

    @cached_property
    def address(self) -> np.ndarray:
        """int64 [sids]: the address of each storage in each bank, or host region. A region of a memory that
        fills from the top, as L1, ends at the bank's end."""
        storage, found = self.plan.storage, np.zeros(self.plan.storage.count, np.int64)
        for (did, index), peak in self.plan.peak.items():
            memory = self.plan.devices[did].descriptor.memories[index]
            mine = (storage.did == did) & (storage.memory == index)
            found[mine] = _region(memory, peak) + storage.offset[mine]
        return found

    def memory(self, sid: int) -> Memory:
        """The memory that a storage lies in."""
        storage = self.plan.storage
        return self.plan.devices[storage.did[sid]].descriptor.memories[storage.memory[sid]]

    @cached_property
    def _spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values = find_values(self.plan.graph, self.plan.at_input)
        firsts = values.firsts
        sids = self.plan.sid[firsts]
        on_boards = np.isin(self.plan.storage.did[sids], list(self.board)) & (
            self.plan.storage.extent[sids] > 0
        )
        firsts = firsts[on_boards]
        return firsts, values.born[firsts], values.last[firsts]

    def held(self, nid: int) -> np.ndarray:
        """int64: the values' first entries, one a storage, that lie on boards while a node runs."""
        firsts, born, last = self._spans
        alive = firsts[(born <= nid) & (last >= nid)]
        _, kept = np.unique(self.plan.sid[alive], return_index=True)
        return alive[np.sort(kept)]

    def l1_pages(self, eid: int) -> Iterator[Page]:
        """Each page of an entry that lies in L1; a piece in each core's bank, where a shard cuts a row."""
        layout, sid = self.plan.layout(eid), int(self.plan.sid[eid])
        memory = self.memory(sid)
        if memory.name != L1:
            return
        bank, place, nbytes = _pages(layout, self.plan.graph.entry_type(eid), memory, self._columns(sid))
        address = int(self.address[sid])
        stride = int(
            round_up(nbytes + (memory.tile_header if layout.layout == TILE else 0), memory.alignment)
        )
        for number, (b, at) in enumerate(zip(bank.tolist(), place.tolist(), strict=True)):
            yield number, b, address + at * stride, nbytes

    def _columns(self, sid: int) -> int:
        return self.plan.devices[self.plan.storage.did[sid]].descriptor.grid[1]


def _region(memory: Memory, peak: int) -> int:
    if memory.top_down:
        return memory.bank_bytes - int(round_up(peak, memory.alignment))
    return memory.base


def _pages(
    layout: Layout, type: TensorType, memory: Memory, columns: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """(bank, place within the bank: int64 [pieces]; bytes of a piece), as native/ttsim/sharded.c has them."""
    page = pages(layout, type.shape)
    if not layout.is_sharded:
        number = np.arange(page.count)
        return number % memory.banks, number // memory.banks, page.nbytes
    banks, places, _ = unit_places(layout, type.shape, columns)
    return banks, places, unit_bytes(layout)
