"""Softmax and norms: card programs that work along rows."""

from __future__ import annotations

from dataclasses import dataclass

from .buffers import BF16, F32, CardOperand, CardProgram, CircularBuffer, ceil_div, round_up, tile_bytes

_NEAR_ALL = 0.9  # share of L1 up to which the card program works on whole rows


def _divisor(size: int, most: int) -> int:
    return next(part for part in range(most, 0, -1) if size % part == 0)


def softmax(
    x: CardOperand, result: CardOperand, l1: int, wide: bool = False, stable: bool = False, mask: str = ""
) -> CardProgram:
    """Buffers of normalization/softmax/device/softmax_program_factory_attention_optimized.cpp: whole rows of
    tiles; if whole rows would take 90 % of ``l1`` bytes, 80 tiles of a row at a time. ``mask``: the format of
    an attention mask, "" if there is none. ``stable``: whether the maximum is subtracted."""
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
    more = _of_mask(mask, masked, across, middle)
    return CardProgram.of("softmax", [*buffers, *more, *_of_greatest(stable, shifted, middle)])


def _of_mask(mask: str, masked: int, cols: int, middle: int) -> list[CircularBuffer]:
    """Buffers of an attention mask; no buffers if ``mask`` is ""."""
    sizes = (
        ("masked", masked, middle),
        ("scale", 1, tile_bytes(BF16)),
        ("mask", cols, tile_bytes(mask or BF16)),
    )
    return [CircularBuffer(*row) for row in sizes] if mask else []


def _of_greatest(stable: bool, shifted: int, middle: int) -> list[CircularBuffer]:
    """Buffers for the maximum that a stable softmax subtracts."""
    sizes = (("greatest", 1, middle), ("shifted", shifted, middle))
    return [CircularBuffer(*row) for row in sizes] if stable else []


def sharded_softmax(
    x: CardOperand,
    rows: int,
    cols: int,
    wide: bool = False,
    stable: bool = False,
    mask: str = "",
    cores: int = 0,
) -> CardProgram:
    """Buffers of normalization/softmax/device/softmax_program_factory_attention_optimized_sharded.cpp: blocks
    of ``rows`` x ``cols`` tiles, in place."""
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
    more = [*_of_mask(mask, cols, cols, middle), *_of_greatest(stable, cols, middle)]
    return CardProgram.of("softmax of shards", [*buffers, *more], cores)


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
    results are then kept in 32 bits."""
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


def reduced(x: CardOperand, result: CardOperand, wide: bool = True, negated: bool = False) -> CardProgram:
    """Buffers of reduction/generic/device/reduce_op_*.cpp: two tiles each of operand and result, and a tile
    of the factor. Shards cut along the width are read tile by tile. ``negated``: whether minima are computed
    as maxima of negated values, which takes two more buffers of as many tiles as Dst holds."""
    scaler = tile_bytes(F32 if x.format == F32 else BF16)
    buffers = [
        CircularBuffer("in", 2, x.tile),
        CircularBuffer("scaler", 1, scaler),
        CircularBuffer("out", 2, result.tile),
    ]
    if x.sharded and result.sharded and x.scheme == "width":
        buffers.append(CircularBuffer("shard", x.shard_tiles, x.tile, borrowed=True))
        buffers[2] = CircularBuffer("out", result.shard_tiles, result.tile, borrowed=True)
    if negated:
        chunk = 4 if wide else 8
        buffers += [CircularBuffer(name, chunk, result.tile) for name in ("totals", "negated")]
    return CardProgram.of("reduction", buffers)
