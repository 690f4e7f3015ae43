"""Gradients of functions of several values, named for the function: each is ``g`` times the derivative with
respect to one of the values.

    first, second = gradients.product(g, a, b)

The functions are generators: a gradient is computed when it is taken. Formulas are the usual ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..ir.value import Value, where
from . import derivatives

Gradients = Callable[..., Iterator[Value]]


def linear(first: float, second: float) -> Gradients:
    """Gradients of first a + second b."""

    def gradients(g: Value, a: Value, b: Any) -> Iterator[Value]:
        yield from (g if by == 1 else g * by for by in (first, second))

    return gradients


def scaled_sum(sign: float) -> Gradients:
    """Gradients of a + sign alpha b."""
    return lambda g, a, b, alpha=1.0: linear(1.0, sign * float(alpha))(g, a, b)


def product(g: Value, a: Value, b: Value) -> Iterator[Value]:
    yield g * b
    yield g * a


def quotient(g: Value, a: Value, b: Value) -> Iterator[Value]:
    first = g / b
    yield first
    yield -(first * (a / b))


def remainder(round_op: str) -> Gradients:
    """Gradients of a - b round(a / b), where the derivative of rounding counts as 0; ``round_op``: "floor" or
    "trunc"."""

    def gradients(g: Value, a: Value, b: Value) -> Iterator[Value]:
        yield g
        yield -(g * (a / b).op(round_op))

    return gradients


def atan2(g: Value, y: Value, x: Value) -> Iterator[Value]:
    part = g / (x * x + y * y)
    yield part * x
    yield -(part * y)


def hypot(g: Value, a: Value, b: Value) -> Iterator[Value]:
    part = g / a.op("hypot", b)
    yield part * a
    yield part * b


def xlogy(g: Value, a: Value, b: Value) -> Iterator[Value]:
    """Gradients of a log(b), which is 0 where a is 0."""
    yield where(a.equal(0.0) & (b <= 0.0), 0.0, g * b.log())
    yield g * (a / b)


def ldexp(g: Value, a: Value, b: Value) -> Iterator[Value]:
    """Gradients of a 2^b."""
    first = g * b.op("exp2")
    yield first
    yield first * a * math.log(2)


def logaddexp(base: float) -> Gradients:
    """Gradients of the logarithm to ``base`` of base^a + base^b: a and b get shares in proportion to their
    powers."""

    def gradients(g: Value, a: Value, b: Value) -> Iterator[Value]:
        share = ((a - b) * math.log(base)).sigmoid()
        yield g * share
        yield g * (1.0 - share)

    return gradients


def squared_difference(g: Value, a: Value, b: Value) -> Iterator[Value]:
    first = g * (a - b) * 2.0
    yield first
    yield -first


def extreme(op: str) -> Gradients:
    """Gradients of maximum ("greater") or minimum ("less"); where both values are equal, each gets half."""

    def gradients(g: Value, a: Value, b: Value) -> Iterator[Value]:
        taken = where(a.op(op, b), g.scalar(1.0), 0.0)
        share = where(a.equal(b), g.scalar(0.5), 0.0) + taken
        yield g * share
        yield g * (1.0 - share)

    return gradients


def bias_gelu(g: Value, a: Value, b: Value, approximate: str = "none") -> Iterator[Value]:
    """Gradients of gelu(a + b)."""
    made = g * derivatives.gelu(a + b, approximate)
    yield made
    yield made


# **************** of three values ****************


def addcmul(g: Value, a: Value, b: Value, c: Value, value: float = 1.0) -> Iterator[Value]:
    """Gradients of a + value b c."""
    yield g
    scaled = g * float(value)
    yield scaled * c
    yield scaled * b


def addcdiv(g: Value, a: Value, b: Value, c: Value, value: float = 1.0) -> Iterator[Value]:
    """Gradients of a + value b / c."""
    yield g
    first = g * float(value) / c
    yield first
    yield -(first * (b / c))


def lerp(g: Value, start: Value, end: Value, weight: Any) -> Iterator[Value]:
    """Gradients of start + weight (end - start)."""
    yield g * (1.0 - weight)
    yield g * weight
    yield g * (end - start)
