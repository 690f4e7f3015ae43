"""Elementwise card programs."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import FORMATS
from .buffers import BF16, CardOperand, CardProgram, CircularBuffer, tile_bytes


def _pages(x: CardOperand, name: str, pages: int = 2) -> CircularBuffer:
    """A tensor's buffer: a view of its shard, or ``pages`` tiles if the tensor has no shards."""
    if x.sharded and x.on_l1:
        return CircularBuffer(name, x.shard_tiles, x.tile, borrowed=True)
    return CircularBuffer(name, pages, x.tile)


def unary(x: CardOperand, result: CardOperand, scratch: bool = False) -> CardProgram:
    """Buffers of eltwise/unary/device/unary_program_factory.cpp, which also copies and typecasts use: two
    tiles of each tensor, or a view of its shard. ``scratch``: whether the function keeps a second operand
    (hardshrink, logit ...).
    """
    shards = x.sharded and result.sharded and x.on_l1 and result.on_l1
    if not shards:
        x, result = _interleaved(x), _interleaved(result)
    buffers = [_pages(x, "in"), _pages(result, "out")]
    if scratch:
        buffers.append(CircularBuffer("scratch", 2, x.tile))
    return CardProgram.of("unary", buffers)


def binary(
    a: CardOperand,
    b: CardOperand | None,
    result: CardOperand,
    before: Sequence[str] = ("", ""),
    on_sfpu: bool = False,
) -> CardProgram:
    """Buffers of eltwise/binary_ng/device/binary_ng_program_factory.cpp: two tiles of each tensor, or a view
    of its shard. If ``b`` is None, the second operand is a number, which takes one tile. ``before``: formats
    of the results of functions that are applied to a and to b first."""
    scalar = BF16 if not on_sfpu or not FORMATS[a.format].dtype else a.format
    whole = all(x.sharded for x in (a, b, result) if x is not None)
    a_buffer, out = _pages(a, "in a"), _pages(result, "out")
    b_buffer = CircularBuffer("in b", 1, tile_bytes(scalar)) if b is None else _pages(b, "in b")
    count = (2 if on_sfpu else 8) if whole else 1
    more = [
        CircularBuffer(f"activated {side}", count, tile_bytes(format))
        for side, format in zip("ab", before, strict=True)
        if format
    ]
    return CardProgram.of("binary", [a_buffer, b_buffer, *more, out])


def ternary(operands: Sequence[CardOperand], result: CardOperand) -> CardProgram:
    """Buffers of eltwise/ternary/device/ternary_program_factory.cpp: two tiles of each tensor, or a view of
    its shard."""
    buffers = [_pages(x, f"in {at}") for at, x in enumerate(operands)]
    return CardProgram.of("ternary", [*buffers, _pages(result, "out")])


def _interleaved(x: CardOperand) -> CardOperand:
    return CardOperand(x.shape, x.format, x.layout)
