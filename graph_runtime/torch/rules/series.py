"""Functions that are sums of series: Bessel functions, derivatives of digamma, quantiles."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

from ..counters import Unsupported
from .operands import in_float32, scalar_like
from .special import inverse_of_erf, polynomial
from .table import rule

_MOST_DERIVATIVES = 8  # of digamma: their sums are of powers by products
_SHIFT = 8  # arguments from which on the tail of a sum is an asymptotic series
_BERNOULLI = (Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30))  # of order 2, 4, 6, 8


def _number(e: Any, op: str, x: Any, number: float) -> Any:
    return e.op(op, x, scalar_like(e, number, x))


@rule("special_spherical_bessel_j0")
@in_float32
def spherical_bessel_j0(e: Any, x: Any) -> Any:
    made = e.op("where", _number(e, "equal", x, 0), scalar_like(e, 1.0, x), e.op("divide", e.op("sin", x), x))
    return e.op("where", e.op("isinf", x), scalar_like(e, 0.0, x), made)


# **************** the modified Bessel function of order 1 ****************


@cache
def _near(terms: int = 26) -> tuple[float, ...]:
    """Of I1(x) / (x / 2) in powers of (x / 2)^2, the highest first (Abramowitz and Stegun, 9.6.10): to 1e-8
    of it below x = 9."""
    return tuple(1 / (math.factorial(k) * math.factorial(k + 1)) for k in reversed(range(terms)))


@cache
def _far(terms: int = 9) -> tuple[float, ...]:
    """Of I1(x) exp(-x) sqrt(2 pi x) in powers of 1 / x, the highest first (the same, 9.7.1)."""
    found = [Fraction(1)]
    for k in range(1, terms):
        found.append(found[-1] * Fraction((2 * k - 1) ** 2 - 4, 8 * k))
    return tuple(float(x) for x in reversed(found))


@rule("special_i1e")
@in_float32
def i1e(e: Any, x: Any) -> Any:
    """exp(-|x|) I1(x)"""
    size = e.op("abs", x)
    half = _number(e, "multiply", size, 0.5)
    inside = e.op("minimum", half, scalar_like(e, 4.5, x))
    near = e.op("multiply", polynomial(e, e.op("multiply", inside, inside), _near()), half)
    near = e.op("multiply", near, e.op("exp", e.op("negative", size)))
    beyond = e.op("maximum", size, scalar_like(e, 9.0, x))
    inverse = e.op("divide", scalar_like(e, 1.0, x), beyond)
    scale = _number(e, "multiply", e.op("rsqrt", beyond), (2 * math.pi) ** -0.5)
    far = e.op("multiply", polynomial(e, inverse, _far()), scale)
    made = e.op("where", _number(e, "greater", size, 9.0), far, near)
    made = e.op("where", e.op("isnan", x), x, made)
    return e.op("where", _number(e, "less", x, 0), e.op("negative", made), made)


@rule("special_i1")
@in_float32
def i1(e: Any, x: Any) -> Any:
    """The exponential in two halves: the product overflows where I1 does."""
    root = e.op("exp", _number(e, "multiply", e.op("abs", x), 0.5))
    return e.op("multiply", e.op("multiply", i1e(e, x), root), root)


# **************** derivatives of digamma ****************


@cache
def _cotangent(n: int) -> tuple[int, ...]:
    """The n-th derivative of cot(u) as a polynomial of cot(u), the highest power first."""
    found = [0, 1]  # by power
    for _ in range(n):
        slope = [power * found[power] for power in range(1, len(found))]
        found = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return tuple(reversed(found))


def _powers(e: Any, x: Any, most: int) -> list[Any]:
    """[x, x^2, ..., x^most]"""
    made = [x]
    while len(made) < most:
        made.append(e.op("multiply", made[-1], x))
    return made


def _zeta(e: Any, n: int, x: Any) -> Any:
    """Hurwitz' zeta(n + 1, x) of x from 0.5 on: terms, and the tail of Euler and Maclaurin (the same,
    23.1.30)."""
    one = scalar_like(e, 1.0, x)
    total: Any = None
    for k in range(_SHIFT):
        term = _powers(e, e.op("divide", one, _number(e, "add", x, k)), n + 1)[n]
        total = term if total is None else e.op("add", total, term)
    powers = _powers(e, e.op("divide", one, _number(e, "add", x, _SHIFT)), n + 2 * len(_BERNOULLI))
    rising = Fraction(1)  # (n + 1) ... (n + 2 j - 1) / (2 j)!
    parts = [(n, Fraction(1, n)), (n + 1, Fraction(1, 2))]
    for j, number in enumerate(_BERNOULLI, 1):
        rising = (
            Fraction(n + 1, 2)
            if j == 1
            else rising * (n + 2 * j - 2) * (n + 2 * j - 1) / (2 * j * (2 * j - 1))
        )
        parts.append((n + 2 * j, number * rising))
    for power, factor in parts:
        total = e.op("add", total, _number(e, "multiply", powers[power - 1], float(factor)))
    return total


@rule("polygamma", "special_polygamma")
@in_float32
def polygamma(e: Any, n: int, x: Any) -> Any:
    """Below 0.5 by the reflection (-1)^n psi_n(1 - x) - psi_n(x) = pi d^n/dx^n cot(pi x) (the same,
    6.4.7)."""
    if n > _MOST_DERIVATIVES:
        raise Unsupported(f"derivatives of digamma beyond number {_MOST_DERIVATIVES} are the host's")
    if n == 0:
        return e.op("digamma", x)
    one, left = scalar_like(e, 1.0, x), _number(e, "less", x, 0.5)
    of_right = (-1) ** (n + 1) * math.factorial(n)
    made = _zeta(e, n, e.op("where", left, e.op("subtract", one, x), x))
    made = _number(e, "multiply", made, float(of_right))
    rest = e.op("subtract", x, e.op("round", x))
    cotangent = e.op("divide", one, e.op("tan", _number(e, "multiply", rest, math.pi)))
    bent = polynomial(e, cotangent, tuple(math.pi ** (n + 1) * c for c in _cotangent(n)))
    turned = e.op("subtract", _number(e, "multiply", made, float((-1) ** n)), bent)
    pole = scalar_like(e, math.copysign(math.inf, of_right), x)
    return e.op("where", left, e.op("where", _number(e, "equal", rest, 0), pole, turned), made)


# **************** quantiles of the normal distribution ****************


@rule("special_ndtri")
@in_float32
def ndtri(e: Any, p: Any) -> Any:
    """sqrt(2) erfinv(2 p - 1), where 1 - (2 p - 1)^2 is told by p, which near 0 has more digits."""
    one = scalar_like(e, 1.0, p)
    inside = _number(e, "multiply", e.op("multiply", p, e.op("subtract", one, p)), 4.0)
    made = inverse_of_erf(e, e.op("subtract", _number(e, "multiply", p, 2.0), one), inside)
    made = _number(e, "multiply", made, math.sqrt(2))
    tail = e.op("logical_and", _number(e, "less", p, 1e-7), _number(e, "greater", p, 0))
    return e.op("where", tail, _quantile_of_tail(e, p), made)


def _quantile_of_tail(e: Any, p: Any) -> Any:
    """-x where x^2 = -2 log(p sqrt(2 pi) x / (1 - 1/x^2 + 3/x^4 - ..)) (the same, 26.2.12), of p below
    1e-7."""
    twice = _number(e, "subtract", _number(e, "multiply", e.op("log", p), -2.0), math.log(2 * math.pi))
    square = twice
    for _ in range(5):
        inverse = e.op("divide", scalar_like(e, 1.0, p), square)
        series = e.op("log", polynomial(e, inverse, (105.0, -15.0, 3.0, -1.0, 1.0)))
        rest = e.op("subtract", _number(e, "multiply", series, 2.0), e.op("log", square))
        square = e.op("add", twice, rest)
    return e.op("negative", e.op("sqrt", square))
