"""Ops on each element by itself: arithmetic, comparisons, bits, conversions, special functions."""

from __future__ import annotations

import math

import numpy as np

from ....base import dtypes
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter

_UNARY = {
    "abs": "abs",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "cosh": "cosh",
    "cosine": "cos",
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "floor": "floor",
    "lgamma": "lgamma",
    "log": "log",
    "log_plus_one": "log1p",
    "logistic": "sigmoid",
    "negate": "negative",
    "round_nearest_even": "round",
    "rsqrt": "rsqrt",
    "sign": "sign",
    "sine": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "square": "square",
    "tan": "tan",
    "tanh": "tanh",
}
_BINARY = {"maximum": "maximum", "minimum": "minimum", "multiply": "multiply", "subtract": "subtract",
           "add": "add"}  # fmt: skip
_ON_BOOL = {"add": "logical_or", "maximum": "logical_or", "minimum": "logical_and", "multiply": "logical_and"}
_BITS = {"and": "and", "or": "or", "xor": "xor"}
_COMPARISONS = {"EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater",
                "GE": "greater_equal"}  # fmt: skip


def _simple(name: str) -> None:
    @converter(name)
    def _unary(ctx: HloContext) -> Results:
        return _in_floats(ctx, _UNARY[name], ctx.input(0))


def _in_floats(ctx: HloContext, op: str, x: TapeValue) -> TapeValue:
    if op in ("abs", "sign") and x.dtype.startswith("uint"):
        return x if op == "abs" else ctx.cast(ctx.op("not_equal", x, ctx.scalar(0, x)), x.dtype)
    if op == "negative" and x.dtype.startswith("uint"):
        return ctx.op("subtract", ctx.scalar(0, x), x)
    return ctx.op(op, x)


def pair(ctx: HloContext, op: str, a: TapeValue, b: TapeValue, shape: tuple[int, ...]) -> TapeValue:
    """An op of two operands, either as thin as it was before it was broadcast to the other's shape."""
    thin_a, thin_b = ctx.thin(a), ctx.thin(b)
    if np.broadcast_shapes(thin_a.shape, b.shape) == shape and thin_a.shape != shape:
        a = thin_a
    if np.broadcast_shapes(a.shape, thin_b.shape) == shape and thin_b.shape != shape:
        b = thin_b
    return ctx.op(op, a, b)


def operands(ctx: HloContext) -> tuple[TapeValue, TapeValue]:
    a, b = ctx.input(0), ctx.input(1)
    if a.shape != b.shape and a.rank and b.rank:
        ctx.fail(f"operands of {list(a.shape)} and {list(b.shape)}")
    return a, b


def _two(name: str) -> None:
    @converter(name, f"broadcast_{name}")
    def _binary(ctx: HloContext) -> Results:
        a, b = operands(ctx)
        op = _BINARY[name]
        if a.dtype == "bool":
            op = _ON_BOOL.get(name) or ctx.fail("no such op of i1")
        if op == "maximum" and _lowest(ctx, a):
            return b
        return pair(ctx, op, a, b, ctx.made.shape)


def _lowest(ctx: HloContext, x: TapeValue) -> bool:
    """Whether x is minus infinity throughout: a maximum with it changes nothing."""
    thin = ctx.thin(x)
    values = thin.known() if thin.type.nbytes <= 64 else None
    return values is not None and values.dtype.kind == "f" and bool(np.all(values == -np.inf))


def _bits(name: str) -> None:
    @converter(name)
    def _bitwise(ctx: HloContext) -> Results:
        a, b = operands(ctx)
        kind = "logical" if a.dtype == "bool" else "bitwise"
        return pair(ctx, f"{kind}_{_BITS[name]}", a, b, ctx.made.shape)


for _name in _UNARY:
    _simple(_name)
for _name in _BINARY:
    _two(_name)
for _name in _BITS:
    _bits(_name)


@converter("not")
def _not(ctx: HloContext) -> Results:
    x = ctx.input(0)
    return ctx.op("logical_not" if x.dtype == "bool" else "bitwise_not", x)


@converter("atan2")
def _atan2(ctx: HloContext) -> Results:
    """The angle of (x, y) by quadrants: atan of |y| / |x|, turned where x is negative, with the sign of y."""
    y, x = operands(ctx)
    size_y, size_x = ctx.op("abs", y), ctx.op("abs", x)
    same = ctx.op("equal", size_y, size_x)  # 0 / 0 and inf / inf
    ratio = ctx.op("where", same, ctx.scalar(1, x), ctx.op("divide", size_y, size_x))
    ratio = ctx.op("where", ctx.op("equal", size_y, ctx.scalar(0, y)), ctx.scalar(0, x), ratio)
    angle = ctx.op("atan", ratio)
    turned = ctx.op("subtract", ctx.scalar(math.pi, x), angle)
    angle = ctx.op("where", _negative(ctx, x), turned, angle)
    angle = ctx.op("where", _negative(ctx, y), ctx.op("negative", angle), angle)
    nan = ctx.op("add", x, y)
    return ctx.op("where", ctx.op("logical_or", ctx.op("isnan", x), ctx.op("isnan", y)), nan, angle)


