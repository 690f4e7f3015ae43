"""Functions of one float: rounding, exponentials, trigonometry, activations; isnan and isinf.

C contract: args are x and the output. Attribute words: the op's attributes, in the order of docs/ops.md, each
as the bits of a double; isinf has [0] detect_positive and [1] detect_negative (0 or 1). All except isnan and
isinf (which give bool) may write over their input. 16-bit floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import rules
from ..registry import Attr, alias
from .pointwise import attributes_case, float_word_of, gated, numpy_name, unary


def _of(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of arrays that applies ``function``, of one float, to each element."""
    each = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(each(x), np.float64)


def _log_gamma(x: float) -> float:
    """The logarithm of |gamma(x)|; infinite at the poles, as in C."""
    if not math.isfinite(x):
        return abs(x)
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


def _digamma(x: float) -> float:
    """The derivative of _log_gamma: the asymptotic series at x + n, where a few terms are enough, less the
    exact sum of 1 / x to 1 / (x + n - 1). A very negative x uses the reflection formula."""
    if x == 0:
        return math.copysign(math.inf, -x)
    if not math.isfinite(x):
        return math.inf if x > 0 else math.nan
    if x < 0 and x == math.floor(x):
        return math.nan
    if x < -1000:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    count = max(0, 32 - math.floor(x))
    far, terms = x + count, [-1 / (x + k) for k in range(count)]
    square = far * far
    parts = (12, -120, 252, -240) if far < 1e15 else ()
    series = [-1 / (part * square**n) for n, part in enumerate(parts, 1)]
    return math.fsum([math.log(far), -0.5 / far, *series, *terms])


def _bessel_i0(x: np.ndarray) -> np.ndarray:
    """np.i0, but infinite for infinite x, for which numpy gives NaN."""
    return np.where(np.isinf(x), np.inf, np.i0(x).reshape(np.shape(x)))


def _plain(name: str, doc: str, compute, like: str, *, flops: int = 4, cpu: str = "function", **more) -> None:
    """Register an op without attributes. ``like``: the op of costs.op_cycles that is as fast on tt. ``cpu``:
    name of the op's speed on hosts. The op's names in ONNX, torch and ttnn are derived from ``name`` unless
    given; onnx="": ONNX does not have the op."""
    own = {"onnx": name.capitalize(), "torch": name, "numpy": numpy_name(compute), "ttnn": name}
    names = {"pace": (cpu, like), **own, **more}
    unary(name, doc, lambda x, attrs: compute(x), flops=flops, tt=rules.TT_FLOATS, **names)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: np.ndarray) -> np.ndarray:
    root = np.exp(-np.abs(x) / 2)
    e = root * root
    above = x * (1 + 2 * e) / (1 + 2 * e + 2 * e * e)
    return np.where(x >= 0, above, x * root * root * (2 + e) / (2 + 2 * e + e * e))


# ---------------------------------------------------------------- rounding: exact

_EXACT: dict[str, Any] = {"flops": 1, "nmse": rules.EXACT, "pace": ("simple", "nop"), "promotes": False}
_plain("ceil", "the least integer not below x", np.ceil, "nop", make="wide", **_EXACT)
_plain("floor", "the greatest integer not above x", np.floor, "nop", make="wide", **_EXACT)
_plain(
    "round", "the nearest integer, halves to the even one", np.rint, "nop", make="wide", torch="", **_EXACT
)
_plain("trunc", "the integer next to x on the way to 0", np.trunc, "nop", make="wide", onnx="", **_EXACT)
_plain("frac", "x - trunc(x)", lambda x: x - np.trunc(x), "nop", make="wide", onnx="", **_EXACT)

# ---------------------------------------------------------------- exponentials and powers

