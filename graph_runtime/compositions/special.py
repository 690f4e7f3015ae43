"""Special functions without a kernel of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, reduce
from itertools import accumulate
from typing import TypeVar

from ..ir.value import Value, where

V = TypeVar("V", bound=Value)

# AS: M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions" (1964)

# AS 9.8.3 and 9.8.4: I1(x) / x for |x| <= 3.75, and sqrt(x) exp(-x) I1(x) beyond
_I1_NEAR = (0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5)
_I1_FAR = (
    -0.00420059,
    0.01787654,
    -0.02895312,
    0.02282967,
    -0.01031555,
    0.00163801,
    -0.00362018,
    -0.03988024,
    0.39894228,
)


def polynomial(x: V, coefficients: Sequence[float]) -> V:
    """The polynomial of x by Horner's rule; its two or more coefficients begin with that of the highest
    power."""
    made = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        made = made * x + coefficient
    return made


def i1(x: Value) -> Value:
    """Modified Bessel function of the first kind, order 1; its relative error is below 1e-6."""
    size = abs(x)
    near = size.clip(max=3.75) * (1 / 3.75)
    near = polynomial(near * near, _I1_NEAR) * x
    beyond = size.clip(min=3.75)
    far = polynomial(3.75 / beyond, _I1_FAR) * (beyond.exp() / beyond.sqrt())
    return where(size <= 3.75, near, far * x.sign())


def i0e(x: Value) -> Value:
    """exp(-|x|) I0(x). For large x, where I0 overflows, it is the first terms of the asymptotic series (AS
    9.7.1), whose remainder there is below 1e-8."""
    x = abs(x)
    near = x.op("i0") * (-x).exp()
    far = polynomial(0.125 / x, (37.5, 4.5, 1.0, 1.0)) * x.rsqrt() * (2 * math.pi) ** -0.5
    return where(x > 60, far, near)


@cache
def _i1_series(terms: int = 26) -> tuple[float, ...]:
    """Coefficients of I1(x) / (x / 2) in powers of (x / 2)^2, the highest first (AS 9.6.10); below x = 9 the
    relative error is below 1e-8."""
    return tuple(1 / (math.factorial(k) * math.factorial(k + 1)) for k in reversed(range(terms)))


@cache
def _i1_asymptotic(terms: int = 9) -> tuple[float, ...]:
    """Coefficients of I1(x) exp(-x) sqrt(2 pi x) in powers of 1 / x, the highest first (AS 9.7.1)."""
    ratios = (Fraction((2 * k - 1) ** 2 - 4, 8 * k) for k in range(1, terms))
    found = accumulate(ratios, Fraction.__mul__, initial=Fraction(1))
    return tuple(map(float, found))[::-1]


def i1e(x: Value) -> Value:
    """exp(-|x|) I1(x), with a relative error below 2e-7."""
    size = abs(x)
    half = size * 0.5
    inside = half.minimum(4.5)
    near = polynomial(inside * inside, _i1_series()) * half * (-size).exp()
    beyond = size.maximum(9.0)
    far = polynomial(1.0 / beyond, _i1_asymptotic()) * (beyond.rsqrt() * (2 * math.pi) ** -0.5)
    made = where(x.isnan(), x, where(size > 9.0, far, near))
    return where(x < 0, -made, made)


def precise_i1(x: Value) -> Value:
    """I1(x) by ``i1e``, whose error is less than that of ``i1``. The exponential is applied as two factors
    exp(|x| / 2), so that the product overflows only where I1 does."""
    root = (abs(x) * 0.5).exp()
    return i1e(x) * root * root


def spherical_j0(x: Value) -> Value:
    """Spherical Bessel function of the first kind, order 0: sin(x) / x."""
    return where(x.isinf(), 0.0, where(x.equal(0), 1.0, x.sin() / x))


def sinc(x: Value) -> Value:
    """sin(pi x) / (pi x), 1 at 0."""
    angle = x * math.pi
    return where(x.equal(0), 1.0, angle.sin() / angle)


def xlog(op: str, a: Value, b: Value) -> Value:
    """a times the logarithm ("log" or "log1p") of b. It is 0 if a is 0 and b is not NaN."""
    return where(a.not_equal(0) | b.isnan(), a * b.op(op), 0.0)


def entropy(x: Value) -> Value:
    """-x log(x); 0 at 0, and -inf below 0."""
    return where(x < 0, -math.inf, where(x.equal(0), 0.0, -(x * x.log())))


def logit(x: Value, eps: float | None = None) -> Value:
    """log(x / (1 - x)), with x first clipped to the range from eps to 1 - eps."""
    x = x if eps is None else x.clip(min=float(eps), max=float(1 - eps))
    return (x / (1.0 - x)).log()


def to_the(x: Value, exponent: int) -> Value:
    """x to an integer power of 1 or more, as a product."""
    return reduce(lambda made, _: made * x, range(exponent - 1), x)


_STEPS = 10  # number of terms that are summed before the formula
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240)  # coefficients of the Euler-Maclaurin formula


def polygamma(x: Value, k: int) -> Value:
    """The k-th derivative of digamma, k >= 0: (-1)^(k+1) k! times the sum over j of (x + j)^-(k+1). Beyond
    _STEPS terms the sum is computed by the Euler-Maclaurin formula."""
    if not k:
        return x.op("digamma")
    s = int(k) + 1
    total = to_the(x + 0.0, s).reciprocal()
    for j in range(1, _STEPS):
        total = total + to_the(x + float(j), s).reciprocal()
    z = x + float(_STEPS)
    power = to_the(z, s).reciprocal()  # z^-s
    rest = power * z * (1 / (s - 1)) + power * 0.5
    factor, step = float(s), power / z
    for at, number in enumerate(_BERNOULLI):
        rest = rest + step * (factor * number)
        factor *= (s + 2 * at + 1) * (s + 2 * at + 2)
        step = step / (z * z)
    sign = 1 if s % 2 == 0 else -1
    return (total + rest) * float(sign * math.factorial(s - 1))


_SHIFT = 8  # number of terms that are summed before the formula
_B = (Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30))  # Bernoulli numbers 2, 4, 6, 8


def hurwitz_zeta(n: int, x: Value) -> Value:
    """zeta(n + 1, x) for n >= 1, x >= 0.5: the sum of the first terms, and the Euler-Maclaurin formula for
    the rest (AS 23.1.30)."""
    total: Value = _powers(1.0 / (x + 0), n + 1)[n]
    for k in range(1, _SHIFT):
        total = total + _powers(1.0 / (x + k), n + 1)[n]
    powers = _powers(1.0 / (x + _SHIFT), n + 2 * len(_B))
    rising = Fraction(n + 1, 2)  # (n + 1) ... (n + 2 j - 1) / (2 j)!
    parts = [(n, Fraction(1, n)), (n + 1, Fraction(1, 2))]
    for j, number in enumerate(_B, 1):
        if j > 1:
            rising *= Fraction((n + 2 * j - 2) * (n + 2 * j - 1), 2 * j * (2 * j - 1))
        parts.append((n + 2 * j, number * rising))
    for power, factor in parts:
        total = total + powers[power - 1] * float(factor)
    return total


def _powers(x: Value, most: int) -> list[Value]:
    """[x, x^2, ..., x^most]"""
    return list(accumulate([x] * most, lambda made, _: made * x))


@cache
def _cotangent(n: int) -> tuple[int, ...]:
    """Coefficients of the n-th derivative of cot(u) as a polynomial of cot(u), the highest power first."""
    found = [0, 1]  # item n is the coefficient of cot(u)^n
    for _ in range(n):
        slope = [power * found[power] for power in range(1, len(found))]
        found = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return tuple(reversed(found))


def reflected_polygamma(n: int, x: Value) -> Value:
    """The n-th derivative psi_n of digamma at any x. Below 0.5 it follows from the reflection formula (-1)^n
    psi_n(1 - x) - psi_n(x) = pi d^n/dx^n cot(pi x) (AS 6.4.7)."""
    if n == 0:
        return x.op("digamma")
    left = x < 0.5
    of_right = (-1) ** (n + 1) * math.factorial(n)
    made = hurwitz_zeta(n, where(left, 1.0 - x, x)) * float(of_right)
    rest = x - x.round()
    cotangent = 1.0 / (rest * math.pi).op("tan")
    bent = polynomial(cotangent, tuple(math.pi ** (n + 1) * c for c in _cotangent(n)))
    reflected = made * float((-1) ** n) - bent
    pole = math.copysign(math.inf, of_right)
    return where(left, where(rest.equal(0), pole, reflected), made)


ORDER_4 = (0.5, 1.0, 1.5)  # j / 2 for j = 1, 2, 3


def multigammaln(x: Value) -> Value:
    """The logarithm of the multivariate gamma function of dimension 4."""
    total = x.op("lgamma")
    for shift in ORDER_4:
        total = total + (x - shift).op("lgamma")
    return total + 3 * math.log(math.pi)


# M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011): coefficients in powers of w - 2.5
# for w = -log(1 - x^2) < 5, and in powers of sqrt(w) - 3 for larger w
_CENTRE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def giles(x: V, w: V) -> V:
    """The inverse of erf by Giles' polynomials, with a relative error of 1e-6; ``w``: -log(1 - x^2)."""
    return where(w < 5.0, polynomial(w - 2.5, _CENTRE), polynomial(w.sqrt() - 3.0, _TAIL)) * x


