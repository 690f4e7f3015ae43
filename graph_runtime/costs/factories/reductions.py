"""Reductions over rows, columns, or both."""

from __future__ import annotations

from .buffers import BF16, F32, CardOperand, CardProgram, CircularBuffer, tile_bytes

__all__ = ["reduced"]


def reduced(x: CardOperand, result: CardOperand, wide: bool = True, negated: bool = False) -> CardProgram:
    """reduction/generic/device/reduce_op_*.cpp: two tiles of operand and result and a tile of the factor; of
    shards cut along the width the shard is read tile by tile. ``negated``: minima, which are maxima of
    negated values, with two tiles more, in chunks as wide as Dst along a column."""
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
