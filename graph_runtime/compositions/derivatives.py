"""Derivatives of elementwise functions at x, named for the function; a derivative NAME_of takes the
function's result ``y`` instead.

    grad * derivatives.gelu(x)

Formulas are the usual ones (NIST DLMF, chapters 4, 5, 7 and 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.value import Value, where
from . import special

Derivative = Callable[..., Value]
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_ROOT_PI = math.sqrt(math.pi)


def constant(value: float) -> Derivative:
    """A derivative that is the same everywhere."""
    return lambda x, *_, **__: x.full_like(value)


def _either(condition: Value, like: Value, inside: float = 1.0, outside: float = 0.0) -> Value:
    return where(condition, like.scalar(inside), outside)


def between(low: float, high: float, inside: float = 1.0) -> Derivative:
    """The derivative of a function that is a line of slope ``inside`` from ``low`` to ``high``, and constant
    outside."""
    return lambda x: _either((x > low) & (x < high), x, inside)


# **************** from the function's result ****************


def tanh_of(y: Value) -> Value:
    """Derivative of tanh, from y = tanh(x)."""
    return 1.0 - y * y


def sigmoid_of(y: Value) -> Value:
    """Derivative of sigmoid, from y = sigmoid(x)."""
    return y * (1.0 - y)


def erfinv_of(y: Value) -> Value:
    """Derivative of erfinv, from y = erfinv(x)."""
    return (y * y).exp() * (_ROOT_PI / 2)


# **************** trigonometric ****************


def asin(x: Value) -> Value:
    return tanh_of(x).rsqrt()


def acos(x: Value) -> Value:
    return -asin(x)


def atan(x: Value) -> Value:
    return (x * x + 1.0).reciprocal()


def acosh(x: Value) -> Value:
    return (x * x + -1.0).rsqrt()


def asinh(x: Value) -> Value:
    return (x * x + 1.0).rsqrt()


def atanh(x: Value) -> Value:
    return tanh_of(x).reciprocal()


def tan(x: Value) -> Value:
    y = x.op("tan")
    return y * y + 1.0


def tanh(x: Value) -> Value:
    """1 - tanh(x)^2, computed without cancellation at large x as 4 e / (1 + e)^2, e = exp(-2 |x|)."""
    small = (abs(x) * -2.0).exp()
    below = small + 1.0
    return small * 4.0 / (below * below)


# **************** activations ****************


def sigmoid(x: Value) -> Value:
    return sigmoid_of(x.sigmoid())


def log_sigmoid(x: Value) -> Value:
    return (-x).sigmoid()


def tanhshrink(x: Value) -> Value:
    return x.tanh().square()


def silu(x: Value) -> Value:
    y = x.sigmoid()
    return y * (x * (1.0 - y) + 1.0)


def hardswish(x: Value) -> Value:
    middle = where(x < -3.0, 0.0, x * (1 / 3) + 0.5)
    return where(x > 3.0, 1.0, middle)


def leaky_relu(x: Value, negative_slope: float = 0.01) -> Value:
    return _either(x > 0.0, x, outside=float(negative_slope))


def elu(x: Value, alpha: float = 1.0) -> Value:
    return where(x > 0.0, 1.0, x.exp() * float(alpha))


def celu(x: Value, alpha: float = 1.0) -> Value:
    return where(x > 0.0, 1.0, (x * (1 / float(alpha))).exp())


def selu(x: Value) -> Value:
    return elu(x, SELU_ALPHA) * SELU_SCALE


def softplus(x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    scaled = x * float(beta)
    return where(scaled > float(threshold), 1.0, scaled.sigmoid())


def softsign(x: Value) -> Value:
    size = abs(x) + 1.0
    return (size * size).reciprocal()


def shrink(x: Value, lambd: float = 0.5) -> Value:
    """Derivative of hardshrink and of softshrink."""
    return _either(abs(x) > float(lambd), x)


def above(x: Value, threshold: float = 0.0) -> Value:
    """Derivative of relu and of threshold."""
    return _either(x > float(threshold), x)


def clamp(x: Value, min: float | None = None, max: float | None = None) -> Value:
    made = x.full_like(1.0)
    if min is not None:
        made = where(x >= float(min), made, 0.0)
    return made if max is None else where(x <= float(max), made, 0.0)


def gelu(x: Value, approximate: str = "none", rooted_first: bool = False) -> Value:
    """Derivative of gelu(x) = x P(x), where P is the normal distribution function or its approximation by
    tanh. ``rooted_first``: whether to round the approximation as torch does, which first multiplies x by
    sqrt(2 / pi), and halves both terms."""
    if approximate == "tanh":
        root, square = math.sqrt(2 / math.pi), x * x
        rest = square * 0.044715 + 1.0
        y = (x * root * rest if rooted_first else x * rest * root).tanh()
        rise = (square * (3 * 0.044715) + 1.0) * root
        if rooted_first:
            return (y + 1.0) * 0.5 + x * 0.5 * tanh_of(y) * rise
        return (y + 1.0 + x * tanh_of(y) * rise) * 0.5
    below = ((x * math.sqrt(0.5)).erf() + 1.0) * 0.5
    density = (x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    return below + x * density


# **************** powers and logarithms ****************


def pow(x: Value, exponent: float) -> Value:
    return x ** float(exponent - 1) * float(exponent) if exponent else x.full_like(0.0)


def rpow(x: Value, base: float) -> Value:
    """Derivative of base^x."""
    return float(base) ** x * (math.log(base) if base > 0 else math.nan)


def rsqrt(x: Value) -> Value:
    return special.to_the(x.rsqrt(), 3) * -0.5


def reciprocal(x: Value) -> Value:
    return -1.0 / (x * x)


def logit(x: Value, eps: float = 0.0, outside: float = math.nan) -> Value:
    """Derivative of logit; ``outside``: its value below eps and above 1 - eps."""
    slope = (x * (1.0 - x)).reciprocal()
    return where((x >= float(eps)) & (x <= 1.0 - float(eps)), slope, outside)


# **************** special functions ****************


def erf(x: Value) -> Value:
    return (-(x * x)).exp() * (2 / _ROOT_PI)


def erfinv(x: Value) -> Value:
    return erfinv_of(special.erfinv(x))


def multigammaln(x: Value) -> Value:
    total = x.op("digamma")
    for shift in special.ORDER_4:
        total = total + (x - shift).op("digamma")
    return total


def polygamma(x: Value, n: int) -> Value:
    return special.polygamma(x, int(n) + 1)
