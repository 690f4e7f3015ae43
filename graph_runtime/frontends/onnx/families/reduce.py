"""Sums, maxima and the like over axes; what runs along one axis: softmax, cumulative sums, the largest k."""

from __future__ import annotations

import math

import numpy as np

from ....ir.ops import all_ops
from ..context import FLOATS, Context, Results, converter
from ..tape import TapeValue

# {ONNX op: the reduction over axes that it is}
REDUCTIONS = {name: op.name for op in all_ops().values() if op.neutral is not None for name in op.onnx}
_MIXED = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
_ALONE = {"sum_abs": "abs", "sum_squares": "square"}  # what they are of one element; others are it


def _axes(ctx: Context, x: TapeValue, by_input: int) -> list[int] | None:
    """The axes of a Reduce op, by attribute before opset ``by_input``; None: the op is the identity."""
    given = ctx.attr("axes", None) if ctx.opset < by_input else ctx.ints(1, None)
    same = ctx.opset >= by_input and ctx.attr("noop_with_empty_axes", 0)
    if not given:
        return None if same else list(range(x.rank))
    return sorted(ctx.axes(given, x.rank))


def total(ctx: Context, op: str, x: TapeValue, axes: list[int], keep: bool) -> TapeValue:
    """A reduction; one over nothing of an empty axis included, where ONNX defines it."""
    if not axes:
        return ctx.op(_ALONE[op], x) if op in _ALONE else x
    if x.type.size == 0 and op in ("max", "min", "mean"):
        return _empty(ctx, op, x, axes, keep)
    return ctx.op(op, x, axes=axes, keepdims=keep)


def _empty(ctx: Context, op: str, x: TapeValue, axes: list[int], keep: bool) -> TapeValue:
    shape = [1 if d in axes else n for d, n in enumerate(x.shape)]
    if not keep:
        shape = [n for d, n in enumerate(x.shape) if d not in axes]
    if x.dtype in FLOATS:
        low, high, none = -math.inf, math.inf, math.nan
    elif x.dtype == "bool":
        low, high, none = False, True, False
    else:
        low, high, none = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max, 0
    value = {"max": low, "min": high, "mean": none}[op]
    return ctx.full(tuple(shape), value, x.dtype)


@converter(*REDUCTIONS)
def _plain(ctx: Context) -> Results:
    x, keep, op = ctx.input(0), bool(ctx.attr("keepdims", 1)), REDUCTIONS[ctx.node.op_type]
    axes = _axes(ctx, x, 13 if ctx.node.op_type == "ReduceSum" else 18)
    if axes is None:
        return total(ctx, op, x, [], keep)
    if x.dtype == "bool":  # since opset 20
        return ctx.op({"max": "any", "min": "all"}[op], x, axes=axes, keepdims=keep)
    if op == "mean" and x.dtype not in FLOATS:
        count = math.prod(x.shape[a] for a in axes)
        summed = total(ctx, "sum", x, axes, keep)
        return ctx.op("divide", summed, ctx.scalar(count, summed))
    return total(ctx, op, x, axes, keep)


@converter(*_MIXED)
def _mixed(ctx: Context) -> Results:
    x, keep, op = ctx.input(0), bool(ctx.attr("keepdims", 1)), ctx.node.op_type
    axes = _axes(ctx, x, 18)
    if op == "ReduceLogSumExp" and axes:
        return _log_sum_exp(ctx, x, axes, keep)
    dtype, x = x.dtype, ctx.cast(x, _float(x))  # sums of integers may be beyond their type, roots are not
    if op == "ReduceLogSumExp":
        x = ctx.op("exp", x)
    made = total(ctx, "sum_squares" if op == "ReduceL2" else "sum", x, axes or [], keep)
    return ctx.cast(ctx.op("sqrt" if op == "ReduceL2" else "log", made), dtype)


def _float(x: TapeValue) -> str:
    return x.dtype if x.dtype in FLOATS else "float64"


def _log_sum_exp(ctx: Context, x: TapeValue, axes: list[int], keep: bool) -> TapeValue:
    """max + log(sum(exp(x - max))); a maximum that is infinite is left out, so that no inf - inf arises."""
    dtype = x.dtype
    x = ctx.cast(x, _float(x))
    if x.type.size == 0:
        return ctx.cast(ctx.op("log", total(ctx, "sum", x, axes, keep)), dtype)
    top = ctx.op("max", x, axes=axes, keepdims=True)
    infinite = ctx.op("isinf", top, detect_positive=True, detect_negative=True)
    top = ctx.op("where", infinite, ctx.scalar(0, x), top)
    summed = ctx.op("sum", ctx.op("exp", ctx.op("subtract", x, top)), axes=axes, keepdims=True)
    made = ctx.op("add", ctx.op("log", summed), top)
    if not keep:
        made = ctx.reshape(made, [n for d, n in enumerate(x.shape) if d not in axes])
    return ctx.cast(made, dtype)


