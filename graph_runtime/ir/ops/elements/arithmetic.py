"""Arithmetic of all types, comparisons, logic and bits: abs negative square sign clip bitwise_not
logical_not; minimum power mod, equal .. greater_equal, logical_*, bitwise_*, shift_*; where.

C contract (args are the inputs, then the output). Attribute words:
    clip     [0] min [1] max, as the bits of a double for floats, as integers for integers. A limit that is
             None is the least or the greatest number of the dtype
    mod      [0] fmod (0 or 1)
    the rest no words
Rules: comparisons give bool; with a NaN they give false, except not_equal. minimum and clip keep NaN. Integer
power wraps; a negative exponent is a kernel error, and so is an integer mod by zero. The result of mod has
the divisor's sign; with fmod it has the dividend's, as in C. A shift by the number of bits of the type or
more gives 0 (-1 for a right shift of a negative number). where: args are cond (bool), a, b, which all
broadcast; the body is chosen by element size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import KernelError
from ...graph import TensorType
from .. import rules
from ..cases import case, cases, per_dtype
from ..registry import Attr, alias, define
from .pointwise import binary, numpy_name, unary

_BOOL, _NUMBERS, _ARITH = rules.BOOL, rules.NUMBERS, rules.TT_ARITH
_BITS = (*rules.INTS, *_BOOL)
_TT_BITS = tuple(t for t in rules.TT_MOVED if t not in rules.TT_FLOATS)
_NOT = "bitwise_not"
_DIVIDED = ("normal", "positive")  # how dividends and divisors are drawn


# ---------------------------------------------------------------- one input


def _limits(dtype: str, attrs: dict[Any, Any]) -> tuple[Any, ...]:
    """min and max as numbers of the dtype; for integers rounded inwards and saturated."""
    low, high = attrs["min"], attrs["max"]
    if dtype in rules.FLOATS:
        return -np.inf if low is None else low, np.inf if high is None else high
    info = np.iinfo(dtype)
    low = info.min if low is None or np.isnan(low) else np.ceil(max(low, float(info.min)))
    high = info.max if high is None or np.isnan(high) else np.floor(min(high, float(info.max)))
    return tuple(int(min(max(int(v), info.min), info.max)) for v in (low, high))


def _clip(x: np.ndarray, attrs: dict[Any, Any]) -> np.ndarray:
    low, high = _limits("float64" if x.dtype.kind == "f" else x.dtype.name, attrs)
    if x.dtype.kind in "iu":
        low, high = x.dtype.type(low), x.dtype.type(high)
    return np.minimum(np.maximum(x, low), high)


def _clip_words(inputs, outputs, attrs):
    low, high = _limits(inputs[0].dtype, attrs)
    if inputs[0].dtype in rules.FLOATS:
        return [rules.float_word(low), rules.float_word(high)]
    return [v - 2**64 if v >= 2**63 else v for v in (low, high)]


_compute: Any
_types: tuple[str, ...]
# columns: name, meaning, numpy function, dtypes, dtypes on tt, pace on tt, step, names in ONNX, torch and
# ttnn
for _name, _doc, _compute, _types, _tt, _pace, _step, _onnx, _torch, _ttnn in (
    ("abs", "magnitude; the least integer stays", np.abs, _NUMBERS, _ARITH, "abs", 23, "Abs", "abs", "abs"),
    ("negative", "-x; integers wrap", np.negative, _NUMBERS, _ARITH, "nop", 24, "Neg", "neg", "neg"),
    ("square", "x * x; integers wrap", np.square, _NUMBERS, _ARITH, "square", 33, "", "", "square"),
    ("sign", "-1, 0 or 1; NaN stays", np.sign, _NUMBERS, _ARITH, "nop", 0, "Sign", "", "sign"),
    (_NOT, "all bits inverted", np.invert, _BITS, _TT_BITS, "nop", 0, "BitwiseNot", _NOT, _NOT),
    ("logical_not", "not x", np.logical_not, _BOOL, _BOOL, "nop", 0, "Not", "logical_not", "logical_not"),
):
    unary(
        _name,
        _doc,
        lambda x, attrs, f=_compute: f(x),
        allowed=_types,
        tt=_tt,
        nmse=rules.EXACT,
        pace=("simple", _pace),
        step=_step,
        numpy=numpy_name(_compute),
        onnx=_onnx,
        torch=_torch,
        ttnn=_ttnn,
    )
unary(
    "clip",
    "min(max(x, min), max); max where min is above it",
    _clip,
    allowed=_NUMBERS,
    attrs=(
        Attr("min", "float", None, "least result; none by default"),
        Attr("max", "float", None, "greatest result; none by default"),
    ),
    words=_clip_words,
    tt=_ARITH,
    pace=("simple", "nop"),
    step=28,
    ttnn={name: {"min": "min", "max": "max"} for name in ("clip", "clamp")},
    given={"min": 0.0, "max": 40.0},
    make="wide",
    nmse=rules.EXACT,
    more=tuple(
        case(name, (33, 40), attrs, dtype=dtype, nmse=rules.EXACT)
        for name, dtype, attrs in (
            ("low", "float32", {"min": -0.5}),
            ("high", "int8", {"max": 3.5}),
            ("beyond", "uint8", {"min": -5.0, "max": 1e9}),
            ("crossed", "float32", {"min": 2.0, "max": 1.0}),
        )
    ),
)


# ---------------------------------------------------------------- two inputs, same type


def _power(a, b, attrs):
    if a.dtype.kind == "i" and (b < 0).any() and np.broadcast(a, b).size:
        raise KernelError("power: a negative exponent of integers", op="power")
    return np.power(a, b)


def _mod(a, b, attrs):
    if a.dtype.kind in "iu" and (b == 0).any() and np.broadcast(a, b).size:
        raise KernelError("mod: integer division by zero", op="mod")
    return np.fmod(a, b) if attrs["fmod"] else np.mod(a, b)


binary(
    "power",
    "a to the b; integers wrap",
    _power,
    rules.TT_FLOATS,
    make=("positive", "positive"),
    flops=8,
    nmse=rules.ROUNDED,
    pace=("scalar", "power"),
    onnx="Pow",
    ttnn="pow",
)
binary(
    "mod",
    "remainder of a / b, with the sign of b",
    _mod,
    rules.TT_NUMBERS,
    make=_DIVIDED,
    flops=4,
    nmse=rules.ROUNDED,
    pace=("scalar", "power"),
    walk="checked",
    onnx={"Mod": {"fmod": "fmod"}},
    ttnn="remainder",
    functions=True,
    attrs=(Attr("fmod", "bool", False, "with the sign of a, as C's fmod"),),
    words=lambda i, o, a: [int(a["fmod"])],
    more=tuple(
        case(f"fmod_{t}", (3, 33, 40), (40,), {"fmod": True}, dtype=t, make=_DIVIDED, nmse=rules.ROUNDED)
        for t in ("float32", "bfloat16", "int32", "uint8")
    ),
)
binary(
    "minimum",
    "the lesser of a and b, NaN if either is",
    lambda a, b, attrs: np.minimum(a, b),
    _ARITH,
    rules.ALL,
    functions=True,
    pace=("simple", "maximum"),
    step=6,
    counts=True,
    numpy="minimum",
    torch="minimum",
    ttnn="minimum",
)
for _name, _doc, _compute, _types, _tt in (
    ("logical_and", "a and b", np.logical_and, _BOOL, _BOOL),
    ("logical_or", "a or b", np.logical_or, _BOOL, _BOOL),
    ("logical_xor", "exactly one of a and b", np.logical_xor, _BOOL, _BOOL),
    ("bitwise_and", "the bits that a and b have", np.bitwise_and, _BITS, _TT_BITS),
    ("bitwise_or", "the bits that a or b has", np.bitwise_or, _BITS, _TT_BITS),
    ("bitwise_xor", "the bits that exactly one of a and b has", np.bitwise_xor, _BITS, _TT_BITS),
):
    binary(
        _name,
        _doc,
        lambda a, b, attrs, f=_compute: f(a, b),
        _tt,
        _types,
        pace=("simple", "add"),
        numpy=numpy_name(_compute),
        onnx=_name.removeprefix("logical_").title().replace("_", ""),
        torch=_name,
        ttnn=_name,
    )
for _name, _doc, _compute in (
    ("shift_left", "a times 2 to the b, bits beyond the type lost", np.left_shift),
    ("shift_right", "a over 2 to the b, rounded down", np.right_shift),
):
    binary(
        _name,
        _doc,
        lambda a, b, attrs, f=_compute: f(a, b),
        tt=tuple(t for t in _TT_BITS if t not in _BOOL),
        allowed=rules.INTS,
        make=("normal", "shift"),
        pace=("simple", "add"),
        numpy=numpy_name(_compute),
        torch=f"bitwise_{_name[6:]}_shift __{_name[6]}shift__",
        ttnn=f"bitwise_{_name[6:]}_shift",
    )


# ---------------------------------------------------------------- comparisons

for _name, _doc, _compute, _onnx, _torch in (
    ("equal", "a == b", np.equal, "Equal", "eq"),
    ("not_equal", "a != b", np.not_equal, "", "ne"),
    ("less", "a < b", np.less, "Less", "lt"),
    ("less_equal", "a <= b", np.less_equal, "LessOrEqual", "le"),
    ("greater", "a > b", np.greater, "Greater", "gt"),
    ("greater_equal", "a >= b", np.greater_equal, "GreaterOrEqual", "ge"),
):
    binary(
        _name,
        _doc,
        lambda a, b, attrs, f=_compute: f(a, b),
        tt=rules.TT_COMPARED,
        allowed=rules.ALL,
        make=("digits", "digits"),
        kernel="greater_than" if _name == "greater" else None,
        result="bool",
        equality=_compute in (np.equal, np.not_equal),
        pace=("simple", "subtract"),
        numpy=numpy_name(_compute),
        onnx=_onnx,
        torch=_torch,
        ttnn=_torch,
    )


for _name, _op in (
    ("eq", "equal"),
    ("ne", "not_equal"),
    ("lt", "less"),
    ("le", "less_equal"),
    ("gt", "greater"),
    ("ge", "greater_equal"),
):
    alias(_name, _op)
alias("relu6", "clip", min=0.0, max=6.0)
alias("hardtanh", "clip", min=-1.0, max=1.0)


# ---------------------------------------------------------------- where


def _where_infer(inputs, attrs):
    cond = inputs[0]
    if cond.dtype not in _BOOL:
        rules.fail("where", f"input 0 (cond) must be bool, got {cond}; compare it with 0", got=cond.dtype)
    dtype = rules.one_dtype("where", inputs[1:], rules.ALL)
    return [TensorType(dtype, rules.broadcast("where", *(t.shape for t in inputs)))]


def _where_tt(inputs, outputs, attrs):
    return None if outputs[0].dtype in rules.TT_MOVED else f"tt has no {outputs[0].dtype}"


_WHERE_CASES = (
    ("tiles", ("bool", (3, 65, 97)), (3, 65, 97), (3, 65, 97)),
    ("rows", ("bool", (65, 1)), (97,), (2, 1, 97)),
    ("scalars", ("bool", (33, 40)), (), ()),
    ("cond", ("bool", ()), (33, 40), (40,)),
    ("empty", ("bool", (0, 4)), (1, 4), (4,)),
)
define(
    "where",
    "a where cond is true, else b",
    (3, 3),
    _where_infer,
    lambda x, attrs: [np.where(x[0], x[1], x[2]).astype(x[1].dtype)],
    lambda i, o, a: o[0].size,
    moves=(0,),
    bodies=rules.bodies("where", _BOOL, _BOOL, lambda i, o: rules.by_bytes(o, o), accepts=_where_tt),
    inplace=(1, 2),
    cases=(
        *cases(_WHERE_CASES, rules.MOVED),
        *per_dtype(rules.ALL[1:], ("bool", (33, 40)), (3, 33, 40), (40,), nmse=rules.MOVED),
    ),
    kind="elementwise",
    pace={"cpu": "simple", "tt": "maximum"},
    walk="together",
    onnx={"Where": {}},
    torch=("where",),
    ttnn={"where": {}},
)
