"""rng_bit_generator: Philox 4x32 of 10 rounds and Threefry 2x32 of 20 (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", 2011), bit for bit as in XLA. DEFAULT is Philox, as on XLA's hosts.

A state is uint64: a key, then a counter of 64 or 128 bits. The key stays the same, and the counter grows with
the numbers drawn. For Philox a counter of 64 bits is extended to 128 bits; the key becomes its high bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter

_PHILOX = (0xD2511F53, 0xCD9E8D57)
_PHILOX_KEY = (0x9E3779B9, 0xBB67AE85)
_THREEFRY = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_KEY = 0x1BD11BDA
_INTS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")


@converter("rng_bit_generator")
def _rng_bit_generator(ctx: HloContext) -> Results:
    state = ctx.input(0)
    if state.dtype != "uint64" or state.shape not in ((2,), (3,)) or len(ctx.types) != 2:
        ctx.fail(f"the state is {state.type}, but must be 2 or 3 of ui64, with a state and bits as results")
    kind = ctx.types[1]
    if kind.dtype not in _INTS:
        ctx.fail(f"bits must be integers, not {kind}")
    algorithm = ctx.word("rng_algorithm", "algorithm", default="DEFAULT")
    if algorithm not in ("DEFAULT", "PHILOX", "THREE_FRY"):
        ctx.fail(f"algorithm {algorithm} is not supported")
    wide = kind.dtype.endswith("64")
    draw = _threefry_bits if algorithm == "THREE_FRY" else _philox_bits
    if algorithm == "THREE_FRY" and state.shape != (2,):
        ctx.fail(f"the state of Threefry must be 2 of ui64, not {state.type}")
    bits, state = draw(ctx, state, kind.shape, wide)
    if not wide:
        bits = bits.cast(f"uint{8 * np.dtype(kind.dtype).itemsize}")
    return state, bits if bits.dtype == kind.dtype else ctx.op("bitcast", bits, to=kind.dtype)


def _word(ctx: HloContext, state: TapeValue, at: int) -> TapeValue:
    return ctx.slice(state, 0, at, at + 1)


def _halves(x: TapeValue) -> list[TapeValue]:
    """The low and the high 32 bits of uint64 values."""
    return [x.cast("uint32"), (x >> 32).cast("uint32")]


def _joined(low: TapeValue, high: TapeValue) -> TapeValue:
    """uint64 values from their low and high halves."""
    return low.cast("uint64") | (high.cast("uint64") << 32)


def _counted(ctx: HloContext, shape: Sequence[int]) -> TapeValue:
    """The numbers 0, 1, 2, ... in this shape."""
    shape = tuple(shape)
    return ctx.filled(
        shape, lambda: np.arange(math.prod(shape), dtype=np.uint64).reshape(shape), "uint64", "counters"
    )


# ---------------------------------------------------------------- Philox


def _philox_bits(
    ctx: HloContext, state: TapeValue, shape: Sequence[int], wide: bool
) -> tuple[TapeValue, TapeValue]:
    """(bits, next state). Each counter value gives four numbers of 32 bits, or two of 64, in sequence."""
    count, each = math.prod(shape), 2 if wide else 4
    blocks = -(-count // each)
    key, low = _word(ctx, state, 0), _word(ctx, state, 1)
    high = _word(ctx, state, 2) if state.shape == (3,) else key
    lows, highs = _advanced(low, high, _counted(ctx, (blocks,)))
    made = _philox(ctx, [*_halves(lows), *_halves(highs)], _halves(key))
    if wide:
        made = [_joined(made[0], made[1]), _joined(made[2], made[3])]
    bits = ctx.reshape(ctx.stack(made, 1), (blocks * each,))
    ends = _advanced(low, high, ctx.const([blocks], "uint64"))
    after = ctx.op("concatenate", key, *ends[: state.shape[0] - 1], axis=0)
    return ctx.reshape(ctx.slice(bits, 0, 0, count), tuple(shape)), after


def _advanced(low: TapeValue, high: TapeValue, by: TapeValue) -> tuple[TapeValue, TapeValue]:
    """Sum of a 128-bit counter and a number."""
    made = low + by
    return made, high + (made < low).cast("uint64")


def _philox(ctx: HloContext, counter: list[TapeValue], key: list[TapeValue]) -> list[TapeValue]:
    a, b, c, d = counter
    for _ in range(10):
        (low_a, high_a), (low_c, high_c) = (
            _halves(x.cast("uint64") * ctx.const(factor, "uint64"))
            for x, factor in zip((a, c), _PHILOX, strict=True)
        )
        a, c = high_c ^ b ^ key[0], high_a ^ d ^ key[1]
        b, d = low_c, low_a
        key = [k + step for k, step in zip(key, _PHILOX_KEY, strict=True)]
    return [a, b, c, d]


# ---------------------------------------------------------------- Threefry


def _threefry_bits(
    ctx: HloContext, state: TapeValue, shape: Sequence[int], wide: bool
) -> tuple[TapeValue, TapeValue]:
    """(bits, next state). Each counter value gives one number of 64 bits, or two of 32 bits that are
    neighbours along the first even axis, or along the longest axis if none is even."""
    shape = tuple(shape) if wide or shape else (1,)
    axis = next((i for i, n in enumerate(shape) if n % 2 == 0), None)
    axis = shape.index(max(shape)) if axis is None and shape else axis
    counters = list(shape)
    if not wide:
        counters[axis or 0] = -(-shape[axis or 0] // 2)
    key, counter = _word(ctx, state, 0), _word(ctx, state, 1)
    start = ctx.reshape(counter, (1,) * len(counters))
    at = _counted(ctx, counters) + start
    made = _threefry(_halves(at), [ctx.reshape(k, ()) for k in _halves(key)])
    if wide:
        bits = _joined(*made)
    else:
        doubled = [2 * n if i == axis else n for i, n in enumerate(counters)]
        bits = ctx.reshape(ctx.stack(made, (axis or 0) + 1), doubled)
        bits = ctx.reshape(ctx.slice(bits, axis or 0, 0, shape[axis or 0]), ctx.types[1].shape)
    used = ctx.const([math.prod(counters)], "uint64")
    return bits, ctx.op("concatenate", key, counter + used, axis=0)


def _threefry(counter: list[TapeValue], key: list[TapeValue]) -> list[TapeValue]:
    keys = [*key, key[0] ^ key[1] ^ _THREEFRY_KEY]
    a, b = (x + k for x, k in zip(counter, key, strict=True))
    for i in range(5):
        for turn in _THREEFRY[i % 2]:
            a = a + b
            b = ((b << turn) | (b >> (32 - turn))) ^ a
        a = a + keys[(i + 1) % 3]
        b = b + keys[(i + 2) % 3] + (i + 1)
    return [a, b]
