"""Special functions that no kernel has: i1, polygamma."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....run.tensors.tensor import Tensor as Handle
from ..wide import Wide


def filled(w: Wide, x: Handle, value: float = 1.0) -> Handle:
    """A number, as many times as x has elements."""
    return w("broadcast_to", w.number(value), shape=x.shape)


# Abramowitz and Stegun, 9.8.3 and 9.8.4: I1(x) / x for |x| <= 3.75, and sqrt(x) exp(-x) I1(x) beyond
_I1_NEAR = (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411)
_I1_FAR = (
    0.39894228,
    -0.03988024,
    -0.00362018,
    0.00163801,
    -0.01031555,
    0.02282967,
    -0.02895312,
    0.01787654,
    -0.00420059,
)


def _polynomial(w: Wide, x: Handle, coefficients: Sequence[float]) -> Handle:
    made = filled(w, x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        made = w("add", w("multiply", made, x), coefficient)
    return made


def i1(w: Wide, x: Handle) -> Handle:
    """The modified Bessel function of the first kind, order 1; its relative error is below 1e-6."""
    size = w("abs", x)
    near = w("multiply", w("clip", size, max=3.75), 1 / 3.75)
    near = w("multiply", _polynomial(w, w("multiply", near, near), _I1_NEAR), x)
    beyond = w("clip", size, min=3.75)
    far = _polynomial(w, w("divide", 3.75, beyond), _I1_FAR)
    far = w("multiply", far, w("divide", w("exp", beyond), w("sqrt", beyond)))
    return w.select(w("less_equal", size, 3.75), near, w("multiply", far, w("sign", x)))


def to_the(w: Wide, x: Handle, exponent: int) -> Handle:
    """x to a power, 1 or more."""
    made = x
    for _ in range(exponent - 1):
        made = w("multiply", made, x)
    return made


_STEPS = 10  # terms that are summed as they are
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240)  # of the Euler-Maclaurin formula


def polygamma(w: Wide, x: Handle, k: int) -> Handle:
    """The k-th derivative of digamma, k >= 1: (-1)^(k+1) k! times the sum of (x + j)^-(k+1) over j, whose
    rest beyond _STEPS terms is Euler's and Maclaurin's."""
    s = int(k) + 1
    total = None
    for j in range(_STEPS):
        term = w("reciprocal", to_the(w, w("add", x, float(j)), s))
        total = term if total is None else w("add", total, term)
    z = w("add", x, float(_STEPS))
    power = w("reciprocal", to_the(w, z, s))  # z^-s
    rest = w("add", w("multiply", w("multiply", power, z), 1 / (s - 1)), w("multiply", power, 0.5))
    factor, step = float(s), w("divide", power, z)
    for at, number in enumerate(_BERNOULLI):
        rest = w("add", rest, w("multiply", step, factor * number))
        factor *= (s + 2 * at + 1) * (s + 2 * at + 2)
        step = w("divide", step, w("multiply", z, z))
    sign = 1 if s % 2 == 0 else -1
    return w("multiply", w("add", total, rest), float(sign * math.factorial(s - 1)))
