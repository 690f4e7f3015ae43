"""Elementwise functions of one tensor that are made of several ops: COMPOSED."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ..wide import Wide
from .special import i1, polygamma

Body = Callable[..., Handle]


def _compared(op: str) -> Body:
    """With zero: of an unsigned tensor by its order."""

    def body(w: Wide, x: Handle) -> Handle:
        if x.dtype == "float32":
            return w(op, x, 0.0)
        return w(op, w.ordered(x), w.ordered(w.number(0, x.dtype)))

    return body


def _signbit(w: Wide, x: Handle) -> Handle:
    if x.dtype == "float32":
        x = kernels.reinterpret(w.wide(x), "int32")
    return w("less", w.int32(x), 0)


def _isinf(positive: bool, negative: bool) -> Body:
    return lambda w, x: w("isinf", x, detect_positive=positive, detect_negative=negative)


def _clip(low: Any, high: Any) -> Body:
    return lambda w, x: w("clip", x, min=low, max=high)


def _round(w: Wide, x: Handle, decimals: int | None = 0) -> Handle:
    if x.dtype != "float32":
        return x
    if not decimals:
        return w("round", x)
    scale = 10.0**decimals
    return w("divide", w("round", w("multiply", x, scale)), scale)


def _heaviside(w: Wide, x: Handle, value: float) -> Handle:
    return w.select(w("equal", x, 0.0), float(value), w.cast(w("greater", x, 0.0), "float32"))


def _logit(w: Wide, x: Handle, eps: float | None = None) -> Handle:
    if eps is not None:
        low, high = float(eps), 1.0 - float(eps)
        x = w.select(w("less", x, low), low, w("clip", x, max=high))
    return w("log", w("divide", x, w("subtract", 1.0, x)))


def _multigammaln(w: Wide, x: Handle) -> Handle:
    """Of order 4: 3 log(pi) + the sum of lgamma(x - j / 2), j = 0 .. 3."""
    total = w("lgamma", x)
    for shift in (0.5, 1.0, 1.5):
        total = w("add", total, w("lgamma", w("subtract", x, shift)))
    return w("add", total, 3 * math.log(math.pi))


def _erfinv(w: Wide, x: Handle) -> Handle:
    """Winitzki's approximation (a = 0.147), then two steps of Newton's."""
    a = 0.147
    log = w("log", w("subtract", 1.0, w("multiply", x, x)))
    half = w("add", w("multiply", log, 0.5), 2 / (math.pi * a))
    root = w("sqrt", w("subtract", w("multiply", half, half), w("multiply", log, 1 / a)))
    y = w("multiply", w("sign", x), w("sqrt", w("subtract", root, half)))
    start = y
    for _ in range(2):
        wrong = w("subtract", w("erf", y), x)
        slope = w("multiply", w("exp", w("negative", w("multiply", y, y))), 2 / math.sqrt(math.pi))
        y = w("subtract", y, w("divide", wrong, slope))
    y = w.select(w("greater_equal", w("abs", x), 1.0), start, y)
    return w.select(w("equal", w("abs", x), 1.0), w("multiply", x, math.inf), y)


def _polygamma(w: Wide, x: Handle, k: int) -> Handle:
    return polygamma(w, x, int(k)) if k else w("digamma", x)


def _polyval(w: Wide, x: Handle, coeffs: Any) -> Handle:
    made = w("add", w("multiply", x, 0.0), float(coeffs[0]))
    for coefficient in coeffs[1:]:
        made = w("add", w("multiply", made, x), float(coefficient))
    return made


def _fill(w: Wide, x: Handle, fill_value: float) -> Handle:
    return kernels.run("broadcast_to", [w.number(fill_value, x.dtype)], {"shape": x.shape})


def _xielu(w: Wide, x: Handle, alpha_p: float = 0.8, alpha_n: float = 0.8) -> Handle:
    """beta 0.5, eps -1e-6: alpha_p x^2 + x / 2 above 0, alpha_n (expm1(min(x, eps)) - x) + x / 2 below."""
    half = w("multiply", x, 0.5)
    above = w("add", w("multiply", w("multiply", x, x), float(alpha_p)), half)
    below = w("subtract", w("expm1", w("clip", x, max=-1e-6)), x)
    below = w("add", w("multiply", below, float(alpha_n)), half)
    return w.select(w("greater", x, 0.0), above, below)


def _softplus(w: Wide, x: Handle, *, beta: float = 1.0, threshold: float = 20.0) -> Handle:
    scaled = x if beta == 1 else w("multiply", x, float(beta))
    made = w("softplus", scaled)
    made = made if beta == 1 else w("divide", made, float(beta))
    return w.select(w("greater", scaled, float(threshold)), w.wide(x), made)


def _truth(w: Wide, x: Handle) -> Handle:
    return w("logical_not", w.true(x))


def _bitwise_not(w: Wide, x: Handle) -> Handle:
    return kernels.run("bitwise_not", [x], {}, x.layout)


def _threshold(w: Wide, x: Handle, threshold: float, value: float) -> Handle:
    return w.select(w("greater", x, float(threshold)), w.wide(x), float(value))


def _rpow(w: Wide, x: Handle, exponent: float) -> Handle:
    return w("power", float(exponent), x)


def _bounded(side: str) -> Body:
    def body(w: Wide, x: Handle, limit: float | None = None, **given: Any) -> Handle:
        bound = float(
            limit if limit is not None else given["upper_limit" if side == "max" else "lower_limit"]
        )
        if x.dtype != "float32":
            x = w("minimum" if side == "max" else "maximum", w.int32(x), int(bound))
            return w("relu", x) if side == "max" else x
        if side == "max":
            return w("relu", w("clip", x, max=bound))
        return w("clip", x, min=bound)

    return body


def _hardtanh(w: Wide, x: Handle, min_val: float = -1.0, max_val: float = 1.0) -> Handle:
    return w("clip", x, min=float(min_val), max=float(max_val))


# name: (body, the ops that serve it, what it is, whether it takes integers)
COMPOSED: dict[str, tuple[Body, str, str, bool]] = {
    "eqz": (_compared("equal"), "equal", "1 where x is 0, else 0", True),
    "nez": (_compared("not_equal"), "not_equal", "1 where x is not 0, else 0", True),
    "gtz": (_compared("greater"), "greater", "1 where x is above 0, else 0", True),
    "gez": (_compared("greater_equal"), "greater_equal", "1 where x is 0 or above, else 0", True),
    "ltz": (_compared("less"), "less", "1 where x is below 0, else 0", True),
    "lez": (_compared("less_equal"), "less_equal", "1 where x is 0 or below, else 0", True),
    "logical_not": (_truth, "not_equal, logical_not", "1 where x is 0, else 0", True),
    "bitwise_not": (_bitwise_not, "bitwise_not", "all bits turned over", True),
    "signbit": (_signbit, "less", "1 where the sign bit is set, else 0", True),
    "isfinite": (lambda w, x: w("less", w("abs", x), math.inf), "abs, less", "1 where x is finite", False),
    "isnan": (lambda w, x: w("isnan", x), "isnan", "1 where x is NaN", False),
    "isinf": (_isinf(True, True), "isinf", "1 where x is infinite", False),
    "isposinf": (_isinf(True, False), "isinf", "1 where x is infinity", False),
    "isneginf": (_isinf(False, True), "isinf", "1 where x is minus infinity", False),
    "relu6": (_clip(0.0, 6.0), "clip", "min(max(x, 0), 6)", False),
    "relu_max": (_bounded("max"), "clip, relu", "max(min(x, upper_limit), 0)", True),
    "relu_min": (_bounded("min"), "clip", "max(x, lower_limit)", True),
    "hardtanh": (_hardtanh, "clip", "min(max(x, min_val), max_val)", False),
    "hardsigmoid": (
        lambda w, x: w("hard_sigmoid", x, alpha=1 / 6, beta=0.5),
        "hard_sigmoid",
        "max(0, min(1, x / 6 + 1/2))",
        False,
    ),
    "hardshrink": (
        lambda w, x, lambd=0.5: w("shrink", x, lambd=float(lambd), bias=0.0),
        "shrink",
        "x, 0 within lambd of 0",
        False,
    ),
    "softshrink": (
        lambda w, x, lambd=0.5: w("shrink", x, lambd=float(lambd), bias=float(lambd)),
        "shrink",
        "x moved to 0 by lambd",
        False,
    ),
    "hardmish": (
        lambda w, x: w("multiply", x, w("clip", w("add", w("multiply", x, 0.5), 1.0), min=0.0, max=1.0)),
        "multiply, add, clip",
        "x min(max(x / 2 + 1, 0), 1)",
        False,
    ),
    "tanhshrink": (lambda w, x: w("subtract", x, w("tanh", x)), "tanh, subtract", "x - tanh(x)", False),
    "log_sigmoid": (
        lambda w, x: w("negative", w("softplus", w("negative", x))),
        "softplus, negative",
        "log(sigmoid(x))",
        False,
    ),
    "gelu": (lambda w, x, **_: w("gelu", x), "gelu", "Gaussian error linear unit, by erf", False),
    "sigmoid": (lambda w, x, **_: w("sigmoid", x), "sigmoid", "1 / (1 + exp(-x))", False),
    "sigmoid_accurate": (lambda w, x, **_: w("sigmoid", x), "sigmoid", "1 / (1 + exp(-x))", False),
    "softplus": (_softplus, "softplus", "log(1 + exp(beta x)) / beta, x above threshold", False),
    "heaviside": (_heaviside, "equal, greater, where", "0 below 0, 1 above, value at 0", False),
    "threshold": (_threshold, "greater, where", "x above threshold, else value", False),
    "logit": (_logit, "divide, log", "log(x / (1 - x)), x within eps of 0 and 1 moved in", False),
    "multigammaln": (
        _multigammaln,
        "lgamma, add",
        "logarithm of the multivariate gamma function of order 4",
        False,
    ),
    "i1": (i1, "multiply, add, exp, where", "modified Bessel function of order 1", False),
    "polygamma": (_polygamma, "reciprocal, multiply, add", "the k-th derivative of digamma", False),
    "erfinv": (_erfinv, "erf, log, sqrt, exp", "inverse of erf", False),
    "polyval": (_polyval, "multiply, add", "a polynomial, its highest coefficient first", False),
    "round": (_round, "round", "the nearest number of so many decimals, halves to even", True),
    "rpow": (_rpow, "power", "exponent to the x", False),
    "fill": (_fill, "broadcast_to", "fill_value everywhere", True),
    "xielu": (_xielu, "expm1, multiply", "the expanded integral of elu", False),
    "identity": (lambda w, x: kernels.copied(x), "copy", "the same values", True),
}
