"""Quotients, plain and rounded, and what they leave."""

from __future__ import annotations

from typing import Any

from ..counters import Unsupported
from .operands import float_of, is_float, pair, scalar_like
from .table import rule


@rule("div", "true_divide")
def div(e: Any, a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    a, b = pair(e, a, b, stored=rounding_mode is not None)
    if rounding_mode is not None and is_float(a):
        return (_floor_divide if rounding_mode == "floor" else _truncating_divide)(e, a, b)
    if rounding_mode == "floor":
        raise Unsupported("division that rounds down has no op for integers")
    if rounding_mode is None:
        a, b = float_of(e, a), float_of(e, b)
    return e.op("divide", a, b)


def _truncating_divide(e: Any, a: Any, b: Any) -> Any:
    made = e.op("divide", a, b)
    below = e.op("less", made, scalar_like(e, 0, made))
    return e.op("where", below, e.op("ceil", made), e.op("floor", made))


def _floor_divide(e: Any, a: Any, b: Any) -> Any:
    """As torch does it: what fmod leaves decides, for a quotient that was rounded up to an integer (1 / 0.1)
    has lost it. An infinite dividend is no number, of a zero the sign is the quotient's."""
    zero, one = scalar_like(e, 0, a), scalar_like(e, 1, a)
    plain, rest = e.op("divide", a, b), _rest(e, a, b)
    made = e.op("divide", e.op("subtract", a, rest), b)
    turned = e.op("logical_xor", e.op("less", b, zero), e.op("less", rest, zero))
    turned = e.op("logical_and", e.op("not_equal", rest, zero), turned)
    made = e.op("where", turned, e.op("subtract", made, one), made)
    floor = e.op("floor", made)
    far = e.op("greater", e.op("subtract", made, floor), scalar_like(e, 0.5, a))
    floor = e.op("where", far, e.op("add", floor, one), floor)
    floor = e.op("where", e.op("not_equal", made, zero), floor, e.op("multiply", plain, zero))
    return e.op("where", e.op("equal", b, zero), plain, floor)


@rule("floor_divide")
def floor_divide(e: Any, a: Any, b: Any) -> Any:
    return div(e, a, b, rounding_mode="floor")


@rule("fmod")
def fmod(e: Any, a: Any, b: Any) -> Any:
    return _rest(e, *_numbers(e, a, b))


@rule("remainder")
def remainder(e: Any, a: Any, b: Any) -> Any:
    """With the sign of b, but a remainder of 0 has that of a."""
    a, b = _numbers(e, a, b)
    if not is_float(a):
        return e.op("mod", a, b)
    zero, rest = scalar_like(e, 0, a), _rest(e, a, b)
    turned = e.op("logical_xor", e.op("less", b, zero), e.op("less", rest, zero))
    turned = e.op("logical_and", e.op("not_equal", rest, zero), turned)
    return e.op("where", turned, e.op("add", rest, b), rest)


def _rest(e: Any, a: Any, b: Any) -> Any:
    """With the sign of a."""
    return e.op("mod", a, b, fmod=True)


def _numbers(e: Any, a: Any, b: Any) -> list[Any]:
    a, b = pair(e, a, b)
    if a.dtype == "bool":
        raise Unsupported("bools have no remainder")
    return [a, b]
