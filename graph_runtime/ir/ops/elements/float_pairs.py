"""Functions of two and three floats that broadcast.

C contract: args are the inputs, then the output, which may be written over any of them. Attribute words: an
op of three floats with an attribute has one word, the bits of the attribute as a double. 16-bit floats are
computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import rules
from ..registry import Attr
from .pointwise import attributes_case, binary, float_word_of, numpy_name, ternary


def _ldexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * 2^b, computed from mantissa and exponent."""
    mantissa, exponent = np.frexp(a)
    finite = np.clip(np.nan_to_num(b), -1e4, 1e4)
    whole = np.floor(finite)
    made = np.ldexp(mantissa * np.power(2.0, finite - whole), exponent + whole.astype(np.int32))
    return np.where(np.isfinite(b), made, a * np.exp2(b))


def _squared_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.square(np.abs(b - a))


# ---------------------------------------------------------------- two inputs

_SQUARED = "squared_difference"
_compute: Any
# columns: name, meaning, numpy function, (pace on hosts, pace on tt), flops, names in torch, names in ttnn
for _name, _doc, _compute, _pace, _flops, _torch, _ttnn in (
    ("hypot", "sqrt(a * a + b * b)", np.hypot, ("function", "sqrt"), 4, "hypot", "hypot"),
    ("logaddexp2", "log2(2^a + 2^b)", np.logaddexp2, ("scalar", "log"), 8, "logaddexp2", "logaddexp2"),
    ("logaddexp", "log(exp(a) + exp(b))", np.logaddexp, ("scalar", "log"), 8, "logaddexp", "logaddexp"),
    ("ldexp", "a * 2^b, rounded once where b is an integer", _ldexp, ("scalar", "power"), 8, "", "ldexp"),
    (_SQUARED, "(a - b)^2", _squared_difference, ("simple", "multiply"), 2, "", _SQUARED),
):
    binary(
        _name,
        _doc + (", which overflows only where the result does" if _torch else ""),
        lambda a, b, attrs, f=_compute: f(a, b),
        rules.TT_FLOATS,
        rules.FLOATS,
        nmse=rules.ROUNDED,
        functions=True,
        pace=_pace,
        promotes=True,
        flops=_flops,
        numpy=numpy_name(_compute),
        torch=_torch,
        ttnn=_ttnn,
    )

# ---------------------------------------------------------------- three inputs


def _lerp(a: np.ndarray, b: np.ndarray, w: np.ndarray, attrs: dict[Any, Any]) -> np.ndarray:
    """a + w * (b - a), with the results that torch has for infinities."""
    return np.where(np.abs(w) < 0.5, a - w * (a - b), b + (w - 1) * (b - a))


_LAST_POSITIVE = ("normal", "normal", "positive")
ternary(
    "lerp",
    "a + c * (b - a), for c from 1/2 on b - (1 - c) * (b - a)",
    _lerp,
    flops=3,
    pace=("simple", "multiply"),
    make=("normal", "normal", "uniform"),
    ttnn="lerp",
)


for _name, _doc, _compute, _meaning, _like, _make in (
    ("addcmul", "a + value * b * c", np.multiply, "factor of the product", "multiply", ()),
    ("addcdiv", "a + value * b / c", np.divide, "factor of the quotient", "reciprocal", _LAST_POSITIVE),
):
    ternary(
        _name,
        _doc,
        lambda a, b, c, attrs, f=_compute: a + attrs["value"] * f(b, c),
        flops=3,
        pace=("simple", _like),
        make=_make,
        attrs=(Attr("value", "float", 1.0, _meaning),),
        words=float_word_of("value"),
        ttnn={_name: {"value": "value"}},
        more=attributes_case({"value": -0.3}, (33, 40), (40,), (33, 1), make=_LAST_POSITIVE),
    )
