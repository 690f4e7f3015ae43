"""Card programs that resize images."""

from __future__ import annotations

from ...base.machine.layout import TILE
from .buffers import CardOperand, CardProgram, round_up, tiles
from .movement.steps import opened


def upsampled(x: CardOperand, cores: int, aligned: int = 32) -> CardProgram:
    """Buffers of pool/upsample/device/upsample_program_factory_multicore_interleaved.cpp, and of its like
    for other factors: a pixel of an interleaved image, or two if a core has several; tiles are read a row
    of tiles at a time. ``aligned``: alignment in bytes of reads from DRAM."""
    if x.layout == TILE:
        units, row = x.matrix[0], tiles(x.shape[-1])
        pages = row if units <= cores else 2 * row
        return opened("upsample of tiles", ("in", pages, x.tile), ("out", pages, x.tile))
    pixels = x.batch * x.shape[-2]
    size = round_up(x.shape[-1] * x.element, aligned)
    return opened("upsample", ("pixels", 1 if pixels <= cores else 2, size))
