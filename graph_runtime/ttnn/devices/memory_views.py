"""Contents of a device's memories."""

from __future__ import annotations

from ...base.machine.layout import DRAM, L1
from ...run.device_handles import open_device
from ..memory.values import BufferType
from .mesh_device import MeshDevice, chip_of

__all__ = [
    "get_dram_alignment",
    "get_l1_alignment",
    "get_max_worker_l1_unreserved_size",
    "get_memory_view",
]


class MemoryView:
    """Sizes in bytes of each bank of a memory: the result of ttnn.get_memory_view."""

    def __init__(self, device: MeshDevice, kind: BufferType):
        if kind in (BufferType.L1_SMALL, BufferType.TRACE):
            self._reserved(device, kind)
            return
        from ...binding import core

        memory = device.chip.descriptor.memory(DRAM if kind is BufferType.DRAM else L1)
        number, handle = device.chip.descriptor.memories.index(memory), open_device(device.chip)
        stats = handle.stats(number)
        # idle buffers are only kept for reuse, so their bytes count as free
        taken = stats.allocated - core.lib.gr_buffers_idle(handle.pointer, number)
        self.num_banks = memory.banks
        self.total_bytes_per_bank = memory.usable
        self.total_bytes_allocated_per_bank = taken
        self.total_bytes_free_per_bank = memory.usable - taken
        self.largest_contiguous_bytes_free_per_bank = stats.largest_free

    def _reserved(self, device: MeshDevice, kind: BufferType) -> None:
        """Fill in the view of L1_SMALL or of the trace region, in which no tensor lies."""
        small = kind is BufferType.L1_SMALL
        size = device.l1_small_size if small else device.trace_region_size
        self.num_banks = device.chip.descriptor.memory(L1 if small else DRAM).banks if size else 0
        self.total_bytes_per_bank = self.total_bytes_free_per_bank = size
        self.total_bytes_allocated_per_bank, self.largest_contiguous_bytes_free_per_bank = 0, size


def get_memory_view(device: MeshDevice, buffer_type: BufferType) -> MemoryView:
    """Current contents of a memory's banks, in bytes. L1 shows the tensors only; L1_SMALL and the trace
    region show the sizes that open_device was asked for. ``device`` must be open."""
    return MemoryView(device, buffer_type)


def get_max_worker_l1_unreserved_size() -> int:
    """Bytes of a core's L1 that tensors can use."""
    return chip_of(0).descriptor.memory(L1).usable


def get_l1_alignment() -> int:
    return chip_of(0).descriptor.memory(L1).alignment


def get_dram_alignment() -> int:
    return chip_of(0).descriptor.memory(DRAM).alignment
