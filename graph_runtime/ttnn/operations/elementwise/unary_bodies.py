"""COMPOSED: the bodies of the elementwise functions of one tensor that are made of several ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....compositions import special
from ....compositions.names import NAMED
from ....ir.value import Value, where
from ...devices.wide_value import WideValue
from ...memory.enums import GeluVariant

Body = Callable[..., Any]


def _compared(op: str) -> Body:
    """A comparison with 0; an unsigned tensor is compared as unsigned numbers."""

    def body(x: WideValue) -> WideValue:
        if x.dtype == "float32":
            return x.op(op, 0.0)
        return x.ordered().op(op, x.scalar(0).ordered())

    return body


def _signbit(x: WideValue) -> WideValue:
    if x.dtype == "float32":
        x = x.wide().reinterpret("int32")
    return x.int32() < 0


def _op(op: str, **attrs: Any) -> Body:
    return lambda x: x.op(op, **attrs)


def _isinf(positive: bool, negative: bool) -> Body:
    return _op("isinf", detect_positive=positive, detect_negative=negative)


def _shrink(moved: bool) -> Body:
    return lambda x, lambd=0.5: x.op("shrink", lambd=float(lambd), bias=float(lambd) * moved)


def _round(x: WideValue, decimals: int | None = 0) -> WideValue:
    if not decimals:
        return x.round()
    scale = 10.0**decimals
    return (x * scale).round() / scale


def _heaviside(x: WideValue, value: float) -> WideValue:
    return where(x.equal(0.0), float(value), (x > 0.0).cast("float32"))


def _gelu(x: WideValue, variant: GeluVariant = GeluVariant.Accurate, **_: Any) -> WideValue:
    return x.op("gelu", approximate="tanh" if variant is GeluVariant.Tanh else "none")


def _logit(x: WideValue, eps: float | None = None) -> WideValue:
    if eps is not None:
        low, high = float(eps), 1.0 - float(eps)
        x = where(x < low, low, x.clip(max=high))
    return (x / (1.0 - x)).log()


def erfinv(x: Value) -> Value:
    return special.erfinv_winitzki(x, 1.0 - x * x, steps=2)


def _polyval(x: WideValue, coeffs: Any) -> WideValue:
    x = x.cast("float32")
    made = x * 0.0 + float(coeffs[0])
    for coefficient in coeffs[1:]:
        made = made * x + float(coefficient)
    return made


def _fill(x: WideValue, fill_value: float) -> WideValue:
    return x.scalar(fill_value).run("broadcast_to", shape=x.shape)


def _xielu(x: WideValue, alpha_p: float = 0.8, alpha_n: float = 0.8) -> WideValue:
    """alpha_p x^2 + x / 2 where x is above 0, else alpha_n (expm1(min(x, -1e-6)) - x) + x / 2; that is xIELU
    with beta 0.5 and eps -1e-6."""
    half = x * 0.5
    above = x * x * float(alpha_p) + half
    below = x.clip(max=-1e-6).op("expm1") - x
    below = below * float(alpha_n) + half
    return where(x > 0.0, above, below)


def _softplus(x: WideValue, *, beta: float = 1.0, threshold: float = 20.0) -> WideValue:
    scaled = x if beta == 1 else x * float(beta)
    made = scaled.op("softplus")
    made = made if beta == 1 else made / float(beta)
    return where(scaled > float(threshold), x.wide(), made)


def _threshold(x: WideValue, threshold: float, value: float) -> WideValue:
    return where(x > float(threshold), x.wide(), float(value))


def _bounded(side: str) -> Body:
    def body(x: WideValue, limit: float | None = None, **given: Any) -> WideValue:
        bound = float(
            limit if limit is not None else given["upper_limit" if side == "max" else "lower_limit"]
        )
        if x.dtype != "float32":
            x = x.int32().op("minimum" if side == "max" else "maximum", int(bound))
            return x.op("relu") if side == "max" else x
        if side == "max":
            return x.clip(max=bound).op("relu")
        return x.clip(min=bound)

    return body


def _relu6(x: WideValue) -> WideValue:
    if x.dtype == "float32":
        return x.clip(min=0.0, max=6.0)
    least, most = (x.scalar(bound).ordered() for bound in (0, 6))
    made = x.ordered().maximum(least).minimum(most)
    return made.reinterpret("uint32").flip() if x.dtype == "uint32" else made


def _hardtanh(x: WideValue, min_val: float = -1.0, max_val: float = 1.0) -> WideValue:
    return x.clip(min=float(min_val), max=float(max_val))


# functions in COMPOSED that also take integers
OF_INTEGERS = frozenset(
    "eqz nez gtz gez ltz lez logical_not bitwise_not signbit relu_max relu_min relu6 fill identity "
    "polyval".split()
)

# name -> (body, the registry ops that serve it, its formula)
COMPOSED: dict[str, tuple[Body, str, str]] = {
    "eqz": (_compared("equal"), "equal", "1 where x is 0, else 0"),
    "nez": (_compared("not_equal"), "not_equal", "1 where x is not 0, else 0"),
    "gtz": (_compared("greater"), "greater", "1 where x is above 0, else 0"),
    "gez": (_compared("greater_equal"), "greater_equal", "1 where x is 0 or above, else 0"),
    "ltz": (_compared("less"), "less", "1 where x is below 0, else 0"),
    "lez": (_compared("less_equal"), "less_equal", "1 where x is 0 or below, else 0"),
    "logical_not": (lambda x: ~x.true(), "not_equal, logical_not", "1 where x is 0, else 0"),
    "bitwise_not": (
        lambda x: x.run("bitwise_not", to=x.handle.layout),
        "bitwise_not",
        "all bits inverted",
    ),
    "signbit": (_signbit, "less", "1 where the sign bit is set, else 0"),
    "isfinite": (lambda x: abs(x) < math.inf, "abs, less", "1 where x is finite"),
    "isnan": (lambda x: x.isnan(), "isnan", "1 where x is NaN"),
    "isinf": (_isinf(True, True), "isinf", "1 where x is infinite"),
    "isposinf": (_isinf(True, False), "isinf", "1 where x is infinity"),
    "isneginf": (_isinf(False, True), "isinf", "1 where x is minus infinity"),
    "relu6": (_relu6, "clip, maximum, minimum", "min(max(x, 0), 6)"),
    "relu_max": (_bounded("max"), "clip, relu", "max(min(x, upper_limit), 0)"),
    "relu_min": (_bounded("min"), "clip", "max(x, lower_limit)"),
    "hardtanh": (_hardtanh, "clip", "min(max(x, min_val), max_val)"),
    "hardsigmoid": (
        _op("hard_sigmoid", alpha=1 / 6, beta=0.5),
        "hard_sigmoid",
        "max(0, min(1, x / 6 + 1/2))",
    ),
    "hardshrink": (_shrink(False), "shrink", "x where |x| is above lambd, else 0"),
    "softshrink": (_shrink(True), "shrink", "x moved towards 0 by lambd, at most to 0"),
    "gelu": (_gelu, "gelu", "Gaussian error linear unit, by erf, or by tanh if ``variant`` says so"),
    "sigmoid": (lambda x, **_: x.sigmoid(), "sigmoid", "1 / (1 + exp(-x))"),
    "sigmoid_accurate": (lambda x, **_: x.sigmoid(), "sigmoid", "1 / (1 + exp(-x))"),
    "softplus": (_softplus, "softplus", "log(1 + exp(beta x)) / beta, but x where beta x is above threshold"),
    "heaviside": (
        _heaviside,
        "equal, greater, where",
        "0 where x is below 0, 1 where it is above, value where it is 0",
    ),
    "threshold": (_threshold, "greater, where", "x where it is above threshold, else value"),
    "logit": (_logit, "divide, log", "log(x / (1 - x)), with x limited to eps .. 1 - eps"),
    "multigammaln": (
        special.multigammaln,
        "lgamma, add",
        "logarithm of the multivariate gamma function of order 4",
    ),
    "i1": (special.i1, "multiply, add, exp, where", "modified Bessel function of order 1"),
    "polygamma": (special.polygamma, "reciprocal, multiply, add", "the k-th derivative of digamma"),
    "erfinv": (erfinv, "erf, log, sqrt, exp", "inverse of erf"),
    "polyval": (
        _polyval,
        "multiply, add",
        "the polynomial of x with coeffs, that of the highest power first",
    ),
    "round": (_round, "round", "x rounded to decimals, halves to even"),
    "rpow": (lambda x, exponent: float(exponent) ** x, "power", "exponent to the power of x"),
    "fill": (_fill, "broadcast_to", "fill_value everywhere"),
    "xielu": (_xielu, "expm1, multiply", "xIELU, the expanded integral of ELU"),
    "identity": (lambda x: x.copied(), "copy", "the same values"),
    **{row.ttnn: (row.function, row.ops, row.function.__doc__ or "") for row in NAMED if row.ttnn},
}
