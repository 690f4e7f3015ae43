"""Elementwise card programs."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import FORMATS
from ...base.machine.layout import TILE
from .buffers import BF16, CardOperand, CardProgram, CircularBuffer, tile_bytes

_INTO_BF16 = ("ldexp",)  # functions that exponentiate in bf16 before the second half of Dst is used
_BEFORE = {  # functions that are applied to (the first, the second) operand before the sum or product
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "hypot"), (True, True)),
    "rsub": (True, False),
    **dict.fromkeys(("ldexp", "addalpha", "subalpha"), (False, True)),
}
_OF_SFPU = ("f32", "int32", "uint32", "uint16")  # formats of both operands that the SFPU adds and compares


def _pages(x: CardOperand, name: str, view: bool, pages: int = 2) -> CircularBuffer:
    """A tensor's buffer: a view of its shard, or ``pages`` tiles."""
    return CircularBuffer(name, x.shard_tiles if view else pages, x.tile, borrowed=view)


def _whole(x: CardOperand) -> bool:
    """Whether a tensor's shards lie in L1 and hold whole tiles' worth of elements."""
    return x.sharded and x.on_l1 and not x.shard[0] * x.shard[1] % 1024


def unary(x: CardOperand, result: CardOperand, scratch: bool = False) -> CardProgram:
    """Buffers of eltwise/unary/device/unary_program_factory.cpp, which also copies and typecasts use: two
    tiles of each tensor, or a view of its shard if both have the same shards and tiles of one size.
    ``scratch``: whether the function keeps a second operand (hardshrink, logit ...)."""
    view = _whole(x) and _whole(result) and x.shard == result.shard and x.tile == result.tile
    buffers = [_pages(x, "in", view), _pages(result, "out", view)]
    if scratch:
        buffers.append(CircularBuffer("scratch", 2, x.tile))
    return CardProgram.of("unary", buffers)


def binary(
    a: CardOperand,
    b: CardOperand | None,
    result: CardOperand,
    function: str = "",
    activated: tuple[bool, bool] = (False, False),
) -> CardProgram:
    """Buffers of eltwise/binary_ng/device/binary_ng_program_factory.cpp: two tiles of each tensor, or a view
    of its shard, and two tiles to repeat an operand that is broadcast inside of tiles. If ``b`` is None, the
    second operand is a number, which takes one tile. ``function``: its name, for functions that are applied
    to the operands first, which takes another tile or more; ``activated``: whether the caller asks for one on
    a and on b."""
    number = BF16 if not FORMATS[a.format].dtype else a.format
    second = number if b is None else b.format
    on_sfpu = a.format == second and a.format in _OF_SFPU
    views = _shares_cores(a, b, result)
    whole = views and (b is None or b.sharded) and a.sharded
    count = (2 if on_sfpu else 8) if whole else 1
    before = _BEFORE.get(function, (False, False))
    if function == "rsub" and on_sfpu:
        before = (False, False)
    if function in _INTO_BF16 and not FORMATS[a.format].dtype:
        before = (True, True)
    before = (before[0] or activated[0], before[1] or activated[1])
    middle = BF16 if function in _INTO_BF16 and not on_sfpu else ""
    buffers = [_pages(a, "in a", views and a.sharded)]
    buffers += [CircularBuffer("activated a", count, tile_bytes(middle or a.format))] * before[0]
    if b is None:
        buffers.append(CircularBuffer("in b", 1, tile_bytes(number)))
    else:
        buffers.append(_pages(b, "in b", views and b.sharded))
    buffers += [CircularBuffer("activated b", count, tile_bytes(middle or second))] * before[1]
    stretched = "" if b is None else _stretched(a, b)
    if b is not None and stretched:
        buffers.append(CircularBuffer("repeated", 2, (a if stretched == "a" else b).tile))
    return CardProgram.of("binary", [*buffers, _pages(result, "out", views and result.sharded)])


def _ends(x: CardOperand) -> tuple[int, int]:
    rows, cols = (1, 1, *x.shape)[-2:]
    return rows, cols


def _stretched(a: CardOperand, b: CardOperand) -> str:
    """The operand that is repeated inside of tiles ("a", "b"), "" if neither is
    (get_subtile_broadcast_type)."""
    one, other = _ends(a), _ends(b)
    if one == other:
        return ""
    if one == (1, 1):
        return "a"
    if other == (1, 1):
        return "b"
    if one[0] == 1 and one[0] != other[0]:
        return "a"
    if one[1] == 1 and one[1] != other[1]:
        return "b" if other[0] == 1 and one[0] != 1 else "a"
    return "b"


def _shares_cores(a: CardOperand, b: CardOperand | None, result: CardOperand) -> bool:
    """Whether cores compute on their own shards (is_native_L1_sharding)."""
    if not result.sharded or not result.on_l1 or not a.on_l1:
        return False
    if b is None:
        return a.sharded and _even(a)
    full = a.shape == result.shape
    if a.sharded and full and _even(a) and not b.sharded:
        one, other = _ends(a), _ends(b)
        return one != other and other[1] == 1 and a.scheme == "height"
    same = (a.shape, a.scheme, a.shard, a.cores) == (b.shape, b.scheme, b.shard, b.cores)
    if not (a.sharded and same and b.on_l1):
        return False
    return a.cores == result.cores if _even(a) else a.shard == result.shard


def _even(x: CardOperand) -> bool:
    """Whether shards hold no more than the tensor."""
    unit = 32 if x.layout == TILE else 1
    rows, cols = (-(-size // unit) * unit for size in _ends(x))
    return not x.batch * rows % x.shard[0] and not cols % x.shard[1]


def ternary(operands: Sequence[CardOperand], result: CardOperand) -> CardProgram:
    """Buffers of eltwise/ternary/device/ternary_program_factory.cpp: two tiles of each tensor, or a view of
    its shard if all have the same shards. Numbers take no buffer."""
    tensors = [*operands, result]
    view = all(
        _whole(x) and (x.shape, x.scheme, x.shard) == (result.shape, result.scheme, result.shard)
        for x in tensors
    )
    names = (*(f"in {at}" for at in range(len(operands))), "out")
    return CardProgram.of("ternary", [_pages(x, n, view) for x, n in zip(tensors, names, strict=True)])