_OURS: dict[str, Any] = {"onnx": "", "cpu": "scalar"}  # for ops absent from ONNX and not vectorised
_plain("expm1", "exp(x) - 1, accurate near 0", np.expm1, "exp", **_OURS)
_plain("exp2", "2 to the x", np.exp2, "exp", onnx="")
_plain("cbrt", "cube root, of negative numbers too", np.cbrt, "sqrt", make="wide", torch="", **_OURS)
_plain("log", "natural logarithm, NaN below 0", np.log, "log", make="positive", step=32, cpu="scalar")
_plain("log1p", "log(1 + x), accurate near 0", np.log1p, "log", make="positive", **_OURS)
_plain("log2", "logarithm to base 2, NaN below 0", np.log2, "log", make="positive", **_OURS)
_plain("log10", "logarithm to base 10, NaN below 0", np.log10, "log", make="positive", **_OURS)
_plain("reciprocal", "1 / x", lambda x: 1 / x, "reciprocal", flops=1, make="wide", step=30)
_plain("rsqrt", "1 / sqrt(x)", lambda x: 1 / np.sqrt(x), "sqrt", flops=2, make="positive", onnx="")
_plain("erf", "error function", _of(math.erf), "gelu", step=31)
_plain("erfc", "1 - erf(x), accurate where that is near 0", _of(math.erfc), "gelu", **_OURS)
_plain("lgamma", "logarithm of |gamma(x)|", _of(_log_gamma), "log", make="positive", **_OURS)
_DIGAMMA = "derivative of lgamma; NaN at integers below 0"
_plain("digamma", _DIGAMMA, _of(_digamma), "log", make="positive", **_OURS)
_I0: dict[str, Any] = {"numpy": "i0", "torch": "i0 special_modified_bessel_i0"}
_plain("i0", "the modified Bessel function of order 0", _bessel_i0, "exp", **_I0, **_OURS)

# ---------------------------------------------------------------- trigonometry

_plain("sin", "sine, x in radians", np.sin, "sine", cpu="scalar")
_plain("cos", "cosine, x in radians", np.cos, "cosine", cpu="scalar")
_plain("tan", "tangent, x in radians", np.tan, "sine", make="uniform", cpu="scalar")
_plain("rad2deg", "radians as degrees", np.rad2deg, "nop", flops=1, pace=("simple", "multiply"), onnx="")
_plain("deg2rad", "degrees as radians", np.deg2rad, "nop", flops=1, pace=("simple", "multiply"), onnx="")
_plain("asin", "inverse sine, NaN outside of -1 .. 1", np.arcsin, "sine", make="uniform", cpu="scalar")
_plain("acos", "inverse cosine, NaN outside of -1 .. 1", np.arccos, "sine", make="uniform", cpu="scalar")
_plain("atan", "inverse tangent", np.arctan, "sine", cpu="scalar")
_plain("sinh", "hyperbolic sine", np.sinh, "exp", cpu="scalar")
_plain("cosh", "hyperbolic cosine", np.cosh, "exp", cpu="scalar")
_plain("asinh", "inverse hyperbolic sine", np.arcsinh, "log", cpu="scalar")
_plain("acosh", "inverse hyperbolic cosine, NaN below 1", np.arccosh, "log", make="above_one", cpu="scalar")
_plain("atanh", "inverse hyperbolic tangent", np.arctanh, "log", make="inside_one", cpu="scalar")

# ---------------------------------------------------------------- activations

_plain("softplus", "log(1 + exp(x))", _softplus, "sigmoid", torch="", step=34)
_plain("softsign", "x / (1 + |x|)", lambda x: x / (1 + np.abs(x)), "reciprocal", flops=3, torch="", step=35)
_SILU = "x * sigmoid(x), also called swish"
_plain("silu", _SILU, lambda x: gated(x, x), "sigmoid", onnx="", ttnn="silu swish", step=25)
_plain("mish", "x * tanh(softplus(x))", _mish, "tanh", flops=8, step=36)
_plain(
    "hard_swish",
    "x * max(0, min(1, x / 6 + 1/2))",
    lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    "lrelu",
    pace=("simple", "lrelu"),
    step=26,
    onnx="HardSwish",
    torch="hardswish",
    ttnn="hardswish",
)
alias("hardswish", "hard_swish")


def _activation(name: str, doc: str, compute, *attrs: Attr, **more) -> None:
    """Register an activation whose attributes are all floats."""
    words = float_word_of(*(a.name for a in attrs))
    onnx = {name.title().replace("_", ""): {a.name: a.name for a in attrs}}
    unary(name, doc, compute, attrs=attrs, words=words, flops=4, tt=rules.TT_FLOATS, **{"onnx": onnx, **more})


def _alpha(default: float, meaning: str) -> Attr:
    return Attr("alpha", "float", default, meaning)