def _negative(ctx: HloContext, x: TapeValue) -> TapeValue:
    """Whether the sign is set, that of -0 too."""
    zero = ctx.scalar(0, x)
    at_zero = ctx.op("less", ctx.op("divide", ctx.scalar(1, x), x), zero)
    return ctx.op(
        "logical_or", ctx.op("less", x, zero), ctx.op("logical_and", ctx.op("equal", x, zero), at_zero)
    )


@converter("round_nearest_afz")
def _round_away(ctx: HloContext) -> Results:
    x = ctx.input(0)
    whole = ctx.op("trunc", x)
    half = ctx.op("greater_equal", ctx.op("abs", ctx.op("subtract", x, whole)), ctx.scalar(0.5, x))
    return ctx.op("add", whole, ctx.op("where", half, ctx.op("sign", x), ctx.scalar(0, x)))


@converter("compare")
def _compare(ctx: HloContext) -> Results:
    words = ctx.node.words
    how = words[0] if words else ctx.word("comparison_direction")
    kind = words[1] if len(words) > 1 else ctx.word("compare_type", default="NOTYPE")
    if how not in _COMPARISONS:
        ctx.fail(f"comparison_direction {how!r}")
    a, b = operands(ctx)
    if kind == "TOTALORDER" and a.dtype.startswith(("float", "bfloat")):
        a, b = total_order(ctx, a), total_order(ctx, b)
    return pair(ctx, _COMPARISONS[how], a, b, ctx.made.shape)


def total_order(ctx: HloContext, x: TapeValue) -> TapeValue:
    """Integers in the order of floats: -NaN, -inf, ..., -0, +0, ..., inf, NaN."""
    bits = 8 * x.type.nbytes // max(math.prod(x.shape), 1) if x.shape else 8 * x.type.nbytes
    if not math.prod(x.shape):
        return x
    whole = ctx.op("bitcast", x, to=f"int{bits}")
    turned = ctx.op("bitwise_xor", whole, ctx.const((1 << (bits - 1)) - 1, whole.dtype))
    return ctx.op("where", ctx.op("less", whole, ctx.scalar(0, whole)), turned, whole)


@converter("select")
def _select(ctx: HloContext) -> Results:
    cond, a, b = ctx.input(0), ctx.input(1), ctx.input(2)
    shape = ctx.made.shape
    if a.shape != shape or b.shape != shape or cond.shape not in ((), shape):
        ctx.fail(f"operands of {list(cond.shape)}, {list(a.shape)} and {list(b.shape)}")
    thin = [ctx.thin(x) for x in (cond, a, b)]
    if np.broadcast_shapes(*(x.shape for x in thin)) == shape:
        cond, a, b = thin
    return ctx.expand(ctx.op("where", cond, a, b), shape)


@converter("clamp")
def _clamp(ctx: HloContext) -> Results:
    low, x, high = ctx.input(0), ctx.input(1), ctx.input(2)
    return ctx.op("minimum", ctx.op("maximum", x, ctx.thin(low)), ctx.thin(high))


@converter("is_finite")
def _is_finite(ctx: HloContext) -> Results:
    x = ctx.input(0)
    return ctx.op("less", ctx.op("abs", x), ctx.scalar(np.inf, x))


@converter("is_inf")
def _is_inf(ctx: HloContext) -> Results:
    return ctx.op("isinf", ctx.input(0))


@converter("convert")
def _convert(ctx: HloContext) -> Results:
    x = ctx.input(0)
    made = ctx.cast(x, ctx.made.dtype)
    thin = ctx.thin(x)
    if thin is not x and made is not x:
        ctx.importer.thin[id(made)] = (ctx.cast(thin, made.dtype), made)
    return made


@converter("bitcast_convert")
def _bitcast(ctx: HloContext) -> Results:
    x, wanted = ctx.input(0), ctx.made
    own, other = dtypes.to_numpy(x.dtype).itemsize, dtypes.to_numpy(wanted.dtype).itemsize
    if own == other:
        return x if x.dtype == wanted.dtype else ctx.op("bitcast", x, to=wanted.dtype)
    if "bool" in (x.dtype, wanted.dtype):
        ctx.fail("bits of i1 have no bytes")
    return _narrower(ctx, x, own, other) if own > other else _wider(ctx, x, own, other)


