"""What the balancer needs to know of a chip."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.dtypes import FORMATS
from ...base.errors import DeviceError
from ...base.machine.devices import Device
from ..supports import circular_room

__all__ = ["BUDA", "DST_BYTES", "OVERLAY_BYTES", "Chip", "chip_of"]

BUDA = "buda"
OVERLAY_BYTES = 65_536  # of a core's L1, set apart already in the budget
DST_BYTES = 32_768  # in 16-bit elements; one half is filled while the other is emptied
_HEADER, _TILE_ALIGN = 16, 32


@dataclass(frozen=True, slots=True)
class Chip:
    """``grid``: compute cores (rows, columns) left after harvesting; ``l1_budget``: bytes of a core's L1 that
    an op may use; ``dram_channel``: bytes of one DRAM channel; ``header``, ``align``: bytes put in front of
    each tile, and the multiple that a tile takes."""

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
    """The chip of a device of stack buda. ``room``: bytes of a core's L1 that op models may use
    (capacity.room_beside); None: all that circular buffers have where no tensor lies there. Raises
    DeviceError for any other device."""
    d = device.descriptor
    if d.stack != BUDA:
        raise DeviceError(
            f"{device} is board {d.board} of stack {d.stack}: only boards of stack {BUDA} are balanced; "
            f"use tt:{device.ordinal}=e150",
            got=d.stack,
            wanted=BUDA,
            device=str(device),
        )
    l1 = circular_room(device) if room is None else room
    return Chip(d.arch, d.grid, l1, d.memory("dram").bank_bytes, d.tile_header_bytes)
