"""Places of a plan's values on boards that contain nothing else: addresses of storages, and pages of L1."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ...base.machine.descriptors import Memory
from ...base.machine.layout import L1, TILE, Layout, pages, unit_bytes, unit_places
from ...ir.graph import TensorType
from ...plan.columns import find_values
from ...plan.storage.buffers import round_up
from ...plan.types import Plan

Page = tuple[int, int, int, int]  # (page number, bank, address in the bank, bytes)


class Places:
    """The storages of a plan as buffers of its boards. A board is a device whose tensors are not host
    pointers; ``board`` {did: the board's number in ttnn}."""

    def __init__(self, plan: Plan):
        self.plan = plan
        boards = [did for did, device in enumerate(plan.devices) if not device.descriptor.on_host]
        self.board = {did: number for number, did in enumerate(boards)}

    @cached_property
    def address(self) -> np.ndarray:
        """int64 [sids]: address of each storage in every bank, or in the host region. In a memory filled from
        the top, such as L1, the region is at the end of the bank."""
        storage, found = self.plan.storage, np.zeros(self.plan.storage.count, np.int64)
        for (did, index), peak in self.plan.peak.items():
            memory = self.plan.devices[did].descriptor.memories[index]
            mine = (storage.did == did) & (storage.memory == index)
            top = memory.bank_bytes - int(round_up(peak, memory.alignment))
            found[mine] = (top if memory.top_down else memory.base) + storage.offset[mine]
        return found

    def memory(self, sid: int) -> Memory:
        """The memory that contains a storage."""
        storage = self.plan.storage
        return self.plan.devices[storage.did[sid]].descriptor.memories[storage.memory[sid]]

    @cached_property
    def _spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values, storage = find_values(self.plan.graph, self.plan.at_input), self.plan.storage
        sids = self.plan.sid[values.firsts]
        firsts = values.firsts[np.isin(storage.did[sids], list(self.board)) & (storage.extent[sids] > 0)]
        return firsts, values.born[firsts], values.last[firsts]

    def held(self, nid: int) -> np.ndarray:
        """int64 [values]: the first entry of each value that is on a board while node ``nid`` runs; one value
        per storage."""
        firsts, born, last = self._spans
        alive = firsts[(born <= nid) & (last >= nid)]
        _, kept = np.unique(self.plan.sid[alive], return_index=True)
        return alive[np.sort(kept)]

    def l1_pages(self, eid: int) -> Iterator[Page]:
        """Each page of an entry in L1. A row that shards cut is several pieces, one in each core's bank."""
        layout, sid = self.plan.layout(eid), int(self.plan.sid[eid])
        memory = self.memory(sid)
        if memory.name != L1:
            return
        columns = self.plan.devices[self.plan.storage.did[sid]].descriptor.grid[1]
        bank, place, nbytes = _pages(layout, self.plan.graph.entry_type(eid), memory, columns)
        address, header = int(self.address[sid]), memory.tile_header if layout.layout == TILE else 0
        stride = int(round_up(nbytes + header, memory.alignment))
        for number, (b, at) in enumerate(zip(bank.tolist(), place.tolist(), strict=True)):
            yield number, b, address + at * stride, nbytes


def _pages(
    layout: Layout, type: TensorType, memory: Memory, columns: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """(bank of each piece, place of each piece within its bank, bytes of a piece), as in
    native/ttsim/sharded.c. The first two are int64 [pieces]."""
    page = pages(layout, type.shape)
    if not layout.is_sharded:
        number = np.arange(page.count)
        return number % memory.banks, number // memory.banks, page.nbytes
    banks, places, _ = unit_places(layout, type.shape, columns)
    return banks, places, unit_bytes(layout)
