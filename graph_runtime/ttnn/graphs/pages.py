"""Pages of a device's tensors: bank, address and size of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...base.machine.layout import DRAM, TILE, pages, unit_bytes, unit_places
from ...costs.factories.buffers import round_up
from ..devices.mesh_device import MeshDevice
from ..memory.values import BufferType
from ..programs.call import operand
from ..tensors.tensor import Tensor


@dataclass(frozen=True)
class BufferPage:
    """A page of a tensor: its bank, its address in the bank and its size in bytes."""

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
    """The pages of all tensors that scripts hold on a device; constants and intermediate values are left
    out."""
    found: list[BufferPage] = []
    seen = set()
    for tensor in list(device.tensors.values()):
        key = tensor._handle.is_allocated and (tensor._handle.layout.memory, tensor.buffer_address())
        if key and key not in seen:
            seen.add(key)
            found += _pages(device, tensor)
    return found


def buffer_size(tensor: Tensor) -> dict[str, Any]:
    """Sizes of a tensor on a device: bytes of the tensor, of a page and of the fullest bank; number of cores,
    which is 0 for an interleaved tensor."""
    assert tensor._device is not None
    layout, shape = tensor._handle.layout, tensor._handle.shape
    page, cores = pages(layout, shape), 0
    memory = tensor._device.chip.descriptor.memory(layout.memory)
    if layout.is_sharded:
        banks, _, room = unit_places(layout, shape, tensor._device.core_grid.x)
        cores, most = len(set(banks.tolist())), room * unit_bytes(layout)
    else:
        most = -(-page.count // memory.banks) * round_up(page.nbytes, memory.alignment)
    spec = tensor.memory_config().shard_spec
    if spec is not None:
        held = operand(tensor)
        count = held.shard_tiles if held.layout == TILE else held.shard[0]
        most = count * round_up(held.page, memory.alignment)
    return {
        "size": page.count * page.nbytes,
        "type": "DRAM" if layout.memory == DRAM else "L1",
        "layout": tensor.memory_config().memory_layout.name,
        "page_size": page.nbytes,
        "num_cores": cores,
        "max_size_per_bank": most,
    }


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
