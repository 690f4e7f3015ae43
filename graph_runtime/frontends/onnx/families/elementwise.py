"""Elementwise ops: those whose ONNX name is in the registry (``Op.onnx``), and those composed of several
ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ....base.dtypes import FLOATS, is_integer
from ....compositions.integers import power
from ....compositions.names import NAMED
from ....ir.ops import Op, all_ops
from ....ir.value import where
from ..context import Context, Results, converter, function
from ..tape import TapeValue
from .host import on_host
from .reduce import REDUCTIONS


def _plain(op: Op, names: Mapping[str, str]) -> Callable[[Context], Results]:
    """Converter of an ONNX op that equals one registry op; ``names``: names of the op's attributes."""
    known = {a.name: a for a in op.attrs}

    def convert(ctx: Context) -> Results:
        given = {ours: ctx.attr(theirs, known[ours].default) for theirs, ours in names.items()}
        flags = {name: bool(value) for name, value in given.items() if known[name].kind == "bool"}
        inputs, attrs = [ctx.input(i) for i in range(op.arity[0])], {**given, **flags}
        return ctx.op(op.name, *inputs, **attrs)

    return convert


for _op in all_ops().values():
    for _name, _names in _op.onnx.items():
        if _name not in REDUCTIONS and _name != "Pow":
            converter(_name)(_plain(_op, _names))


@function("Pow")
def _pow(a: TapeValue, b: TapeValue) -> TapeValue:
    """Powers. For integers they are as in ONNX Runtime, where a negative power of 0 is the least integer."""
    if is_integer(a.dtype) and _may_be_negative(b):
        return power(a, b, of_zero=np.iinfo(a.dtype).min, raised=_mixed_power)
    return _mixed_power(a, b)


def _may_be_negative(exponent: TapeValue) -> bool:
    """Whether an exponent is an integer that may be negative; True for a signed integer whose values are
    unknown."""
    known = exponent.known()
    signed = is_integer(exponent.dtype) and exponent.dtype.startswith("int")
    return signed and (known is None or bool((known < 0).any()))


def _mixed_power(a: TapeValue, b: TapeValue) -> TapeValue:
    """The power in the type of the first operand."""
    if a.dtype in FLOATS or a.dtype == b.dtype:
        return a ** b.cast(a.dtype)
    return (a.cast("float64") ** b.cast("float64")).cast(a.dtype)


function("Max")(lambda *values: reduce(TapeValue.maximum, values))
function("Min")(lambda *values: reduce(TapeValue.minimum, values))
function("Sum")(lambda *values: reduce(add, values))
function("Mean")(lambda *values: reduce(add, values) / len(values))
function("Identity")(lambda x: x)
for _row in NAMED:
    if _row.onnx:
        function(_row.onnx.rpartition("::")[2], domain=_row.onnx.rpartition("::")[0])(_row.function)
function("PRelu")(lambda x, slope: where(x < 0, x * slope, x))


@converter("BitShift")
def _shift(ctx: Context) -> Results:
    way = ctx.attr("direction")
    if way not in ("LEFT", "RIGHT"):
        ctx.fail(f"direction is {way!r}, but must be LEFT or RIGHT")
    return ctx.op(f"shift_{way.lower()}", ctx.input(0), ctx.input(1))


@converter("Clip")
def _clip(ctx: Context) -> Results:
    x = ctx.input(0)
    if ctx.opset < 11:
        most = _OLD_BOUND if x.dtype in ("float32", "float64") else math.inf
        return _bounded(x, ctx.attr("min", -most), ctx.attr("max", most))
    low, high = ctx.optional(1), ctx.optional(2)
    for value in (low, high):
        if value is not None and value.type.size != 1:
            ctx.fail(f"a bound is {value.type}, but must have one element")
    known = [None if v is None else v.known() for v in (low, high)]
    if all(v is None or k is not None for v, k in zip((low, high), known, strict=True)):
        return _bounded(x, *(None if k is None else k.reshape(-1)[0] for k in known))
    return _between(x, low, high)


_OLD_BOUND = 3.4028234663852886e38  # default bound of Clip before opset 11, which makes infinities finite


def _bounded(x: TapeValue, low: float | None, high: float | None) -> TapeValue:
    """x clipped to known bounds; for integers by maximum and minimum, which are exact."""
    if x.dtype in FLOATS:  # a bound of infinity has no effect
        low = None if low is None or low == -math.inf else low
        high = None if high is None or high == math.inf else high
    if low is None and high is None:
        return x
    if x.dtype in FLOATS and all(v is None or math.isfinite(v) for v in (low, high)):
        return x.clip(None if low is None else float(low), None if high is None else float(high))
    return _between(x, low, high)


def _between(x: TapeValue, low: Any, high: Any) -> TapeValue:
    x = x if low is None else x.maximum(low)
    return x if high is None else x.minimum(high)


@function("Shrink")
def _shrink(x: TapeValue, *, lambd: float = 0.5, bias: float = 0.0) -> TapeValue:
    wide = x.cast(x.dtype if x.dtype in FLOATS else "float64")
    return _without_nan(wide, wide.op("shrink", lambd=lambd, bias=bias)).cast(x.dtype)


@function("ThresholdedRelu")
def _thresholded(x: TapeValue, *, alpha: float = 1.0) -> TapeValue:
    return _without_nan(x, x.op("thresholded_relu", alpha=alpha))


def _without_nan(x: TapeValue, y: TapeValue) -> TapeValue:
    """y, but 0 where x is NaN. By ONNX's formulas NaN exceeds no threshold and gives 0, but torch's ops keep
    NaN."""
    return where(x.isnan(), 0, y)


_STEEP = (1e-3, 1e3)  # slopes by which any float can be multiplied and divided safely


@function("Swish")
def _swish(x: TapeValue, *, alpha: float = 1.0) -> TapeValue:
    if alpha == 1.0:
        return x.op("silu")
    if _STEEP[0] <= abs(alpha) <= _STEEP[1]:  # exact even if the sigmoid alone is subnormal
        return (x * alpha).op("silu") / alpha
    return quick_gelu(x, alpha=alpha)


@function("QuickGelu", domain="com.microsoft")
def quick_gelu(x: TapeValue, *, alpha: float = 1.702) -> TapeValue:
    return x * (x * alpha).sigmoid()


@converter("Dropout", limits="in training mode the model runs as a flow, with numpy's generator on the host")
def _dropout(ctx: Context) -> Results:
    x = ctx.input(0)
    ctx.ignore("seed", *(("ratio",) if ctx.opset < 12 else ()))
    if ctx.opset >= 12 and ctx.single(2, False) and float(ctx.single(1, 0.5)) != 0.0:
        raise on_host(ctx)
    mask = None
    if ctx.wants(1):
        mask = ctx.full(x.shape, True, "bool" if ctx.opset >= 10 else x.dtype)
    return x, mask