_activation(
    "leaky_relu",
    "x, below 0 alpha * x",
    lambda x, a: np.where(x < 0, a["alpha"] * x, x),
    _alpha(0.01, "slope below 0"),
    pace=("simple", "lrelu"),
    step=29,
    ttnn={"leaky_relu": {"negative_slope": "alpha"}},
    more=attributes_case({"alpha": 0.3}),
)
_activation(
    "elu",
    "x, below 0 alpha * (exp(x) - 1)",
    lambda x, a: np.where(x < 0, a["alpha"] * np.expm1(x), x),
    _alpha(1.0, "minus the limit for small x"),
    pace=("function", "exp"),
    step=37,
    ttnn={"elu": {"alpha": "alpha"}},
    more=attributes_case({"alpha": 0.7}),
)
_activation(
    "selu",
    "gamma * elu(x)",
    lambda x, a: a["gamma"] * np.where(x < 0, a["alpha"] * np.expm1(x), x),
    _alpha(1.6732631921768188, "factor of the elu"),
    Attr("gamma", "float", 1.0507010221481323, "factor of the whole"),
    pace=("function", "exp"),
    step=38,
    ttnn={"selu": {"scale": "gamma", "alpha": "alpha"}},
    more=attributes_case({"alpha": 2.0, "gamma": 3.0}),
)
_activation(
    "celu",
    "max(0, x) + min(0, alpha * (exp(x / alpha) - 1))",
    lambda x, a: np.where(x < 0, a["alpha"] * np.expm1(x / a["alpha"]), x),
    _alpha(1.0, "minus the limit for small x"),
    pace=("function", "exp"),
    step=39,
    ttnn={"celu": {"alpha": "alpha"}},
    more=attributes_case({"alpha": 2.0}),
)
_activation(
    "hard_sigmoid",
    "max(0, min(1, alpha * x + beta))",
    lambda x, a: np.clip(a["alpha"] * x + a["beta"], 0, 1),
    _alpha(0.2, "slope"),
    Attr("beta", "float", 0.5, "the value at 0"),
    pace=("simple", "lrelu"),
    step=27,
    more=attributes_case({"alpha": 0.5, "beta": 0.6}),
)
_activation(
    "softcap",
    "cap * tanh(x / cap): nearly x while that is small, and never beyond cap",
    lambda x, a: a["cap"] * np.tanh(x / a["cap"]),
    Attr("cap", "float", 50.0, "the limit"),
    pace=("function", "tanh"),
    onnx="",
    more=attributes_case({"cap": 1.5}),
)
_activation(
    "thresholded_relu",
    "x where it is above alpha, else 0",
    lambda x, a: np.where((x > a["alpha"]) | np.isnan(x), x, 0),
    _alpha(1.0, "the threshold"),
    nmse=rules.EXACT,
    make="wide",
    pace=("simple", "nop"),
    onnx="",
    more=attributes_case({"alpha": -2.0}),
)
_activation(
    "shrink",
    "x + bias below -lambd, x - bias above lambd, 0 between",
    lambda x, a: np.where(x < -a["lambd"], x + a["bias"], np.where(x > a["lambd"], x - a["bias"], 0 * x)),
    Attr("lambd", "float", 0.5, "the threshold"),
    Attr("bias", "float", 0.0, "how far values move to 0"),
    make="wide",
    pace=("simple", "nop"),
    onnx="",
    ttnn={"hardshrink": {"lambd": "lambd"}},
    more=attributes_case({"lambd": 1.5, "bias": 1.25}),
)

# ---------------------------------------------------------------- tests of floats

unary(
    "isnan",
    "true where x is NaN",
    lambda x, a: np.isnan(x),
    tt=rules.TT_FLOATS,
    pace=("simple", "nop"),
    numpy="isnan",
    onnx="IsNaN",
    torch="isnan",
    ttnn="isnan",
    result="bool",
    nmse=rules.EXACT,
)
unary(
    "isinf",
    "true where x is infinite",
    lambda x, a: (np.isposinf(x) & a["detect_positive"]) | (np.isneginf(x) & a["detect_negative"]),
    attrs=(
        Attr("detect_positive", "bool", True, "infinity counts"),
        Attr("detect_negative", "bool", True, "minus infinity counts"),
    ),
    words=lambda i, o, a: [int(a["detect_positive"]), int(a["detect_negative"])],
    tt=rules.TT_FLOATS,
    pace=("simple", "nop"),
    numpy="isinf",
    onnx={"IsInf": {"detect_positive": "detect_positive", "detect_negative": "detect_negative"}},
    torch="isinf",
    ttnn="isinf",
    result="bool",
    nmse=rules.EXACT,
)
