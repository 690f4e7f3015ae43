"""Elementwise ops: add subtract multiply divide maximum (numpy broadcasting), relu gelu sigmoid tanh exp
sqrt, cast.

C contract: args are the inputs, then the output. Attribute words:
    gelu      [0] 0: x * (1 + erf(x / sqrt 2)) / 2;  1: tanh approximation
    the rest  none; on tt add, subtract and multiply read the words of numerics.py
Rules: integers wrap. Integer divide truncates toward zero; a zero divisor is a kernel error. maximum and relu
keep NaN. cast reads its dtypes from args[0].dtype and args[1].dtype: float to integer truncates toward zero
and saturates, and NaN gives 0; integer to integer wraps; anything to bool is x != 0. All of these ops except
cast may write their output over an input of the output's type.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....base import dtypes
from ....base.errors import KernelError
from ...graph import TensorType
from .. import rules
from ..cases import case
from ..registry import REQUIRED, Attr, define
from ..work import Work, each, tiles_of
from .pointwise import binary, gated, numpy_name, sigmoid, unary


def _divide(a: np.ndarray, b: np.ndarray, attrs: dict[Any, Any]) -> np.ndarray:
    if a.dtype.kind == "f":
        return a / b
    if (b == 0).any() and np.broadcast(a, b).size:
        raise KernelError("divide: integer division by zero", op="divide")
    quotient, remainder = np.divmod(a, b)  # floor; truncation adds one if the signs differ
    return quotient + ((remainder != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


_compute: Any
for _name, _doc, _compute, _step, _onnx, _torch in (
    ("add", "a + b", np.add, 1, "Add", ""),
    ("subtract", "a - b", np.subtract, 2, "Sub", ""),
    ("multiply", "a * b", np.multiply, 3, "Mul", "mul"),
):
    binary(
        _name,
        _doc,
        lambda a, b, attrs, f=_compute: f(a, b),
        rules.TT_ARITH,
        numerics=True,
        few=False,
        pace=("simple", _name),
        walk="pair",
        step=_step,
        counts=True,
        numpy=_name,
        onnx=_onnx,
        torch=_torch,
        ttnn=_name,
    )


def _divide_work(inputs, outputs, attrs):
    """The work of a multiplication by the reciprocal."""
    divisor, made = tiles_of(inputs[-1].shape), tiles_of(outputs[0].shape)
    return Work(passes=each(divisor, "reciprocal") + each(made, "multiply"))


binary(
    "divide",
    "a / b; integers truncate toward zero",
    _divide,
    rules.TT_FLOATS,
    make=("normal", "positive"),
    functions=True,
    few=False,
    pace=("function", "nop"),
    walk="pair",
    work=_divide_work,
    parts="quotient",
    step=4,
    promotes=True,
    numpy="divide",
    onnx="Div",
    ttnn="divide div",
)
binary(
    "maximum",
    "the greater of a and b, NaN if either is",
    lambda a, b, attrs: np.maximum(a, b),
    rules.TT_ARITH,
    rules.ALL,
    functions=True,
    few=False,
    pace=("simple", "maximum"),
    walk="pair",
    step=5,
    counts=True,
    numpy="maximum",
    torch="maximum",
    ttnn="maximum",
)


# ---------------------------------------------------------------- one input

_erfc = np.frompyfunc(math.erfc, 1, 1)


def _gelu(x: np.ndarray, attrs: dict[Any, Any]) -> np.ndarray:
    if attrs["approximate"] == "tanh":  # (1 + tanh u) / 2 = sigmoid(2 u)
        return gated(x, 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return 0.5 * x * np.asarray(_erfc(-x / math.sqrt(2)), np.float64)


_APPROXIMATE = Attr("approximate", "str", "none", "none: by erf; tanh: by tanh", ("none", "tanh"))

unary(
    "relu",
    "max(x, 0)",
    lambda x, a: np.where(x < 0, x.dtype.type(0), x),
    allowed=rules.FLOATS + rules.SIGNED,
    tt=rules.TT_ARITH,
    nmse=rules.EXACT,
    few=False,
    pace=("simple", "nop"),
    step=16,
    counts=True,
    onnx="Relu",
    torch="relu",
    ttnn="relu",
)
unary(
    "gelu",
    "Gaussian error linear unit",
    _gelu,
    flops=8,
    tt=rules.TT_FLOATS,
    few=False,
    pace=("function", "gelu"),
    step=17,  # 18 for approximate="tanh"
    onnx={"Gelu": {"approximate": "approximate"}},
    torch="gelu",
    ttnn="gelu",
    attrs=(_APPROXIMATE,),
    words=lambda i, o, a: [int(a["approximate"] == "tanh")],
    more=(case("tanh", (2, 40, 70), {"approximate": "tanh"}, nmse=rules.ROUNDED),),
)


for _name, _doc, _compute, _step in (
    ("sigmoid", "1 / (1 + exp(-x))", sigmoid, 19),
    ("tanh", "hyperbolic tangent", np.tanh, 20),
    ("exp", "e to the x", np.exp, 21),
):
    unary(
        _name,
        _doc,
        lambda x, attrs, f=_compute: f(x),
        flops=4,
        tt=rules.TT_FLOATS,
        few=False,
        pace=("function", _name),
        step=_step,
        numpy=numpy_name(_compute),
        onnx=_name.capitalize(),
        torch=_name,
        ttnn=_name,
    )
unary(
    "sqrt",
    "square root, NaN below 0",
    lambda x, a: np.sqrt(x),
    make="positive",
    tt=rules.TT_FLOATS,
    few=False,
    nmse=rules.ROUNDED | {"cpu": 0.0},
    pace=("function", "sqrt"),
    step=22,
    numpy="sqrt",
    onnx="Sqrt",
    torch="sqrt",
    ttnn="sqrt",
)


# ---------------------------------------------------------------- cast


def _cast_infer(inputs, attrs):
    rules.one_dtype("cast", inputs, rules.ALL)
    to = dtypes.canonical(attrs["to"])
    if to not in rules.ALL:
        text = f"cannot cast to {attrs['to']!r}; it can to {', '.join(rules.ALL)}"
        rules.fail("cast", text, got=attrs["to"])
    return [TensorType(to, inputs[0].shape)]


def _cast(arrays, attrs):
    x, to = arrays[0], dtypes.canonical(attrs["to"])
    dtype = dtypes.to_numpy(to)
    if to == "bool":
        return [np.asarray(x != 0)]
    if x.dtype.kind not in "fV" or dtype.kind not in "iu":
        return [rules.narrow(x, to)]
    x, info = np.asarray(x, np.float64), np.iinfo(dtype)
    low, high = x <= float(info.min), x >= float(info.max)  # float(max) may be max + 1: saturates, too
    inside = np.where(low | high | np.isnan(x), 0.0, x)
    return [np.where(low, info.min, np.where(high, info.max, inside.astype(dtype))).astype(dtype)]


def _tt_cast(inputs, outputs, attrs):
    if outputs[0].dtype in rules.TT_MOVED:
        return None
    return f"tt has no {outputs[0].dtype}; cast to one of {', '.join(rules.TT_MOVED)}"


define(
    "cast",
    "change the element type",
    (1, 1),
    _cast_infer,
    _cast,
    lambda i, o, a: o[0].size,
    attrs=(Attr("to", "str", REQUIRED, 'the dtype to cast to, e.g. "bfloat16"'),),
    bodies=rules.bodies("cast", rules.ALL, rules.TT_MOVED, prebuilt=rules.PREBUILT, accepts=_tt_cast),
    cases=(
        *(
            case(f"{a}_to_{b}", (a, (3, 33, 65)), {"to": b}, make=("wide",), nmse=rules.EXACT)
            for a in rules.ALL
            for b in rules.ALL
            if a != b
        ),
        case("scalar", (), {"to": "int32"}, nmse=rules.EXACT),
        case("same", (40, 70), {"to": "float32"}, nmse=rules.EXACT),
    ),
    kind="elementwise",
    pace={"cpu": "simple", "tt": "nop"},
    walk="map",
)