def erfinv(x: Value, inside: Value | None = None) -> Value:
    """The inverse of erf by Giles' polynomials, followed by one Newton step where erf is not flat.
    ``inside``: 1 - x^2, if the caller can compute it more exactly."""
    inside = (1.0 - x) * (x + 1.0) if inside is None else inside
    w = -inside.log()
    made = giles(x, w)
    better = made - (made.erf() - x) * (made * made).exp() * (math.sqrt(math.pi) / 2)
    made = where(w < 5.0, better, made)
    return where(inside.equal(0.0), x * math.inf, made)


def ndtri(p: Value) -> Value:
    """The quantile of the normal distribution: sqrt(2) erfinv(2 p - 1). 1 - (2 p - 1)^2 is computed from p,
    which has more digits near 0."""
    made = erfinv(p * 2.0 - 1.0, p * (1.0 - p) * 4.0) * math.sqrt(2)
    return where((p < 1e-7) & (p > 0), _quantile_of_tail(p), made)


def _quantile_of_tail(p: Value) -> Value:
    """-x for p below 1e-7, where x^2 = -2 log(p sqrt(2 pi) x / (1 - 1/x^2 + 3/x^4 - ..)) (AS 26.2.12)."""
    twice = p.log() * -2.0 - math.log(2 * math.pi)
    square = twice
    for _ in range(5):
        series = polynomial(1.0 / square, (105.0, -15.0, 3.0, -1.0, 1.0)).log()
        square = twice + (series * 2.0 - square.log())
    return -square.sqrt()


_A = 0.147  # the constant of Winitzki's formula


def erfinv_winitzki(x: V, inside: V, steps: int = 0) -> V:
    """Inverse of erf by a closed form whose error is below 0.002 (S. Winitzki, "A handy approximation for the
    error function and its inverse", 2008), followed by ``steps`` Newton steps; ``inside``: 1 - x^2."""
    log = inside.log()
    half = log * 0.5 + 2 / (math.pi * _A)
    start = x.sign() * ((half * half - log * (1 / _A)).sqrt() - half).sqrt()
    if not steps:
        return start
    y = start
    for _ in range(steps):
        y = y - (y.erf() - x) / ((-(y * y)).exp() * (2 / math.sqrt(math.pi)))
    y = where(abs(x) >= 1.0, start, y)
    return where(abs(x).equal(1.0), x * math.inf, y)