@converter("ArgMax", "ArgMin")
def _arg(ctx: Context) -> Results:
    x = ctx.input(0)
    return ctx.op(
        ctx.node.op_type.lower(),
        x,
        axis=ctx.axis(ctx.attr("axis", 0), x.rank),
        keepdims=bool(ctx.attr("keepdims", 1)),
        select_last_index=bool(ctx.attr("select_last_index", 0)),
    )


def along(ctx: Context, op: str, x: TapeValue) -> TapeValue:
    """Softmax, LogSoftmax and Hardmax: before opset 13 over all dimensions from axis on."""
    axis = ctx.axis(ctx.attr("axis", -1 if ctx.opset >= 13 else 1), x.rank)
    if ctx.opset >= 13 or axis == x.rank - 1:
        return _one_axis(ctx, op, x, axis)
    flat = ctx.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return ctx.reshape(_one_axis(ctx, op, flat, 1), x.shape)


def _one_axis(ctx: Context, op: str, x: TapeValue, axis: int) -> TapeValue:
    if op != "hardmax":
        return ctx.op(op, x, axis=axis)
    best = ctx.op("argmax", x, axis=axis, keepdims=True, select_last_index=False)
    ctx.fits(x.shape[axis])
    positions = ctx.const(np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.rank - axis - 1)), "int64")
    return ctx.cast(ctx.op("equal", best, positions), x.dtype)


def softmax(ctx: Context, x: TapeValue, axis: int) -> TapeValue:
    return ctx.op("softmax", x, axis=axis)


@converter("Softmax", "LogSoftmax", "Hardmax")
def _softmax(ctx: Context) -> Results:
    op = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}[ctx.node.op_type]
    return along(ctx, op, ctx.input(0))


@converter("CumSum")
def _cumsum(ctx: Context) -> Results:
    x = ctx.input(0)
    return ctx.op(
        "cumsum",
        x,
        axis=ctx.axis(int(ctx.single(1)), x.rank),
        exclusive=bool(ctx.attr("exclusive", 0)),
        reverse=bool(ctx.attr("reverse", 0)),
    )


@converter("CumProd")
def _cumprod(ctx: Context) -> Results:
    """Products of 1, 2, 4, ... neighbours: each step multiplies by the tensor moved along by so many."""
    x = ctx.input(0)
    axis = ctx.axis(int(ctx.single(1)), x.rank)
    size, back = x.shape[axis], bool(ctx.attr("reverse", 0))
    if ctx.attr("exclusive", 0):
        x = _moved(ctx, x, axis, 1, back)
    step = 1
    while step < size:
        x = ctx.op("multiply", x, _moved(ctx, x, axis, step, back))
        step *= 2
    return x


def _moved(ctx: Context, x: TapeValue, axis: int, by: int, back: bool) -> TapeValue:
    """x moved along an axis, ones moved in."""
    size, by = x.shape[axis], min(by, x.shape[axis])
    kept = ctx.slice(x, axis, by, size) if back else ctx.slice(x, axis, 0, size - by)
    ones = ctx.full(tuple(by if d == axis else n for d, n in enumerate(x.shape)), 1, x.dtype)
    return ctx.op("concatenate", *((kept, ones) if back else (ones, kept)), axis=axis)


@converter("TopK")
def _topk(ctx: Context) -> Results:
    x = ctx.input(0)
    k = ctx.attr("k") if ctx.opset < 10 else int(ctx.single(1))
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    ctx.ignore("sorted")  # sorted results are right where any order is
    return ctx.op("topk", x, k=k, axis=axis, largest=bool(ctx.attr("largest", 1)), sorted=True)


@converter("LpNormalization")
def _lp_normalization(ctx: Context) -> Results:
    x, p = ctx.input(0), ctx.attr("p", 2)
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    if p not in (1, 2):
        ctx.fail(f"p is {p}, it must be 1 or 2")
    norm = ctx.op("sum_abs" if p == 1 else "sum_squares", x, axes=[axis], keepdims=True)
    norm = norm if p == 1 else ctx.op("sqrt", norm)
    zero = ctx.op("equal", norm, ctx.scalar(0, norm))
    return ctx.op("where", zero, ctx.scalar(0, x), ctx.op("divide", x, norm))
