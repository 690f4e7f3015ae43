"""Functions of two and three floats that broadcast.

C contract: args are the inputs, then the output, which may be written over any of them. Attribute words: of a
triple its float attribute, the bits of a double. 16-bit floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import rules
from ..registry import Attr, Case
from .pointwise import binary, float_word_of, numpy_name, ternary


def _pair(name: str, doc: str, compute: Any, like: tuple[str, str], **more: Any) -> None:
    """An op of two floats. ``like``: its paces."""
    binary(
        name,
        doc,
        lambda a, b, attrs: compute(a, b),
        rules.TT_FLOATS,
        rules.FLOATS,
        nmse=rules.ROUNDED,
        functions=True,
        pace=like,
        promotes=True,
        **{"numpy": numpy_name(compute), **more},
    )


def _ldexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By mantissa and exponent."""
    mantissa, exponent = np.frexp(a)
    finite = np.clip(np.nan_to_num(b), -1e4, 1e4)
    whole = np.floor(finite)
    made = np.ldexp(mantissa * np.power(2.0, finite - whole), exponent + whole.astype(np.int32))
    return np.where(np.isfinite(b), made, a * np.exp2(b))


# ---------------------------------------------------------------- two inputs

_pair(
    "hypot",
    "sqrt(a * a + b * b), which overflows only where the result does",
    np.hypot,
    ("function", "sqrt"),
    flops=4,
    torch="hypot",
    ttnn="hypot",
)
_pair(
    "logaddexp2",
    "log2(2^a + 2^b), which overflows only where the result does",
    np.logaddexp2,
    ("scalar", "log"),
    flops=8,
    torch="logaddexp2",
    ttnn="logaddexp2",
)
_pair(
    "logaddexp",
    "log(exp(a) + exp(b)), which overflows only where the result does",
    np.logaddexp,
    ("scalar", "log"),
    flops=8,
    torch="logaddexp",
    ttnn="logaddexp",
)
_pair(
    "ldexp",
    "a * 2^b, rounded once where b is an integer",
    _ldexp,
    ("scalar", "power"),
    flops=8,
    ttnn="ldexp",
)
_pair(
    "squared_difference",
    "(a - b)^2",
    lambda a, b: np.square(np.abs(b - a)),
    ("simple", "multiply"),
    flops=2,
    ttnn="squared_difference",
)

# ---------------------------------------------------------------- three inputs


def _lerp(a: np.ndarray, b: np.ndarray, w: np.ndarray, attrs: dict[Any, Any]) -> np.ndarray:
    """Infinities go the way that they go in torch."""
    return np.where(np.abs(w) < 0.5, a - w * (a - b), b + (w - 1) * (b - a))


ternary(
    "lerp",
    "a + c * (b - a), for c from 1/2 on b - (1 - c) * (b - a)",
    _lerp,
    flops=3,
    pace=("simple", "multiply"),
    make=("normal", "normal", "uniform"),
    ttnn="lerp",
)


def _value(attrs: dict[Any, Any]) -> tuple[Case, ...]:
    shapes = (33, 40), (40,), (33, 1)
    make = ("normal", "normal", "positive")
    return (Case("attributes", tuple(("float32", s) for s in shapes), attrs, make, rules.ROUNDED),)


ternary(
    "addcmul",
    "a + value * b * c",
    lambda a, b, c, attrs: a + attrs["value"] * (b * c),
    flops=3,
    pace=("simple", "multiply"),
    attrs=(Attr("value", "float", 1.0, "factor of the product"),),
    words=float_word_of("value"),
    ttnn={"addcmul": {"value": "value"}},
    more=_value({"value": -0.3}),
)
ternary(
    "addcdiv",
    "a + value * b / c",
    lambda a, b, c, attrs: a + attrs["value"] * (b / c),
    flops=3,
    pace=("simple", "reciprocal"),
    make=("normal", "normal", "positive"),
    attrs=(Attr("value", "float", 1.0, "factor of the quotient"),),
    words=float_word_of("value"),
    ttnn={"addcdiv": {"value": "value"}},
    more=_value({"value": -0.3}),
)
