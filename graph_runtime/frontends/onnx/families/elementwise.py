"""Ops on each element: those that the op table names for ONNX (``Op.onnx``), and those of several ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....base.dtypes import is_integer
from ....ir.ops import Op, all_ops
from ..context import FLOATS, Context, Results, converter
from ..tape import TapeValue
from .host import on_host
from .reduce import REDUCTIONS

_MIXED = ("Pow",)  # operators whose two inputs may be of two types
_FOLDS = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def _plain(op: Op, names: Mapping[str, str]) -> Callable[[Context], Results]:
    """The converter of an ONNX op that one of the registry is, with its attributes ``names``."""
    known = {a.name: a for a in op.attrs}

    def convert(ctx: Context) -> Results:
        given = {ours: ctx.attr(theirs, known[ours].default) for theirs, ours in names.items()}
        flags = {name: bool(value) for name, value in given.items() if known[name].kind == "bool"}
        inputs, attrs = [ctx.input(i) for i in range(op.arity[0])], {**given, **flags}
        if ctx.node.op_type in _MIXED and _may_be_negative(inputs[1]) and is_integer(inputs[0].dtype):
            return _integer_power(ctx, *inputs)
        if ctx.node.op_type in _MIXED and inputs[0].dtype != inputs[1].dtype:
            return _mixed(ctx, op.name, *inputs, **attrs)
        return ctx.op(op.name, *inputs, **attrs)

    return convert


def _may_be_negative(exponent: TapeValue) -> bool:
    """Whether an exponent is a signed integer that is not known to be 0 or more."""
    known = exponent.known()
    signed = is_integer(exponent.dtype) and exponent.dtype.startswith("int")
    return signed and (known is None or bool((known < 0).any()))


def _integer_power(ctx: Context, a: TapeValue, b: TapeValue) -> TapeValue:
    """Of integers, as ONNX Runtime: with a negative exponent that of 1 or -1, else 0; of 0 the least
    integer."""
    zero, one = ctx.scalar(0, a), ctx.scalar(1, a)
    below = ctx.op("less", b, ctx.scalar(0, b))
    up = ctx.op("where", below, ctx.scalar(0, b), b)
    made: Any = ctx.op("power", a, up) if a.dtype == b.dtype else _mixed(ctx, "power", a, up)
    of_one = ctx.op("where", ctx.op("equal", a, one), one, zero)
    least = ctx.scalar(np.iinfo(a.dtype).min, a)
    turned = ctx.op("where", ctx.op("equal", a, zero), least, of_one)
    if a.dtype.startswith("int"):
        less = ctx.scalar(-1, a)
        odd = ctx.op("equal", ctx.op("bitwise_and", b, ctx.scalar(1, b)), ctx.scalar(1, b))
        turned = ctx.op("where", ctx.op("equal", a, less), ctx.op("where", odd, less, one), turned)
    return ctx.op("where", below, turned, made)


def _mixed(ctx: Context, op: str, a: TapeValue, b: TapeValue, **attrs: object) -> Results:
    """Of two types: the result has the first's."""
    if a.dtype in FLOATS:
        return ctx.op(op, a, ctx.cast(b, a.dtype), **attrs)
    return ctx.cast(ctx.op(op, ctx.cast(a, "float64"), ctx.cast(b, "float64"), **attrs), a.dtype)


for _op in all_ops().values():
    for _name, _names in _op.onnx.items():
        if _name not in REDUCTIONS:
            converter(_name)(_plain(_op, _names))


@converter(*_FOLDS)
def _fold(ctx: Context) -> Results:
    return ctx.each(_FOLDS[ctx.node.op_type], *(ctx.input(i) for i in range(len(ctx.inputs))))


@converter("Mean")
def _mean(ctx: Context) -> Results:
    total = ctx.each("add", *(ctx.input(i) for i in range(len(ctx.inputs))))
    return ctx.op("divide", total, ctx.scalar(len(ctx.inputs), total))


@converter("Identity")
def _identity(ctx: Context) -> Results:
    return ctx.input(0)


@converter("BitShift")
def _shift(ctx: Context) -> Results:
    way = ctx.attr("direction")
    if way not in ("LEFT", "RIGHT"):
        ctx.fail(f"direction is {way!r}, it must be LEFT or RIGHT")
    return ctx.op(f"shift_{way.lower()}", ctx.input(0), ctx.input(1))


