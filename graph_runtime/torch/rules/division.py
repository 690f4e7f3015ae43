"""Quotients, exact and rounded, and remainders."""

from __future__ import annotations

from typing import Any

from ...ir.value import where
from ..counters import Unsupported
from .operands import float_of, is_float, pair
from .table import rule


@rule("div", "true_divide")
def div(e: Any, a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    a, b = pair(e, a, b, stored=rounding_mode is not None)
    if rounding_mode is not None and is_float(a):
        return (_floor_divide if rounding_mode == "floor" else _truncating_divide)(a, b)
    if rounding_mode == "floor":
        raise Unsupported("division that rounds down has no op for integers")
    if rounding_mode is None:
        a, b = float_of(a), float_of(b)
    return a / b


def _truncating_divide(a: Any, b: Any) -> Any:
    made = a / b
    return where(made < 0, made.ceil(), made.floor())


def _floor_divide(a: Any, b: Any) -> Any:
    """The quotient rounded down, computed as torch does from the remainder of fmod, because a quotient that
    floating point rounds up to an integer (1 / 0.1) would be too large. An infinite dividend gives NaN; a
    result of zero has the quotient's sign."""
    plain, rest = a / b, _rest(a, b)
    made = (a - rest) / b
    made = where(_turned(rest, b), made - 1, made)
    floor = made.floor()
    floor = where(made - floor > 0.5, floor + 1, floor)
    floor = where(made.not_equal(0), floor, plain * 0)
    return where(b.equal(0), plain, floor)


def _turned(rest: Any, b: Any) -> Any:
    """Whether a remainder is not 0 and its sign differs from b's."""
    turned = (b < 0) ^ (rest < 0)
    return rest.not_equal(0) & turned


rule("floor_divide")(lambda e, a, b: div(e, a, b, rounding_mode="floor"))
rule("fmod")(lambda e, a, b: _rest(*_numbers(e, a, b)))


@rule("remainder")
def remainder(e: Any, a: Any, b: Any) -> Any:
    """The remainder with the sign of b; a remainder of 0 has the sign of a."""
    a, b = _numbers(e, a, b)
    if not is_float(a):
        return a.op("mod", b)
    rest = _rest(a, b)
    return where(_turned(rest, b), rest + b, rest)


def _rest(a: Any, b: Any) -> Any:
    """The remainder with the sign of a."""
    return a.op("mod", b, fmod=True)


def _numbers(e: Any, a: Any, b: Any) -> list[Any]:
    a, b = pair(e, a, b)
    if a.dtype == "bool":
        raise Unsupported("bools have no remainder")
    return [a, b]
