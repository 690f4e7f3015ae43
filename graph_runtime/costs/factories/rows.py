"""Norms: card programs that work along rows."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.machine.layout import TILE
from .buffers import BF16, F32, CardOperand, CardProgram, CircularBuffer, ceil_div, round_up, tile_bytes


@dataclass(slots=True)
class _Counts:
    """Tiles of each buffer of a norm."""

    of_in: int
    out: int
    whole: int  # tiles of the buffers of intermediate rows and of weights
    added: int
    block: int


def layer_norm(
    x: CardOperand,
    result: CardOperand,
    l1: int,
    wide: bool = True,
    gamma: str = "",
    beta: str = "",
    added: str = "",
    rms: bool = False,
) -> CardProgram:
    """Buffers of normalization/layernorm/device/layernorm_op_multi_core.cpp: whole rows of tiles; if whole
    rows do not fit L1, 56 tiles of a row at a time (112 without weights). ``gamma``, ``beta``, ``added``:
    formats of scale, shift and residual; "" for a missing tensor. ``wide``: whether Dst has 32 bits; partial
    results are then kept in 32 bits. Rows are laid out in tiles and back, which takes as many buffers again
    of operand and result."""
    across, middle, block = x.matrix[1], tile_bytes(F32 if wide else BF16), 4 if wide else 8
    row = round_up(across, block)
    counts = _Counts(2 * block if added else row, 2 * block, row, row if added else 2 * block, block)
    large = not _fits(counts, x, result, middle, gamma, beta, added, l1)
    if large:
        most = 56 if gamma or beta or x.format == F32 else 112
        counts.whole = most * tile_bytes(BF16) // middle
        counts.of_in = 2 * block if added else counts.whole
        counts.added = counts.whole if added else 2 * block
    buffers = [
        CircularBuffer("in", counts.of_in, x.tile),
        CircularBuffer("out", counts.out, result.tile),
        CircularBuffer("mean", 0 if rms else 2, middle),
        CircularBuffer("scaler", 2, tile_bytes(BF16)),
        CircularBuffer("epsilon", 2, tile_bytes(BF16)),
        CircularBuffer("variance", 2, middle),
        CircularBuffer("centred", 0 if rms and not added and not large else counts.whole, middle),
        CircularBuffer("squares", counts.whole, middle),
        CircularBuffer("root", 8, middle),
        CircularBuffer("weighted", 2 * block if gamma or beta else 0, middle),
    ]
    if large:
        buffers.append(CircularBuffer("sums", 1, middle))
    if x.layout != TILE:
        buffers += [CircularBuffer(f"rows {b.name}", b.pages, b.page_bytes) for b in buffers[:2]]
    buffers += [
        CircularBuffer(name, counts.whole, tile_bytes(of))
        for name, of in (("gamma", gamma), ("beta", beta))
        if of
    ]
    if added:
        buffers.append(CircularBuffer("sum", 0 if rms else counts.added, middle))
        buffers.append(CircularBuffer("residual", 2 * block, tile_bytes(added)))
    return CardProgram.of("layer norm", buffers)


def _fits(
    counts: _Counts,
    x: CardOperand,
    result: CardOperand,
    middle: int,
    gamma: str,
    beta: str,
    added: str,
    l1: int,
) -> bool:
    """Whether whole rows fit L1. All buffers count, even buffers that are not opened."""
    bf16, weights = tile_bytes(BF16), tile_bytes(gamma or BF16) + tile_bytes(beta or BF16)
    size = counts.of_in * x.tile + counts.out * result.tile + counts.whole * (2 * middle + weights)
    size += (counts.added + 2 * counts.block + 8 + 2 + 2) * middle + 4 * bf16
    if added:
        size += 2 * counts.block * tile_bytes(added)
    return size < l1 * _FITS


_FITS = 0.95


def sharded_layer_norm(
    x: CardOperand,
    rows: int,
    cols: int,
    grid: tuple[int, int],
    wide: bool = True,
    gamma: str = "",
    beta: str = "",
    added: str = "",
    rms: bool = False,
) -> CardProgram:
    """Buffers of normalization/layernorm/device/sharded_layernorm_factory_helpers.cpp: blocks of ``rows`` x
    ``cols`` tiles, in place on ``grid`` (across, down) cores; cores that share rows exchange their sums."""
    middle, across = tile_bytes(F32 if wide else BF16), x.matrix[1]
    sharing = ceil_div(across, cols)
    workers = ceil_div(rows, sharing)
    size, sums = rows * cols, 0 if rms else 1
    buffers = [
        CircularBuffer("in", size, x.tile, borrowed=True),
        CircularBuffer("residual", size if added else 0, x.tile, borrowed=True),
        CircularBuffer("gamma", cols if gamma else 0, tile_bytes(gamma or BF16)),
        CircularBuffer("beta", cols if beta else 0, tile_bytes(beta or BF16)),
        CircularBuffer("x", size, middle),
        CircularBuffer("centred", size, middle),
        CircularBuffer("partial means", sums * rows, middle),
        CircularBuffer("means", sums * rows, middle),
        CircularBuffer("others' means", sums * sharing, middle),
        CircularBuffer("scaler", 1, tile_bytes(BF16)),
        CircularBuffer("epsilon", 1, tile_bytes(BF16)),
        CircularBuffer("scaler of all", 1, middle),
        CircularBuffer("partial variances", rows, middle),
        CircularBuffer("variances", rows, middle),
        CircularBuffer("others' variances", sharing, middle),
        CircularBuffer("roots", workers, middle),
        CircularBuffer("shared", rows, middle),
        CircularBuffer("out", size, x.tile, borrowed=True),
    ]
    return CardProgram.of("layer norm of shards", buffers, grid[0] * grid[1])
