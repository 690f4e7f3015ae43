"""Softmax and norms: programs that go along rows."""

from __future__ import annotations

from dataclasses import dataclass

from .buffers import BF16, F32, CardOperand, CardProgram, CircularBuffer, ceil_div, round_up, tile_bytes

__all__ = ["layer_norm", "sharded_layer_norm", "sharded_softmax", "softmax"]

_NEAR_ALL = 0.9  # of L1 that the program over whole rows may take


def _divisor(size: int, most: int) -> int:
    return next(part for part in range(most, 0, -1) if size % part == 0)


def softmax(
    x: CardOperand, result: CardOperand, l1: int, wide: bool = False, stable: bool = False, mask: str = ""
) -> CardProgram:
    """normalization/softmax/device/softmax_program_factory_attention_optimized.cpp: whole rows of tiles, or
    80 tiles at a time where they would take 90 % of ``l1`` bytes. ``mask``: the format of an attention mask,
    "" without; ``stable``: the greatest is subtracted."""
    across, middle = x.matrix[1], tile_bytes(F32 if wide else BF16)
    block = _divisor(across, 4 if wide else 8)
    of_in, exps, out = across if stable else 2 * block, across, 2 * block
    masked, shifted = across + block, across
    size = of_in * x.tile + exps * middle + out * result.tile + 5 * middle + stable * shifted * middle
    if mask:
        size += masked * middle + tile_bytes(BF16) + across * tile_bytes(mask)
    if l1 * _NEAR_ALL < size:
        of_in = exps = masked = shifted = 80 // block * block
    large = l1 * _NEAR_ALL < size
    scaler, widest = tile_bytes(F32 if x.format == F32 else BF16), tile_bytes(mask or BF16)
    buffers = [
        CircularBuffer("in", of_in, x.tile),
        CircularBuffer("out", out, result.tile),
        CircularBuffer("sums", 4 if large else 1, middle),
        CircularBuffer("scaler of the greatest", 1, scaler),
        CircularBuffer("scaler of sums", 1, middle),
        CircularBuffer("exponentials", exps, middle),
        CircularBuffer("padding", 1, widest),
    ]
    if mask:
        buffers.append(CircularBuffer("masked", masked, middle))
        buffers.append(CircularBuffer("scale", 1, tile_bytes(BF16)))
        buffers.append(CircularBuffer("mask", across, tile_bytes(mask)))
    if stable:
        buffers.append(CircularBuffer("greatest", 1, middle))
        buffers.append(CircularBuffer("shifted", shifted, middle))
    return CardProgram.of("softmax", buffers)


def sharded_softmax(
    x: CardOperand,
    rows: int,
    cols: int,
    wide: bool = False,
    stable: bool = False,
    mask: str = "",
    cores: int = 0,
) -> CardProgram:
    """normalization/softmax/device/softmax_program_factory_attention_optimized_sharded.cpp: blocks of
    ``rows`` x ``cols`` tiles where they lie."""
    middle = tile_bytes(F32 if wide else BF16)
    scaler = tile_bytes(F32 if x.format == F32 else BF16)
    buffers = [
        CircularBuffer("in", rows * cols, x.tile, borrowed=True),
        CircularBuffer("scaler of the greatest", 1, scaler),
        CircularBuffer("scaler of sums", 1, middle),
        CircularBuffer("out", rows * cols, x.tile, borrowed=True),
        CircularBuffer("exponentials", cols, middle),
        CircularBuffer("sums", 1, middle),
    ]
    if mask:
        buffers.append(CircularBuffer("masked", cols, middle))
        buffers.append(CircularBuffer("scale", 1, tile_bytes(BF16)))
        buffers.append(CircularBuffer("mask", cols, tile_bytes(mask)))
    if stable:
        buffers.append(CircularBuffer("greatest", 1, middle))
        buffers.append(CircularBuffer("shifted", cols, middle))
    return CardProgram.of("softmax of shards", buffers, cores)


@dataclass(slots=True)
class _Counts:
    """Tiles of the buffers of a norm."""

    of_in: int
    out: int
    whole: int  # of those that have a row
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
    """normalization/layernorm/device/layernorm_op_multi_core.cpp: whole rows of tiles, or 56 tiles of them at
    a time (112 without weights) where L1 has no room. ``gamma``, ``beta``, ``added``: formats of the weights
    and of a residual, "" without; ``wide``: Dst of 32 bits, in which partial results are kept."""
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
    """Whether whole rows have room: all buffers are counted, those that are not opened, too."""
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
    """normalization/layernorm/device/sharded_layernorm_factory_helpers.cpp: blocks of ``rows`` x ``cols``
    tiles where they lie, on ``grid`` (across, down) cores; sums of rows go round the cores that share
    them."""
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
