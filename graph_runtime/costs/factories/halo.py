"""Sliding windows over shards: the part of the image that each core must hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.machine.layout import ROW_MAJOR, TILE, TILE_DIM
from .buffers import (
    BF16,
    F32,
    CardOperand,
    CardProgram,
    CardStage,
    CircularBuffer,
    HeldTensor,
    ceil_div,
    round_up,
    tile_bytes,
    tiles,
)


@dataclass(frozen=True, slots=True)
class HaloWindow:
    """Sliding windows of size ``kernel`` over ``batch`` images of size ``size``, both (rows, columns).
    ``pads``: (top, bottom, left, right). ``ceil``: extra rows and columns if the number of results is rounded
    up."""

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
        """(rows, columns) that a window covers."""
        (kh, kw), (dh, dw) = self.kernel, self.dilation
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    @property
    def result(self) -> tuple[int, int]:
        """(number of windows down, number of windows across)."""
        (h, w), (rh, rw), (sh, sw) = self.padded, self.reach, self.stride
        return (h - rh) // sh + 1, (w - rw) // sw + 1

    @property
    def pixels(self) -> int:
        """Number of pixels of all results together."""
        down, across = self.result
        return self.batch * down * across


def halo_rows(window: HaloWindow, cores: int, in_tiles: bool = True) -> int:
    """The largest number of pixels of the padded image that a core reads, from the first pixel of its first
    window to the last pixel of its last window (sliding_window/sliding_window.cpp). Results fill ``cores``
    cores in order, in shards of whole tiles (``in_tiles``) or of pixels."""
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
    """Buffers of sliding_window/halo/device/untilize_with_halo_program_factory.cpp: a sharded image is spread
    so that each core holds the pixels of its windows. ``shard``: (pixels, channels) of a core. There are two
    buffers of padding and, for tiles, two buffers of two rows of tiles each to untilize; image and result are
    views."""
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


_FACE = 16


def pool(
    image: CardOperand,
    result: CardOperand,
    window: HaloWindow,
    channels: int,
    average: bool = False,
    one_factor: bool = True,
    frees: bool = False,
) -> list[CardStage]:
    """The stages of a pool (pool/generic/device/pool_multi_core_program_factory.cpp, pool/pool_utils.cpp):
    the sharded image is spread with its halo; then two readers gather windows, each into two buffers, and the
    windows are reduced. ``one_factor``: whether all windows of an average have the same number of pixels."""
    down, across = image.cores[::-1] if image.turned else image.cores
    along, inward = (down * across, 1) if image.scheme == "height" else (down, across)
    if image.scheme == "width":
        along, inward = 1, down * across
    rows = halo_rows(window, along, in_tiles=result.layout == TILE)
    pixels = window.batch * window.size[0] * window.size[1]
    format = F32 if image.format == F32 else BF16
    spread = HeldTensor("halo", rows * round_up(image.shard[1] * (4 if format == F32 else 2), 16))
    first = halo(image.format, image.layout, image.shard, pixels, along)
    pooled = _card_program(result, window, ceil_div(channels, inward), format, average, one_factor)
    return [CardStage(first, (spread,), last=False), CardStage(pooled, (spread,), frees=frees)]


def _card_program(
    result: CardOperand, window: HaloWindow, channels: int, format: str, average: bool, one_factor: bool
) -> CardProgram:
    wide, area = ceil_div(channels, TILE_DIM), window.kernel[0] * window.kernel[1]
    size, tile = 4 if format == F32 else 2, tile_bytes(format)
    rows = area if area <= _FACE else TILE_DIM
    partial = 0 < channels % TILE_DIM <= _FACE
    large = area > (TILE_DIM // 2 if partial else TILE_DIM)
    most = 4 if average and large else 8
    gathered = round_up(min(wide, most) * TILE_DIM * rows, TILE_DIM * TILE_DIM) * size
    buffers = [
        CircularBuffer("factor", 2, tile),
        CircularBuffer("factor, second reader", 2 if average and not one_factor else 0, tile),
        CircularBuffer("start", 1, tile),
        CircularBuffer("windows", 2, gathered),
        CircularBuffer("windows, second reader", 2, gathered),
    ]
    if result.layout != ROW_MAJOR:
        buffers.append(CircularBuffer("rows", TILE_DIM * wide, TILE_DIM * size))
    return CardProgram.of("pool", buffers)