def _narrower(ctx: HloContext, x: TapeValue, own: int, other: int) -> TapeValue:
    """Each element as several of fewer bits, the lowest first."""
    whole = ctx.op("bitcast", x, to=f"uint{8 * own}") if x.dtype != f"uint{8 * own}" else x
    parts = [
        ctx.cast(ctx.op("shift_right", whole, ctx.scalar(8 * other * i, whole)), f"uint{8 * other}")
        for i in range(own // other)
    ]
    made = ctx.stack(parts, x.rank)
    return made if made.dtype == ctx.made.dtype else ctx.op("bitcast", made, to=ctx.made.dtype)


def _wider(ctx: HloContext, x: TapeValue, own: int, other: int) -> TapeValue:
    """Several elements, those of the last dimension, as one of more bits."""
    if not x.rank or x.shape[-1] != other // own:
        ctx.fail(f"{x.type} does not make {ctx.made}")
    whole = ctx.op("bitcast", x, to=f"uint{8 * own}") if x.dtype != f"uint{8 * own}" else x
    parts = [
        ctx.cast(ctx.reshape(ctx.slice(whole, x.rank - 1, i, i + 1), x.shape[:-1]), f"uint{8 * other}")
        for i in range(other // own)
    ]
    parts = [ctx.op("shift_left", p, ctx.scalar(8 * own * i, p)) if i else p for i, p in enumerate(parts)]
    made = ctx.each("bitwise_or", *parts)
    return made if made.dtype == ctx.made.dtype else ctx.op("bitcast", made, to=ctx.made.dtype)


@converter("reduce_precision")
def _reduce_precision(ctx: HloContext) -> Results:
    x = ctx.input(0)
    text = ctx.word("format", default="")
    if text:
        exponent, _, mantissa = text.removeprefix("e").partition("m")
        bits = int(exponent), int(mantissa)
    else:
        bits = ctx.number("exponent_bits"), ctx.number("mantissa_bits")
    through = {(8, 7): "bfloat16", (5, 10): "float16", (8, 23): "float32", (11, 52): "float64"}.get(bits)
    if through is None:
        ctx.fail(f"exponent and mantissa of {bits} bits")
    return ctx.cast(ctx.cast(x, through), x.dtype)


# ---------------------------------------------------------------- shifts and counts of bits


@converter("shift_left")
def _shift_left(ctx: HloContext) -> Results:
    a, b = operands(ctx)
    return pair(ctx, "shift_left", a, b, ctx.made.shape)


@converter("shift_right_arithmetic")
def _shift_arithmetic(ctx: HloContext) -> Results:
    a, b = operands(ctx)
    if a.dtype.startswith("uint"):
        signed = ctx.op("bitcast", a, to=a.dtype[1:])
        made = ctx.op("shift_right", signed, ctx.op("bitcast", b, to=a.dtype[1:]))
        return ctx.op("bitcast", made, to=a.dtype)
    return pair(ctx, "shift_right", a, b, ctx.made.shape)


@converter("shift_right_logical")
def _shift_logical(ctx: HloContext) -> Results:
    a, b = operands(ctx)
    if not a.dtype.startswith("int"):
        return pair(ctx, "shift_right", a, b, ctx.made.shape)
    plain = [ctx.op("bitcast", x, to=f"u{x.dtype}") for x in (a, b)]
    return ctx.op("bitcast", ctx.op("shift_right", *plain), to=a.dtype)


def _masked(ctx: HloContext, x: TapeValue, shift: int, mask: int) -> TapeValue:
    moved = ctx.op("shift_right", x, ctx.scalar(shift, x)) if shift else x
    return ctx.op("bitwise_and", moved, ctx.scalar(mask, x))


def _ones(ctx: HloContext, x: TapeValue, bits: int) -> TapeValue:
    """How many bits are set, by sums of halves."""
    step = 1
    while step < bits:
        mask = sum(((1 << step) - 1) << at for at in range(0, bits, 2 * step))
        x = ctx.op("add", _masked(ctx, x, 0, mask), _masked(ctx, x, step, mask))
        step *= 2
    return x


def _unsigned(ctx: HloContext) -> tuple[TapeValue, int]:
    x = ctx.input(0)
    bits = int(x.dtype.lstrip("uint")) if x.dtype.lstrip("uint").isdigit() else ctx.fail(f"of {x.dtype}")
    return (x if x.dtype.startswith("u") else ctx.op("bitcast", x, to=f"u{x.dtype}")), bits


def _signed_again(ctx: HloContext, x: TapeValue) -> TapeValue:
    return x if x.dtype == ctx.made.dtype else ctx.op("bitcast", x, to=ctx.made.dtype)


@converter("popcnt")
def _popcnt(ctx: HloContext) -> Results:
    x, bits = _unsigned(ctx)
    return _signed_again(ctx, _ones(ctx, x, bits))


@converter("count_leading_zeros")
def _leading_zeros(ctx: HloContext) -> Results:
    x, bits = _unsigned(ctx)
    step = 1
    while step < bits:
        x = ctx.op("bitwise_or", x, ctx.op("shift_right", x, ctx.scalar(step, x)))
        step *= 2
    return _signed_again(ctx, ctx.op("subtract", ctx.scalar(bits, x), _ones(ctx, x, bits)))
