"""Divisors, and the ublock that an op gets: how a core's share of the output is cut for Dst."""

from __future__ import annotations

import math
from functools import cache

from .chip import DST_BYTES
from .grid import Grid, Stream
from .op import BalanceOp
from .types import BlockShape

__all__ = ["block_shape", "divides", "divisors", "dst_tiles", "largest_divisor", "rows_each"]


@cache
def divisors(n: int) -> tuple[int, ...]:
    """Divisors of n, ascending."""
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(dict.fromkeys((*low, *(n // d for d in reversed(low)))))


def largest_divisor(n: int, most: int) -> int:
    """The largest divisor of n that is at most ``most``; 1 where ``most`` is below 1."""
    return max((d for d in divisors(n) if d <= most), default=1)


def divides(a: int, b: int) -> bool:
    """Whether one of two positive integers divides the other."""
    return a % b == 0 or b % a == 0


def dst_tiles(op: BalanceOp) -> int:
    """Tiles of the half of Dst that math fills while the packer empties the other."""
    return DST_BYTES // 2 // (32 * 32 * op.dst_bits // 8)


@cache
def _ublock(rows: int, cols: int, most: int, most_rows: int) -> tuple[int, int]:
    """The ublock of most tiles (at most ``most``) whose sides divide the largest divisors that fit alone; of
    equal ones the wider, so that ops after each other tend to agree."""
    tall, wide = largest_divisor(rows, most_rows), largest_divisor(cols, most)
    fitting = [(r, c) for r in divisors(tall) for c in divisors(wide) if r * c <= most]
    return max(fitting, key=lambda rc: (rc[0] * rc[1], rc[1]))


def rows_each(op: BalanceOp, grid: Grid, stream: Stream) -> int:
    """Rows of output tiles that one core makes in one of its blocks."""
    return op.out.rt // (grid.r * stream.r)


def block_shape(op: BalanceOp, grid: Grid, stream: Stream, dst: int) -> BlockShape:
    """The output block of one core. Grid times stream must divide the output, as the enumeration sees to."""
    rows, cols = rows_each(op, grid, stream), op.out.ct // (grid.c * stream.c)
    cut_rows, cut_cols = rows, cols
    if op.kind == "splice":  # a ublock may not straddle two of the joined tensors
        cut_rows = math.gcd(rows, *(o.shape.rt for o in op.operands), *_edges(op, "r"))
        cut_cols = math.gcd(cols, *(o.shape.ct for o in op.operands), *_edges(op, "c"))
    if op.encoding is not None and stream.z_major:
        cut_rows = rows // op.encoding.taps  # a ublock stays within one tap
    rt, ct = _ublock(cut_rows, cut_cols, dst, 1 if op.kind == "embedding" else dst)
    return BlockShape(op.out.z * stream.pieces, (rows // rt, cols // ct), (rt, ct))


def _edges(op: BalanceOp, dim: str) -> tuple[int, ...]:
    """Where the joined tensors begin, if they are joined along that dimension."""
    return op.splice_edges if op.dim == dim else ()
