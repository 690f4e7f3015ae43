"""Derivatives of elementwise functions of one tensor, by the usual formulas: DERIVATIVES."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ..elementwise.special import filled as _one
from ..elementwise.special import i1, polygamma, to_the
from ..elementwise.unary_bodies import COMPOSED
from ..wide import Wide

Slope = Callable[..., Handle]

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_ROOT_PI = math.sqrt(math.pi)


def _times(factor: float, op: str) -> Slope:
    return lambda w, x: w("multiply", w(op, x), factor)


def _constant(value: float) -> Slope:
    return lambda w, x, *_, **__: _one(w, x, value)


def _one_minus_square(w: Wide, y: Handle) -> Handle:
    return w("subtract", 1.0, w("multiply", y, y))


def _square_plus(w: Wide, x: Handle, more: float) -> Handle:
    return w("add", w("multiply", x, x), more)


def _where(w: Wide, condition: Handle, a: Any = 1.0, b: Any = 0.0) -> Handle:
    return w.select(condition, a, b)


def _between(low: float, high: float, inside: float = 1.0) -> Slope:
    def slope(w: Wide, x: Handle) -> Handle:
        both = w("logical_and", w("greater", x, low), w("less", x, high))
        return _where(w, both, inside)

    return slope


def _sigmoid(w: Wide, x: Handle) -> Handle:
    y = w("sigmoid", x)
    return w("multiply", y, w("subtract", 1.0, y))


def _sech_square(w: Wide, x: Handle) -> Handle:
    """1 - tanh^2, of which nothing is left for a large x: 4 e / (1 + e)^2, e = exp(-2 |x|)."""
    small = w("exp", w("multiply", w("abs", x), -2.0))
    below = w("add", small, 1.0)
    return w("divide", w("multiply", small, 4.0), w("multiply", below, below))


def _silu(w: Wide, x: Handle) -> Handle:
    y = w("sigmoid", x)
    return w("multiply", y, w("add", w("multiply", x, w("subtract", 1.0, y)), 1.0))


def _hardswish(w: Wide, x: Handle) -> Handle:
    middle = w("add", w("multiply", x, 1 / 3), 0.5)
    middle = _where(w, w("less", x, -3.0), 0.0, middle)
    return _where(w, w("greater", x, 3.0), 1.0, middle)


def _hardtanh(w: Wide, x: Handle, min: float = -1.0, max: float = 1.0) -> Handle:
    return _between(float(min), float(max))(w, x)


def _leaky(w: Wide, x: Handle, negative_slope: float = 0.01) -> Handle:
    return _where(w, w("greater", x, 0.0), 1.0, float(negative_slope))


def _elu(w: Wide, x: Handle, alpha: float = 1.0) -> Handle:
    return _where(w, w("greater", x, 0.0), 1.0, w("multiply", w("exp", x), float(alpha)))


def _celu(w: Wide, x: Handle, alpha: float = 1.0) -> Handle:
    return _where(w, w("greater", x, 0.0), 1.0, w("exp", w("multiply", x, 1 / float(alpha))))


def _selu(w: Wide, x: Handle) -> Handle:
    return w("multiply", _elu(w, x, _SELU_ALPHA), _SELU_SCALE)


def _softplus(w: Wide, x: Handle, beta: float = 1.0, threshold: float = 20.0) -> Handle:
    scaled = w("multiply", x, float(beta))
    return _where(w, w("greater", scaled, float(threshold)), 1.0, w("sigmoid", scaled))


def _softsign(w: Wide, x: Handle) -> Handle:
    size = w("add", w("abs", x), 1.0)
    return w("reciprocal", w("multiply", size, size))


def _shrunk(w: Wide, x: Handle, lambd: float = 0.5) -> Handle:
    return _where(w, w("greater", w("abs", x), float(lambd)))


def _threshold(w: Wide, x: Handle, threshold: float, value: float = 0.0) -> Handle:
    return _where(w, w("greater", x, float(threshold)))


def _clamped(w: Wide, x: Handle, min: float | None = None, max: float | None = None) -> Handle:
    made = _one(w, x)
    for op, bound in (("greater_equal", min), ("less_equal", max)):
        if bound is not None:
            made = _where(w, w(op, x, float(bound)), made, 0.0)
    return made


def _power(w: Wide, x: Handle, exponent: float) -> Handle:
    if not exponent:
        return _one(w, x, 0.0)
    return w("multiply", w("power", x, float(exponent - 1)), float(exponent))


def _rpow(w: Wide, x: Handle, exponent: float) -> Handle:
    return w("multiply", w("power", float(exponent), x), math.log(exponent) if exponent > 0 else math.nan)


def _gauss(w: Wide, x: Handle) -> Handle:
    return w("multiply", w("exp", w("negative", w("multiply", x, x))), 2 / _ROOT_PI)


def _erfinv(w: Wide, x: Handle) -> Handle:
    y = COMPOSED["erfinv"][0](w, x)
    return w("multiply", w("exp", w("multiply", y, y)), _ROOT_PI / 2)


def gelu_slope(w: Wide, x: Handle, approximate: str = "none") -> Handle:
    """Of x times the normal distribution up to x, or of its approximation by tanh."""
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi)
        square = w("multiply", x, x)
        y = w("tanh", w("multiply", w("multiply", x, w("add", w("multiply", square, 0.044715), 1.0)), inner))
        rise = w("multiply", w("add", w("multiply", square, 3 * 0.044715), 1.0), inner)
        second = w("multiply", w("multiply", x, _one_minus_square(w, y)), rise)
        return w("multiply", w("add", w("add", y, 1.0), second), 0.5)
    below = w("multiply", w("add", w("erf", w("multiply", x, math.sqrt(0.5))), 1.0), 0.5)
    density = w("multiply", w("exp", w("multiply", w("multiply", x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return w("add", below, w("multiply", x, density))


def _multigammaln(w: Wide, x: Handle) -> Handle:
    total = w("digamma", x)
    for shift in (0.5, 1.0, 1.5):
        total = w("add", total, w("digamma", w("subtract", x, shift)))
    return total


def _logit(w: Wide, x: Handle) -> Handle:
    slope = w("reciprocal", w("multiply", x, w("subtract", 1.0, x)))
    inside = w("logical_and", w("greater_equal", x, 0.0), w("less_equal", x, 1.0))
    return _where(w, inside, slope, math.nan)


def _logiteps(w: Wide, x: Handle, eps: float = 0.0) -> Handle:
    slope = w("reciprocal", w("multiply", x, w("subtract", 1.0, x)))
    inside = w("logical_and", w("greater_equal", x, float(eps)), w("less_equal", x, 1.0 - float(eps)))
    return _where(w, inside, slope)


def _scaled(w: Wide, x: Handle, scalar: float) -> Handle:
    return _one(w, x, 0.0 if not scalar else 1 / float(scalar))


def _rdiv(w: Wide, x: Handle, scalar: float, rounding_mode: str | None = None) -> Handle:
    if rounding_mode not in (None, "None"):
        return _one(w, x, 0.0)
    return w("divide", -float(scalar), w("multiply", x, x))


# name of the function -> (its derivative, the ops of the registry that serve it)
DERIVATIVES: dict[str, tuple[Slope, str]] = {
    "abs": (lambda w, x: w("sign", x), "sign"),
    "acos": (lambda w, x: w("negative", w("rsqrt", _one_minus_square(w, x))), "rsqrt"),
    "asin": (lambda w, x: w("rsqrt", _one_minus_square(w, x)), "rsqrt"),
    "atan": (lambda w, x: w("reciprocal", _square_plus(w, x, 1.0)), "reciprocal"),
    "acosh": (lambda w, x: w("rsqrt", _square_plus(w, x, -1.0)), "rsqrt"),
    "asinh": (lambda w, x: w("rsqrt", _square_plus(w, x, 1.0)), "rsqrt"),
    "atanh": (lambda w, x: w("reciprocal", _one_minus_square(w, x)), "reciprocal"),
    "sin": (lambda w, x: w("cos", x), "cos"),
    "cos": (_times(-1.0, "sin"), "sin"),
    "tan": (lambda w, x: _square_plus(w, w("tan", x), 1.0), "tan"),
    "sinh": (lambda w, x: w("cosh", x), "cosh"),
    "cosh": (lambda w, x: w("sinh", x), "sinh"),
    "tanh": (_sech_square, "abs, exp, multiply, add, divide"),
    "tanhshrink": (lambda w, x: w("square", w("tanh", x)), "tanh"),
    "sigmoid": (_sigmoid, "sigmoid"),
    "silu": (_silu, "sigmoid"),
    "log_sigmoid": (lambda w, x: w("sigmoid", w("negative", x)), "sigmoid"),
    "hardsigmoid": (_between(-3.0, 3.0, 1 / 6), "greater, less, where"),
    "hardswish": (_hardswish, "where"),
    "hardtanh": (_hardtanh, "greater, less, where"),
    "relu": (lambda w, x: _where(w, w("greater", x, 0.0)), "greater, where"),
    "relu6": (_between(0.0, 6.0), "greater, less, where"),
    "leaky_relu": (_leaky, "greater, where"),
    "elu": (_elu, "exp, where"),
    "celu": (_celu, "exp, where"),
    "selu": (_selu, "exp, where"),
    "softplus": (_softplus, "sigmoid, where"),
    "softsign": (_softsign, "abs, reciprocal"),
    "hardshrink": (_shrunk, "abs, greater, where"),
    "softshrink": (_shrunk, "abs, greater, where"),
    "threshold": (_threshold, "greater, where"),
    "clamp": (_clamped, "greater_equal, less_equal, where"),
    "clip": (_clamped, "greater_equal, less_equal, where"),
    "exp": (lambda w, x: w("exp", x), "exp"),
    "exp2": (_times(math.log(2), "exp2"), "exp2"),
    "expm1": (lambda w, x: w("exp", x), "exp"),
    "log": (lambda w, x: w("reciprocal", x), "reciprocal"),
    "log2": (_times(1 / math.log(2), "reciprocal"), "reciprocal"),
    "log10": (_times(1 / math.log(10), "reciprocal"), "reciprocal"),
    "log1p": (lambda w, x: w("reciprocal", w("add", x, 1.0)), "reciprocal"),
    "sqrt": (_times(0.5, "rsqrt"), "rsqrt"),
    "rsqrt": (lambda w, x: w("multiply", to_the(w, w("rsqrt", x), 3), -0.5), "rsqrt"),
    "square": (lambda w, x: w("multiply", x, 2.0), "multiply"),
    "reciprocal": (lambda w, x: w("divide", -1.0, w("multiply", x, x)), "divide"),
    "neg": (_constant(-1.0), "multiply"),
    "pow": (_power, "power"),
    "rpow": (_rpow, "power"),
    "erf": (_gauss, "exp"),
    "erfc": (lambda w, x: w("negative", _gauss(w, x)), "exp"),
    "erfinv": (_erfinv, "erf, log, sqrt, exp"),
    "gelu": (gelu_slope, "erf, exp, tanh"),
    "i0": (i1, "multiply, add, exp, where"),
    "lgamma": (lambda w, x: w("digamma", x), "digamma"),
    "digamma": (lambda w, x: polygamma(w, x, 1), "reciprocal, multiply, add"),
    "polygamma": (lambda w, x, n: polygamma(w, x, int(n) + 1), "reciprocal, multiply, add"),
    "multigammaln": (_multigammaln, "digamma"),
    "logit": (_logit, "reciprocal, where"),
    "logiteps": (_logiteps, "reciprocal, where"),
    "deg2rad": (_constant(math.pi / 180), "multiply"),
    "rad2deg": (_constant(180 / math.pi), "multiply"),
    "frac": (_constant(1.0), "multiply"),
    "div_no_nan": (_scaled, "multiply"),
    "rdiv": (_rdiv, "divide"),
    **{
        name: (_constant(0.0), "multiply")
        for name in ("floor", "ceil", "round", "trunc", "sign", "fill_zero", "fill")
    },
}
