"""Quotients, remainders and powers, of integers as XLA has them: whatever the operands are, there is a value.

x / 0 has all bits set, x mod 0 is x, the quotient of the lowest integer and -1 is that integer; a power with
a negative exponent is that of 1 or -1, or 0. Kernels refuse a divisor of 0, as ONNX and torch do, so they get
1.
"""

from __future__ import annotations

from collections.abc import Callable

from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter
from .elementwise import operands, pair

__all__: list[str] = []


@converter("divide", "broadcast_divide")
def _divide(ctx: HloContext) -> Results:
    def of_zero(a: TapeValue) -> TapeValue:
        return ctx.const(-1 if a.dtype.startswith("int") else (1 << _bits(a)) - 1, a.dtype)

    return _by_integers(ctx, of_zero, lambda a, b: pair(ctx, "divide", a, b, ctx.made.shape))


@converter("remainder")
def _remainder(ctx: HloContext) -> Results:
    return _by_integers(ctx, lambda a: a, lambda a, b: ctx.op("mod", a, b, fmod=True))


def _by_integers(
    ctx: HloContext,
    of_zero: Callable[[TapeValue], TapeValue],
    op: Callable[[TapeValue, TapeValue], TapeValue],
) -> TapeValue:
    """``op`` of two operands, and ``of_zero`` of the first where the second is an integer 0."""
    a, b = operands(ctx)
    if a.dtype == "bool":
        ctx.fail("no such op of i1")
    if "int" not in a.dtype or _is_never_zero(ctx, b):
        return op(a, b)
    b = ctx.thin(b)
    is_zero = ctx.op("equal", b, ctx.scalar(0, b))
    made = op(a, ctx.op("where", is_zero, ctx.scalar(1, b), b))
    return ctx.op("where", is_zero, of_zero(a), made)


def _is_never_zero(ctx: HloContext, x: TapeValue) -> bool:
    values = ctx.thin(x).known()
    return values is not None and bool(values.all())


def _bits(x: TapeValue) -> int:
    return int(x.dtype.lstrip("uint"))


@converter("power", "broadcast_power")
def _power(ctx: HloContext) -> Results:
    a, b = operands(ctx)
    if a.dtype == "bool":
        ctx.fail("no such op of i1")
    known = ctx.thin(b).known()
    if not b.dtype.startswith("int") or (known is not None and bool((known >= 0).all())):
        return pair(ctx, "power", a, b, ctx.made.shape)
    b = ctx.thin(b)
    zero, one, less = ctx.scalar(0, b), ctx.scalar(1, a), ctx.scalar(-1, a)
    is_negative = ctx.op("less", b, zero)
    made = ctx.op("power", a, ctx.op("where", is_negative, zero, b))
    is_odd = ctx.op("equal", ctx.op("bitwise_and", b, ctx.scalar(1, b)), ctx.scalar(1, b))
    of_one = ctx.op("where", ctx.op("equal", a, one), one, ctx.scalar(0, a))
    turned = ctx.op("where", ctx.op("equal", a, less), ctx.op("where", is_odd, less, one), of_one)
    return ctx.op("where", is_negative, turned, made)
