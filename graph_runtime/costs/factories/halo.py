"""Sliding windows over shards: what of the image each core must have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.machine.layout import ROW_MAJOR, TILE_DIM
from .buffers import BF16, F32, CardProgram, CircularBuffer, ceil_div, round_up, tile_bytes, tiles

__all__ = ["HaloWindow", "halo", "halo_rows"]


@dataclass(frozen=True, slots=True)
class HaloWindow:
    """``batch`` images of ``size`` (rows, columns) under windows of ``kernel``; ``pads`` (top, bottom, left,
    right), ``ceil`` rows and columns besides where results are rounded up."""

    batch: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    ceil: tuple[int, int] = (0, 0)

    @property
    def padded(self) -> tuple[int, int]:
        top, bottom, left, right = self.pads
        return self.size[0] + top + bottom + self.ceil[0], self.size[1] + left + right + self.ceil[1]

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns that a window covers."""
        (kh, kw), (dh, dw) = self.kernel, self.dilation
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    @property
    def result(self) -> tuple[int, int]:
        """How many windows there are down and across."""
        (h, w), (rh, rw), (sh, sw) = self.padded, self.reach, self.stride
        return (h - rh) // sh + 1, (w - rw) // sw + 1

    @property
    def pixels(self) -> int:
        """Of all results together."""
        down, across = self.result
        return self.batch * down * across


def halo_rows(window: HaloWindow, cores: int, in_tiles: bool = True) -> int:
    """sliding_window/sliding_window.cpp: the most pixels of the padded image that a core reads, where results
    lie on ``cores`` cores one after the other, in shards of whole tiles or of pixels: from the first window's
    first pixel to the last window's last."""
    (down, across), (height, width) = window.result, window.padded
    shard = round_up(window.pixels, cores * (TILE_DIM if in_tiles else 1)) // cores
    first = np.arange(0, window.pixels, shard)
    last = np.minimum(first + shard, window.pixels) - 1

    def corner(result: np.ndarray) -> np.ndarray:
        image, at = np.divmod(result, down * across)
        row, col = np.divmod(at, across)
        return image * height * width + row * window.stride[0] * width + col * window.stride[1]

    rows, cols = window.reach
    return int((corner(last) - corner(first)).max()) + (rows - 1) * width + cols


def halo(format: str, layout: str, shard: tuple[int, int], pixels: int, cores: int) -> CardProgram:
    """sliding_window/halo/device/untilize_with_halo_program_factory.cpp: an image in shards is spread so that
    each core has what its windows read. ``shard``: of the ``pixels``, and channels. Two buffers of padding
    and, of tiles, two of two rows of tiles that are untilized; image and result are views."""
    out = F32 if format == F32 else BF16
    stick = round_up(shard[1] * (4 if out == F32 else 2), 16)
    across = tiles(shard[1])
    buffers = [CircularBuffer(f"padding {at}", 1, stick) for at in (0, 1)]
    if layout != ROW_MAJOR:
        buffers += [CircularBuffer(f"untilized {at}", 2 * across, tile_bytes(out)) for at in (0, 1)]
        down = tiles(ceil_div(pixels, cores))
        buffers.append(CircularBuffer("in", across * down, tile_bytes(format), borrowed=True))
    else:
        buffers.append(CircularBuffer("in", shard[0], stick, borrowed=True))
    return CardProgram.of("halo", buffers)
