"""DERIVATIVES: the derivatives of elementwise functions of one tensor."""

from __future__ import annotations

import math

from ....compositions import derivatives as d
from ....compositions import special
from ....compositions.derivatives import Derivative
from ....compositions.names import NAMED
from ....ir.value import Value
from ..elementwise.unary_bodies import erfinv


def _clip(x: Value, min: float = -1.0, max: float = 1.0) -> Value:
    return d.between(float(min), float(max))(x)


def _threshold(x: Value, threshold: float, value: float = 0.0) -> Value:
    return d.above(x, threshold)


def _quotient(x: Value, scalar: float) -> Value:
    return x.full_like(0.0 if not scalar else 1 / float(scalar))


def _turned_quotient(x: Value, scalar: float, rounding_mode: str | None = None) -> Value:
    return x.full_like(0.0) if rounding_mode not in (None, "None") else -float(scalar) / (x * x)


# function -> (its derivative, the registry ops that serve it)
DERIVATIVES: dict[str, tuple[Derivative, str]] = {
    "abs": (lambda x: x.sign(), "sign"),
    "acos": (d.acos, "rsqrt"),
    "asin": (d.asin, "rsqrt"),
    "atan": (d.atan, "reciprocal"),
    "acosh": (d.acosh, "rsqrt"),
    "asinh": (d.asinh, "rsqrt"),
    "atanh": (d.atanh, "reciprocal"),
    "sin": (lambda x: x.cos(), "cos"),
    "cos": (lambda x: x.sin() * -1.0, "sin"),
    "tan": (d.tan, "tan"),
    "sinh": (lambda x: x.op("cosh"), "cosh"),
    "cosh": (lambda x: x.op("sinh"), "sinh"),
    "tanh": (d.tanh, "abs, exp, multiply, add, divide"),
    "sigmoid": (d.sigmoid, "sigmoid"),
    "silu": (d.silu, "sigmoid"),
    "hardsigmoid": (d.between(-3.0, 3.0, 1 / 6), "greater, less, where"),
    "hardswish": (d.hardswish, "where"),
    "hardtanh": (_clip, "greater, less, where"),
    "relu": (lambda x: d.above(x), "greater, where"),
    "relu6": (d.between(0.0, 6.0), "greater, less, where"),
    "leaky_relu": (d.leaky_relu, "greater, where"),
    "elu": (d.elu, "exp, where"),
    "celu": (d.celu, "exp, where"),
    "selu": (d.selu, "exp, where"),
    "softplus": (d.softplus, "sigmoid, where"),
    "softsign": (d.softsign, "abs, reciprocal"),
    "hardshrink": (d.shrink, "abs, greater, where"),
    "softshrink": (d.shrink, "abs, greater, where"),
    "threshold": (_threshold, "greater, where"),
    "clamp": (d.clamp, "greater_equal, less_equal, where"),
    "clip": (d.clamp, "greater_equal, less_equal, where"),
    "exp": (lambda x: x.exp(), "exp"),
    "exp2": (lambda x: x.op("exp2") * math.log(2), "exp2"),
    "expm1": (lambda x: x.exp(), "exp"),
    "log": (lambda x: x.reciprocal(), "reciprocal"),
    "log2": (lambda x: x.reciprocal() * (1 / math.log(2)), "reciprocal"),
    "log10": (lambda x: x.reciprocal() * (1 / math.log(10)), "reciprocal"),
    "log1p": (lambda x: (x + 1.0).reciprocal(), "reciprocal"),
    "sqrt": (lambda x: x.rsqrt() * 0.5, "rsqrt"),
    "rsqrt": (d.rsqrt, "rsqrt"),
    "square": (lambda x: x * 2.0, "multiply"),
    "reciprocal": (d.reciprocal, "divide"),
    "neg": (d.constant(-1.0), "multiply"),
    "pow": (d.pow, "power"),
    "rpow": (lambda x, exponent: d.rpow(x, exponent), "power"),
    "erf": (d.erf, "exp"),
    "erfc": (lambda x: -d.erf(x), "exp"),
    "erfinv": (lambda x: d.erfinv_of(erfinv(x)), "erf, log, sqrt, exp"),
    "gelu": (d.gelu, "erf, exp, tanh"),
    "i0": (special.i1, "multiply, add, exp, where"),
    "lgamma": (lambda x: x.op("digamma"), "digamma"),
    "digamma": (lambda x: special.polygamma(x, 1), "reciprocal, multiply, add"),
    "polygamma": (d.polygamma, "reciprocal, multiply, add"),
    "multigammaln": (d.multigammaln, "digamma"),
    "logit": (lambda x: d.logit(x), "reciprocal, where"),
    "logiteps": (lambda x, eps=0.0: d.logit(x, eps, 0.0), "reciprocal, where"),
    "deg2rad": (d.constant(math.pi / 180), "multiply"),
    "rad2deg": (d.constant(180 / math.pi), "multiply"),
    "frac": (d.constant(1.0), "multiply"),
    "div_no_nan": (_quotient, "multiply"),
    "rdiv": (_turned_quotient, "divide"),
    **{
        name: (d.constant(0.0), "multiply")
        for name in ("floor", "ceil", "round", "trunc", "sign", "fill_zero", "fill")
    },
    **{row.ttnn: (row.derivative, row.ops) for row in NAMED if row.ttnn and row.derivative},
}
