"""What lies where: the pages of the tensors of a device."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.machine.layout import DRAM, pages, unit_bytes, unit_places
from .devices import MeshDevice
from .tensor import Tensor
from .values import BufferType

__all__ = ["BufferPage", "get_buffer_pages"]


@dataclass(frozen=True)
class BufferPage:
    """A page of a tensor: its bank, its address there and its bytes."""

    device_id: int
    address: int
    core_y: int
    core_x: int
    bank_id: int
    page_index: int
    page_address: int
    page_size: int
    buffer_type: BufferType


def get_buffer_pages(device: MeshDevice) -> list[BufferPage]:
    """The pages of all tensors that programs hold on a device; not those of constants and of intermediate
    values."""
    found: list[BufferPage] = []
    seen = set()
    for tensor in list(device.tensors.values()):
        key = tensor._handle.is_allocated and (tensor._handle.layout.memory, tensor.buffer_address())
        if key and key not in seen:
            seen.add(key)
            found += _pages(device, tensor)
    return found


def _pages(device: MeshDevice, tensor: Tensor) -> list[BufferPage]:
    handle, address = tensor._handle, tensor.buffer_address()
    layout, shape, cols = handle.layout, handle.shape, device.core_grid.x
    memory = device.chip.descriptor.memory(layout.memory)
    kind = BufferType.DRAM if layout.memory == DRAM else BufferType.L1
    if layout.is_sharded:
        banks, places, _ = unit_places(layout, shape, cols)
        size = unit_bytes(layout)
    else:
        page = pages(layout, shape)
        size = page.nbytes
        banks, places = zip(*(divmod(at, memory.banks)[::-1] for at in range(page.count)), strict=True)
    stride = -(-size // memory.alignment) * memory.alignment
    return [
        BufferPage(
            device.number,
            address,
            0 if kind is BufferType.DRAM else int(bank) // cols,
            int(bank) if kind is BufferType.DRAM else int(bank) % cols,
            int(bank),
            at,
            address + int(place) * stride,
            size,
            kind,
        )
        for at, (bank, place) in enumerate(zip(banks, places, strict=True))
    ]
