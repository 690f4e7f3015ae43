"""The balancer's description of a chip."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.dtypes import FORMATS
from ...base.errors import DeviceError
from ...base.machine.devices import Device
from ..supports import circular_room

BUDA = "buda"
OVERLAY_BYTES = 65_536  # bytes of a core's L1; L1 budgets exclude these bytes already
DST_BYTES = 32_768  # bytes for 16-bit elements; half is filled while half is emptied
_HEADER, _TILE_ALIGN = 16, 32


@dataclass(frozen=True, slots=True)
class Chip:
    """``grid``: compute cores (rows, columns) left after harvesting; ``l1_budget``: bytes of a core's L1 that
    an op may use; ``dram_channel``: bytes of one DRAM channel; ``header``: bytes in front of each tile;
    ``align``: the size of a tile is rounded up to a multiple of these bytes."""

    arch: str
    grid: tuple[int, int]
    l1_budget: int
    dram_channel: int
    header: int = _HEADER
    align: int = _TILE_ALIGN

    def tile_bytes(self, fmt: str) -> int:
        """Bytes of one tile in L1 or DRAM: payload, header, padding."""
        return -(-(FORMATS[fmt].tile_bytes + self.header) // self.align) * self.align


def chip_of(device: Device, room: int | None = None) -> Chip:
    """The chip of a device of stack buda. ``room``: bytes of a core's L1 for op models (memory.room_beside);
    None: all bytes that circular buffers have if no tensor is in L1. Raises DeviceError for any other device.
    """
    d = device.descriptor
    if d.stack != BUDA:
        text = (
            f"{device} is board {d.board} of stack {d.stack}: only boards of stack {BUDA} are balanced; "
            f"use tt:{device.ordinal}=e150"
        )
        raise DeviceError(text, got=d.stack, wanted=BUDA, device=str(device))
    l1 = circular_room(device) if room is None else room
    return Chip(d.arch, d.grid, l1, d.memory("dram").bank_bytes, d.tile_header_bytes)
