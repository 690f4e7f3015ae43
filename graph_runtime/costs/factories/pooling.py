"""Pools: windows that are reduced."""

from __future__ import annotations

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
)
from .halo import HaloWindow, halo, halo_rows

__all__ = ["pool"]

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
    """pool/generic/device/pool_multi_core_program_factory.cpp, pool/pool_utils.cpp: the image in shards is
    spread with its halo, then windows are gathered by two readers, twice each, and reduced. ``one_factor``:
    an average whose windows all have as many pixels."""
    down, across = image.cores[::-1] if image.turned else image.cores
    along, inward = (down * across, 1) if image.scheme == "height" else (down, across)
    if image.scheme == "width":
        along, inward = 1, down * across
    rows = halo_rows(window, along, in_tiles=result.layout == TILE)
    pixels = window.batch * window.size[0] * window.size[1]
    format = F32 if image.format == F32 else BF16
    spread = HeldTensor("halo", rows * round_up(image.shard[1] * (4 if format == F32 else 2), 16))
    first = halo(image.format, image.layout, image.shard, pixels, along)
    program = _program(result, window, ceil_div(channels, inward), format, average, one_factor)
    return [
        CardStage(first, (spread,), last=False),
        CardStage(program, (spread,), frees=frees),
    ]


def _program(
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
