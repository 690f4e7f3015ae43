"""Elementwise ops: arithmetic, comparisons, bits, conversions, special functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import invert, or_

import numpy as np

from ....base import dtypes
from ....base.dtypes import is_integer
from ....base.errors import UnsupportedOpError
from ....compositions.integers import leading_zeros, population_count, power
from ....compositions.names import NAMED
from ....compositions.signs import atan2
from ....compositions.special import giles
from ....ir.value import Value, where
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter

# {op: registry op}; the registry has the ops of _SAME by the same names
_SAME = (
    "abs acos acosh asin asinh atan atanh cbrt ceil cosh digamma erf erfc floor lgamma log rsqrt sign sinh "
    "sqrt square tan tanh"
).split()
_UNARY = {
    **dict(zip(_SAME, _SAME, strict=True)),
    "cosine": "cos",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log_plus_one": "log1p",
    "logistic": "sigmoid",
    "negate": "negative",
    "round_nearest_even": "round",
    "sine": "sin",
}
# {op: (registry op, registry op for bools; "" if there is none)}
_BINARY = {
    "add": ("add", "logical_or"),
    "and": ("bitwise_and", "logical_and"),
    "maximum": ("maximum", "logical_or"),
    "minimum": ("minimum", "logical_and"),
    "multiply": ("multiply", "logical_and"),
    "or": ("bitwise_or", "logical_or"),
    "shift_left": ("shift_left", ""),
    "subtract": ("subtract", ""),
    "xor": ("bitwise_xor", "logical_xor"),
}
_BROADCAST = ("add", "maximum", "minimum", "multiply", "subtract")  # ops that also have a form broadcast_*
_COMPARISONS = {"EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater",
                "GE": "greater_equal"}  # fmt: skip


def _unary(x: TapeValue, op: str) -> TapeValue:
    if op in ("abs", "sign") and x.dtype.startswith("uint"):
        return x if op == "abs" else x.not_equal(0).cast(x.dtype)
    if op == "negative" and x.dtype.startswith("uint"):
        return 0 - x
    return x.op(op)


def pair(ctx: HloContext, op: str, a: TapeValue, b: TapeValue, shape: tuple[int, ...]) -> TapeValue:
    """Result of an op with two operands. If an operand was broadcast to the shape of the other, the operand
    before the broadcast is used."""
    thin_a, thin_b = ctx.thin(a), ctx.thin(b)
    if np.broadcast_shapes(thin_a.shape, b.shape) == shape and thin_a.shape != shape:
        a = thin_a
    if np.broadcast_shapes(a.shape, thin_b.shape) == shape and thin_b.shape != shape:
        b = thin_b
    return ctx.op(op, a, b)


def operands(ctx: HloContext) -> tuple[TapeValue, TapeValue]:
    a, b = ctx.input(0), ctx.input(1)
    if a.shape != b.shape and a.rank and b.rank:
        ctx.fail(f"operands of {list(a.shape)} and {list(b.shape)} do not fit")
    return a, b


def _two(name: str) -> None:
    @converter(name, *([f"broadcast_{name}"] if name in _BROADCAST else ()))
    def _of_two(ctx: HloContext) -> Results:
        a, b = operands(ctx)
        op, of_bools = _BINARY[name]
        if a.dtype == "bool":
            op = of_bools or ctx.fail("no such op of i1")
        if op == "maximum" and _lowest(ctx, a):
            return b
        return pair(ctx, op, a, b, ctx.made.shape)


def _lowest(ctx: HloContext, x: TapeValue) -> bool:
    """Whether all of x is minus infinity, so that a maximum with x changes nothing."""
    thin = ctx.thin(x)
    values = thin.known() if thin.type.nbytes <= 64 else None
    return values is not None and values.dtype.kind == "f" and bool(np.all(values == -np.inf))


for _name in _BINARY:
    _two(_name)


converter("atan2")(lambda ctx: atan2(*operands(ctx)))


@converter("compare")
def _compare(ctx: HloContext) -> Results:
    words = ctx.node.words
    how = words[0] if words else ctx.word("comparison_direction")
    kind = words[1] if len(words) > 1 else ctx.word("compare_type", default="NOTYPE")
    if how not in _COMPARISONS:
        ctx.fail(f"comparison_direction {how!r} is not supported")
    a, b = operands(ctx)
    if kind == "TOTALORDER" and a.dtype.startswith(("float", "bfloat")):
        a, b = total_order(ctx, a), total_order(ctx, b)
    return pair(ctx, _COMPARISONS[how], a, b, ctx.made.shape)


def total_order(ctx: HloContext, x: TapeValue) -> TapeValue:
    """Integers with the order of the floats x: -NaN, -inf, ..., -0, +0, ..., inf, NaN."""
    bits = 8 * x.type.nbytes // max(math.prod(x.shape), 1) if x.shape else 8 * x.type.nbytes
    if not math.prod(x.shape):
        return x
    whole = ctx.op("bitcast", x, to=f"int{bits}")
    return where(whole < 0, whole ^ ((1 << (bits - 1)) - 1), whole)


@converter("select")
def _select(ctx: HloContext) -> Results:
    cond, a, b = ctx.input(0), ctx.input(1), ctx.input(2)
    shape = ctx.made.shape
    if a.shape != shape or b.shape != shape or cond.shape not in ((), shape):
        ctx.fail(f"operands of {list(cond.shape)}, {list(a.shape)} and {list(b.shape)} do not fit")
    thin = [ctx.thin(x) for x in (cond, a, b)]
    if np.broadcast_shapes(*(x.shape for x in thin)) == shape:
        cond, a, b = thin
    return ctx.expand(where(cond, a, b), shape)


@converter("clamp")
def _clamp(ctx: HloContext) -> Results:
    low, x, high = ctx.input(0), ctx.input(1), ctx.input(2)
    return x.maximum(ctx.thin(low)).minimum(ctx.thin(high))


@converter("convert")
def _convert(ctx: HloContext) -> Results:
    x = ctx.input(0)
    made = x.cast(ctx.made.dtype)
    thin = ctx.thin(x)
    if thin is not x and made is not x:
        ctx.importer.thin[id(made)] = (thin.cast(made.dtype), made)
    return made


@converter("bitcast_convert")
def _bitcast(ctx: HloContext) -> Results:
    x, wanted = ctx.input(0), ctx.made
    own, other = dtypes.to_numpy(x.dtype).itemsize, dtypes.to_numpy(wanted.dtype).itemsize
    if own == other:
        return x if x.dtype == wanted.dtype else ctx.op("bitcast", x, to=wanted.dtype)
    if "bool" in (x.dtype, wanted.dtype):
        ctx.fail("the bits of i1 cannot be cast")
    return _narrower(ctx, x, own, other) if own > other else _wider(ctx, x, own, other)


def _narrower(ctx: HloContext, x: TapeValue, own: int, other: int) -> TapeValue:
    """Each element split into several of fewer bits, the lowest bits first."""
    whole = ctx.op("bitcast", x, to=f"uint{8 * own}") if x.dtype != f"uint{8 * own}" else x
    parts = [(whole >> (8 * other * i)).cast(f"uint{8 * other}") for i in range(own // other)]
    made = ctx.stack(parts, x.rank)
    return made if made.dtype == ctx.made.dtype else ctx.op("bitcast", made, to=ctx.made.dtype)


def _wider(ctx: HloContext, x: TapeValue, own: int, other: int) -> TapeValue:
    """The elements of the last dimension, combined into one element of more bits."""
    if not x.rank or x.shape[-1] != other // own:
        ctx.fail(f"{x.type} cannot become {ctx.made}")
    whole = ctx.op("bitcast", x, to=f"uint{8 * own}") if x.dtype != f"uint{8 * own}" else x
    parts = [
        ctx.reshape(ctx.slice(whole, x.rank - 1, i, i + 1), x.shape[:-1]).cast(f"uint{8 * other}")
        for i in range(other // own)
    ]
    made = reduce(or_, (p << (8 * own * i) if i else p for i, p in enumerate(parts)))
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
        ctx.fail(f"exponent and mantissa of {bits} bits are not supported")
    return x.cast(through).cast(x.dtype)


# ---------------------------------------------------------------- shifts and counts of bits


@converter("shift_right_arithmetic")
def _shift_arithmetic(ctx: HloContext) -> Results:
    a, b = operands(ctx)
    if a.dtype.startswith("uint"):
        signed = ctx.op("bitcast", a, to=a.dtype[1:])
        made = signed >> ctx.op("bitcast", b, to=a.dtype[1:])
        return ctx.op("bitcast", made, to=a.dtype)
    return pair(ctx, "shift_right", a, b, ctx.made.shape)


@converter("shift_right_logical")
def _shift_logical(ctx: HloContext) -> Results:
    a, b = operands(ctx)
    if not a.dtype.startswith("int"):
        return pair(ctx, "shift_right", a, b, ctx.made.shape)
    a, b = (x.op("bitcast", to=f"u{x.dtype}") for x in (a, b))
    return ctx.op("bitcast", a >> b, to=ctx.made.dtype)


def _of_bits(function: Callable[[TapeValue], TapeValue]) -> Callable[[TapeValue], TapeValue]:
    """A function of unsigned integers, extended to signed ones by their bits."""

    def convert(x: TapeValue) -> TapeValue:
        if not is_integer(x.dtype):
            raise UnsupportedOpError(f"operands of {x.dtype} are not supported")
        if x.dtype.startswith("uint"):
            return function(x)
        return function(x.op("bitcast", to=f"u{x.dtype}")).op("bitcast", to=x.dtype)

    return convert


def _round_away(x: TapeValue) -> TapeValue:
    """The nearest integer; of two equally near integers, the one farther from 0."""
    whole = x.trunc()
    return whole + where(abs(x - whole) >= 0.5, x.sign(), 0)


_COMPOSED: dict[str, Callable[[TapeValue], Value]] = {
    "conj": lambda x: x,  # complex operands have been refused before
    "count_leading_zeros": _of_bits(leading_zeros),
    "is_finite": lambda x: abs(x) < math.inf,
    "is_inf": TapeValue.isinf,
    "not": invert,
    "popcnt": _of_bits(population_count),
    "round_nearest_afz": _round_away,
    **{row.stablehlo: row.function for row in NAMED if row.stablehlo},
}
for _name, _function in _COMPOSED.items():
    converter(_name)(lambda ctx, function=_function: function(ctx.input(0)))
for _name, _op in _UNARY.items():
    converter(_name)(lambda ctx, op=_op: _unary(ctx.input(0), op))


# ---------------------------------------------------------------- quotients, remainders, powers
# As in XLA, integer results are defined for all operands: x / 0 has all bits set, x mod 0 is x, and the
# lowest integer divided by -1 is itself; a power with a negative exponent is 0, unless the base is 1 or -1.
# Kernels refuse a divisor of 0, as ONNX and torch do; it is replaced by 1 for them.


@converter("divide", "broadcast_divide")
def _divide(ctx: HloContext) -> Results:
    def of_zero(a: TapeValue) -> TapeValue:
        return ctx.const(-1 if a.dtype.startswith("int") else np.iinfo(a.dtype).max, a.dtype)

    return _by_integers(ctx, of_zero, lambda a, b: pair(ctx, "divide", a, b, ctx.made.shape))


def _by_integers(
    ctx: HloContext,
    of_zero: Callable[[TapeValue], TapeValue],
    op: Callable[[TapeValue, TapeValue], TapeValue],
) -> TapeValue:
    """Result of ``op``; where the second operand is an integer 0, the result of ``of_zero`` instead."""
    a, b = operands(ctx)
    if a.dtype == "bool":
        ctx.fail("no such op of i1")
    values = ctx.thin(b).known()
    if "int" not in a.dtype or (values is not None and bool(values.all())):
        return op(a, b)
    b = ctx.thin(b)
    is_zero = b.equal(0)
    made = op(a, where(is_zero, 1, b))
    return where(is_zero, of_zero(a), made)


converter("remainder")(
    lambda ctx: _by_integers(ctx, lambda a: a, lambda a, b: ctx.op("mod", a, b, fmod=True))
)


@converter("power", "broadcast_power")
def _power(ctx: HloContext) -> Results:
    a, b = operands(ctx)
    if a.dtype == "bool":
        ctx.fail("no such op of i1")
    known = ctx.thin(b).known()
    if not b.dtype.startswith("int") or (known is not None and bool((known >= 0).all())):
        return pair(ctx, "power", a, b, ctx.made.shape)
    b = ctx.thin(b)
    return power(a, b)


# ---------------------------------------------------------------- special functions


def erf_inverse(y: TapeValue) -> TapeValue:
    """Inverse of erf by Giles' polynomials, which are exact enough for float32. In float64 two steps of
    Newton's method are added."""
    if y.dtype not in ("float32", "float64"):
        return erf_inverse(y.cast("float32")).cast(y.dtype)
    x = giles(y, -(-(y * y)).op("log1p"))
    if y.dtype == "float64":
        for _ in range(2):
            slope = (-(x * x)).exp() * (2 / math.sqrt(math.pi))
            x = x - (x.erf() - y) / slope
    return where(abs(y).equal(1), y * np.inf, x)


converter("erf_inv")(lambda ctx: erf_inverse(ctx.input(0)))


@converter("next_after")
def _next_after(ctx: HloContext) -> Results:
    """The floating-point neighbour of x in the direction of y: x's bits plus or minus one."""
    x, y = ctx.input(0), ctx.input(1)
    bits = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}.get(x.dtype) or ctx.fail(x.dtype)
    whole = ctx.op("bitcast", x, to=f"int{bits}")
    step = where((y > x).equal(x > 0), whole.scalar(1), -1)
    moved = ctx.op("bitcast", whole + step, to=x.dtype)
    least = whole.scalar(1).op("bitcast", to=x.dtype)
    least = where(y < 0, -least, least)
    moved = where(x.equal(0), least, moved)
    made = where(x.equal(y), y, moved)
    return where(x.isnan() | y.isnan(), x + y, made)