@converter("PRelu")
def _prelu(ctx: Context) -> Results:
    x, slope = ctx.input(0), ctx.input(1)
    return ctx.op("where", ctx.op("less", x, ctx.scalar(0, x)), ctx.op("multiply", x, slope), x)


@converter("Clip")
def _clip(ctx: Context) -> Results:
    x = ctx.input(0)
    if ctx.opset < 11:
        most = _OLD_BOUND if x.dtype in ("float32", "float64") else math.inf
        return _bounded(ctx, x, ctx.attr("min", -most), ctx.attr("max", most))
    low, high = ctx.optional(1), ctx.optional(2)
    for value in (low, high):
        if value is not None and value.type.size != 1:
            ctx.fail(f"a bound is {value.type}, it must have one element")
    known = [None if v is None else v.known() for v in (low, high)]
    if all(v is None or k is not None for v, k in zip((low, high), known, strict=True)):
        return _bounded(ctx, x, *(None if k is None else k.reshape(-1)[0] for k in known))
    if low is not None:
        x = ctx.op("maximum", x, low)
    return x if high is None else ctx.op("minimum", x, high)


_OLD_BOUND = 3.4028234663852886e38  # of Clip before opset 11, which thus leaves no infinity


def _bounded(ctx: Context, x: TapeValue, low: float | None, high: float | None) -> TapeValue:
    """clip with bounds that are known; integers by maximum and minimum, which are exact."""
    if x.dtype in FLOATS:  # a bound at infinity is none
        low = None if low is None or low == -math.inf else low
        high = None if high is None or high == math.inf else high
    if low is None and high is None:
        return x
    if x.dtype in FLOATS and all(v is None or math.isfinite(v) for v in (low, high)):
        return ctx.op(
            "clip", x, min=None if low is None else float(low), max=None if high is None else float(high)
        )
    if low is not None:
        x = ctx.op("maximum", x, ctx.scalar(low, x))
    return x if high is None else ctx.op("minimum", x, ctx.scalar(high, x))


@converter("Shrink")
def _shrink(ctx: Context) -> Results:
    x = ctx.input(0)
    wide = ctx.cast(x, x.dtype if x.dtype in FLOATS else "float64")
    made = ctx.op("shrink", wide, lambd=ctx.attr("lambd", 0.5), bias=ctx.attr("bias", 0.0))
    return ctx.cast(_without_nan(ctx, wide, made), x.dtype)


@converter("ThresholdedRelu")
def _thresholded(ctx: Context) -> Results:
    x = ctx.input(0)
    return _without_nan(ctx, x, ctx.op("thresholded_relu", x, alpha=ctx.attr("alpha", 1.0)))


def _without_nan(ctx: Context, x: TapeValue, y: TapeValue) -> TapeValue:
    """y, and 0 where x is NaN: what is beyond no threshold is 0, by ONNX's formulas; by torch's it stays."""
    return ctx.op("where", ctx.op("isnan", x), ctx.scalar(0, y), y)


_STEEP = (1e-3, 1e3)  # slopes that any float can be multiplied with and divided by


@converter("Swish")
def _swish(ctx: Context) -> Results:
    x, alpha = ctx.input(0), ctx.attr("alpha", 1.0)
    if alpha == 1.0:
        return ctx.op("silu", x)
    if _STEEP[0] <= abs(alpha) <= _STEEP[1]:  # right also where the sigmoid alone leaves the normal numbers
        slope = ctx.scalar(alpha, x)
        return ctx.op("divide", ctx.op("silu", ctx.op("multiply", x, slope)), slope)
    return ctx.op("multiply", x, ctx.op("sigmoid", ctx.op("multiply", x, ctx.scalar(alpha, x))))


@converter("Dropout", limits="where it trains the model runs as a flow; numpy's generator on the host")
def _dropout(ctx: Context) -> Results:
    x = ctx.input(0)
    ctx.ignore("seed", *(("ratio",) if ctx.opset < 12 else ()))
    if ctx.opset >= 12 and ctx.single(2, False) and float(ctx.single(1, 0.5)) != 0.0:
        raise on_host(ctx)
    mask = None
    if ctx.wants(1):
        mask = ctx.full(x.shape, True, "bool" if ctx.opset >= 10 else x.dtype)
    return x, mask
