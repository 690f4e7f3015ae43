"""Elementwise ops: add subtract multiply divide maximum (numpy broadcasting), relu gelu sigmoid tanh exp
sqrt, cast.

C contract: args are the inputs, then the output. Attribute words:
    gelu      [0] 0: x * (1 + erf(x / sqrt 2)) / 2;  1: tanh approximation
    the rest  none; on tt add, subtract and multiply read the words of numerics.py
Rules: integers wrap. Integer divide truncates toward zero and is a kernel error for a zero divisor. maximum
and relu keep NaN. cast: the dtypes are args[0].dtype and args[1].dtype; float to integer truncates toward
zero, saturates, NaN gives 0; integer to integer wraps; anything to bool is x != 0.
All of these but cast may write their output over an input of the output's type.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..errors import KernelError
from ..graph import TensorType
from . import rules
from .numerics import ATTRS
from .registry import REQUIRED, Attr, Body, Case, Op, register

_SHAPES = (
    ("small", (16,), (16,)),
    ("tiles", (3, 65, 97), (3, 65, 97)),
    ("scalar", (), ()),
    ("rows", (2, 33, 65), (65,)),
    ("columns", (33, 1), (1, 65)),
    ("left", (31,), (2, 2, 70, 31)),
    ("planes", (2, 3, 4, 40, 33), (3, 1, 40, 1)),
    ("scalar_right", (40, 70), ()),
    ("scalar_left", (1, 1, 1), (5, 33)),
    ("empty", (0, 4), (1, 4)),
)


def _binary_cases(make: tuple[str, ...], types: tuple[str, ...]) -> tuple[Case, ...]:
    rows = [
        Case(name, (("float32", a), ("float32", b)), make=make, nmse=rules.EXACT) for name, a, b in _SHAPES
    ]
    rows += [Case(t, ((t, (3, 40, 70)), (t, (40, 1))), make=make, nmse=rules.EXACT) for t in types]
    return tuple(rows)


def _numpy_binary(compute: Callable) -> Callable:
    def reference(arrays, attrs):
        a, b = arrays
        with np.errstate(all="ignore"):
            if (
                a.dtype.kind in "fV"
            ):  # float64 holds the exact result of two narrower floats well enough to round once
                return [np.asarray(compute(rules.wide(a), rules.wide(b))).astype(a.dtype)]
            return [np.asarray(compute(a, b)).astype(a.dtype)]

    return reference


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return a / b
    if (b == 0).any() and np.broadcast(a, b).size:
        raise KernelError("divide: integer division by zero", op="divide")
    quotient, remainder = np.divmod(a, b)  # floor; truncation is one more where signs differ
    return quotient + ((remainder != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def _binary(
    name: str,
    doc: str,
    compute: Callable,
    tt: tuple[str, ...],
    allowed: tuple[str, ...] = rules.FLOATS + rules.INTS,
    make: tuple[str, ...] = (),
    numerics: bool = False,
) -> None:
    def infer(inputs, attrs):
        dtype = rules.one_dtype(name, inputs, allowed)
        return [TensorType(dtype, rules.broadcast(name, *(t.shape for t in inputs)))]

    register(
        Op(
            name,
            doc,
            (2, 2),
            infer,
            _numpy_binary(compute),
            lambda i, o, a: o[0].size,
            attrs=ATTRS if numerics else (),
            bodies={"cpu": Body(name, allowed, rules.by_dtype), "tt": Body(name, tt, numerics=numerics)},
            inplace=(0, 1),
            cases=_binary_cases(make, tuple(t for t in allowed if t != "float32")),
        )
    )


_binary("add", "a + b", np.add, rules.TT_ARITH, numerics=True)
_binary("subtract", "a - b", np.subtract, rules.TT_ARITH, numerics=True)
_binary("multiply", "a * b", np.multiply, rules.TT_ARITH, numerics=True)
_binary(
    "divide", "a / b; integers truncate toward zero", _divide, rules.TT_FLOATS, make=("normal", "positive")
)
_binary("maximum", "the greater of a and b, NaN if either is", np.maximum, rules.TT_ARITH, rules.ALL)


# ---------------------------------------------------------------- one input


def _unary_cases(make: str, nmse: dict[str, float], types: tuple[str, ...]) -> tuple[Case, ...]:
    shapes = (
        ("small", (16,)),
        ("tiles", (2, 65, 97)),
        ("scalar", ()),
        ("ragged", (31,)),
        ("rank5", (2, 1, 3, 33, 40)),
        ("empty", (3, 0)),
    )
    rows = [Case(name, (("float32", s),), make=(make,), nmse=nmse) for name, s in shapes]
    return (*rows, *(Case(t, ((t, (3, 33, 65)),), make=(make,), nmse=_typed(nmse, t)) for t in types))


def _typed(nmse: dict[str, float], dtype: str) -> dict[str, float]:
    # a function within a few ulp may round to the neighbour in a 16-bit result
    if nmse["cpu"] and dtype in ("float16", "bfloat16"):
        return nmse | {"cpu": 1e-6 if dtype == "bfloat16" else 1e-8}
    return nmse


def _unary(
    name: str,
    doc: str,
    compute: Callable,
    *,
    flops: int = 1,
    allowed: tuple[str, ...] = rules.FLOATS,
    tt: tuple[str, ...] = rules.TT_FLOATS,
    make: str = "normal",
    nmse: dict[str, float] = rules.ROUNDED,
    attrs: tuple[Attr, ...] = (),
    words: Callable | None = None,
    more: tuple[Case, ...] = (),
) -> None:
    def infer(inputs, attrs):
        return [TensorType(rules.one_dtype(name, inputs, allowed), inputs[0].shape)]

    def reference(arrays, attrs):
        with np.errstate(all="ignore"):
            return [np.asarray(compute(rules.wide(arrays[0]), attrs)).astype(arrays[0].dtype)]

    types = tuple(t for t in allowed if t != "float32")
    register(
        Op(
            name,
            doc,
            (1, 1),
            infer,
            reference,
            lambda i, o, a: flops * o[0].size,
            attrs=attrs,
            words=words,
            bodies={"cpu": Body(name, allowed, rules.by_dtype), "tt": Body(name, tt)},
            inplace=(0,),
            cases=_unary_cases(make, nmse, types) + more,
        )
    )


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


_erfc = np.frompyfunc(math.erfc, 1, 1)


def _gelu(x: np.ndarray, attrs: dict) -> np.ndarray:
    if attrs["approximate"] == "tanh":  # (1 + tanh u) / 2 = sigmoid(2 u)
        return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return 0.5 * x * np.asarray(_erfc(-x / math.sqrt(2)), np.float64)


_APPROXIMATE = Attr("approximate", "str", "none", "none: by erf; tanh: by tanh", ("none", "tanh"))

_unary(
    "relu",
    "max(x, 0)",
    lambda x, a: np.where(x < 0, x.dtype.type(0), x),
    allowed=rules.FLOATS + rules.SIGNED,
    tt=rules.TT_ARITH,
    nmse=rules.EXACT,
)
_unary(
    "gelu",
    "Gaussian error linear unit",
    _gelu,
    flops=8,
    attrs=(_APPROXIMATE,),
    words=lambda i, o, a: [int(a["approximate"] == "tanh")],
    more=(Case("tanh", (("float32", (2, 40, 70)),), {"approximate": "tanh"}, nmse=rules.ROUNDED),),
)
_unary("sigmoid", "1 / (1 + exp(-x))", lambda x, a: _sigmoid(x), flops=4)
_unary("tanh", "hyperbolic tangent", lambda x, a: np.tanh(x), flops=4)
_unary("exp", "e to the x", lambda x, a: np.exp(x), flops=4)
_unary(
    "sqrt",
    "square root, NaN below 0",
    lambda x, a: np.sqrt(x),
    make="positive",
    nmse=rules.ROUNDED | {"cpu": 0.0},
)


# ---------------------------------------------------------------- cast


def _cast_infer(inputs, attrs):
    rules.one_dtype("cast", inputs, rules.ALL)
    to = dtypes.canonical(attrs["to"])
    if to not in rules.ALL:
        rules.fail(
            "cast", f"cannot cast to {attrs['to']!r}; it can to {', '.join(rules.ALL)}", got=attrs["to"]
        )
    return [TensorType(to, inputs[0].shape)]


def _cast(arrays, attrs):
    x, to = arrays[0], dtypes.canonical(attrs["to"])
    dtype = dtypes.to_numpy(to)
    if to == "bool":
        return [np.asarray(x != 0)]
    if x.dtype.kind not in "fV" or dtype.kind not in "iu":
        return [rules.narrow(x, to)]
    x, info = np.asarray(x, np.float64), np.iinfo(dtype)
    low, high = (
        x <= float(info.min),
        x >= float(info.max),
    )  # float(max) may be max + 1: it saturates all the same
    inside = np.where(low | high | np.isnan(x), 0.0, x)
    return [np.where(low, info.min, np.where(high, info.max, inside.astype(dtype))).astype(dtype)]


def _tt_cast(inputs, outputs, attrs):
    if outputs[0].dtype not in rules.TT_MOVED:
        return f"tt has no {outputs[0].dtype}; cast to one of {', '.join(rules.TT_MOVED)}"
    return None


_CAST_PAIRS = [(a, b) for a in rules.ALL for b in rules.ALL if a != b]

register(
    Op(
        "cast",
        "change the element type",
        (1, 1),
        _cast_infer,
        _cast,
        lambda i, o, a: o[0].size,
        attrs=(Attr("to", "str", REQUIRED, 'the dtype to cast to, e.g. "bfloat16"'),),
        bodies={
            "cpu": Body("cast", rules.ALL, rules.by_dtype),
            "tt": Body("cast", rules.TT_MOVED, accepts=_tt_cast),
        },
        cases=(
            *(
                Case(f"{a}_to_{b}", ((a, (3, 33, 65)),), {"to": b}, make=("wide",), nmse=rules.EXACT)
                for a, b in _CAST_PAIRS
            ),
            Case("scalar", (("float32", ()),), {"to": "int32"}, nmse=rules.EXACT),
            Case("same", (("float32", (40, 70)),), {"to": "float32"}, nmse=rules.EXACT),
        ),
    )
)
