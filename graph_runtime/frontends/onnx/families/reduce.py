"""Reductions over axes, and functions along one axis: softmax, cumulative sums, top k."""

from __future__ import annotations

import math

import numpy as np

from ....base.dtypes import FLOATS
from ....compositions.scans import running
from ....ir.ops import all_ops
from ....ir.value import where
from ..context import Context, Results, converter
from ..tape import TapeValue

# {ONNX op: the registry's reduction over axes}
REDUCTIONS = {name: op.name for op in all_ops().values() if op.neutral is not None for name in op.onnx}
_MIXED = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
_ALONE = {"sum_abs": "abs", "sum_squares": "square"}  # {reduction: its op for no axes}; all others give x


def _axes(ctx: Context, x: TapeValue, by_input: int) -> list[int] | None:
    """Axes of a Reduce op; None if the op is the identity. ``by_input``: the opset from which the axes are an
    input; in older opsets they are an attribute."""
    given = ctx.attr("axes", None) if ctx.opset < by_input else ctx.ints(1, None)
    same = ctx.opset >= by_input and ctx.attr("noop_with_empty_axes", 0)
    if not given:
        return None if same else list(range(x.rank))
    return sorted(ctx.axes(given, x.rank))


def total(ctx: Context, op: str, x: TapeValue, axes: list[int], keep: bool) -> TapeValue:
    """A reduction; over an empty axis the result is the value that ONNX defines."""
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
    if x.dtype == "bool":  # bools are allowed since opset 20
        return ctx.op({"max": "any", "min": "all"}[op], x, axes=axes, keepdims=keep)
    if op == "mean" and x.dtype not in FLOATS:
        count = math.prod(x.shape[a] for a in axes)
        summed = total(ctx, "sum", x, axes, keep)
        return summed / count
    return total(ctx, op, x, axes, keep)


@converter(*_MIXED)
def _mixed(ctx: Context) -> Results:
    x, keep, op = ctx.input(0), bool(ctx.attr("keepdims", 1)), ctx.node.op_type
    axes = _axes(ctx, x, 18)
    if op == "ReduceLogSumExp" and axes:
        return _log_sum_exp(ctx, x, axes, keep)
    dtype, x = x.dtype, x.cast(_float(x))  # integer sums may overflow their type, but roots do not
    if op == "ReduceLogSumExp":
        x = x.exp()
    made = total(ctx, "sum_squares" if op == "ReduceL2" else "sum", x, axes or [], keep)
    return ctx.op("sqrt" if op == "ReduceL2" else "log", made).cast(dtype)


def _float(x: TapeValue) -> str:
    return x.dtype if x.dtype in FLOATS else "float64"


def _log_sum_exp(ctx: Context, x: TapeValue, axes: list[int], keep: bool) -> TapeValue:
    """max + log(sum(exp(x - max))). An infinite maximum is replaced by 0, so that inf - inf does not
    arise."""
    dtype = x.dtype
    x = x.cast(_float(x))
    if x.type.size == 0:
        return total(ctx, "sum", x, axes, keep).log().cast(dtype)
    top = x.max(axes)
    top = where(top.isinf(), 0, top)
    made = (x - top).exp().sum(axes).log() + top
    if not keep:
        made = ctx.reshape(made, [n for d, n in enumerate(x.shape) if d not in axes])
    return made.cast(dtype)


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


def _along(ctx: Context, op: str, x: TapeValue) -> TapeValue:
    """Softmax, LogSoftmax or Hardmax; before opset 13 they work over all dimensions from the axis on."""
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
    return best.equal(positions).cast(x.dtype)


for _name, _op in (("Softmax", "softmax"), ("LogSoftmax", "log_softmax"), ("Hardmax", "hardmax")):
    converter(_name)(lambda ctx, op=_op: _along(ctx, op, ctx.input(0)))


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
    x, back, exclusive = ctx.input(0), bool(ctx.attr("reverse", 0)), bool(ctx.attr("exclusive", 0))
    return running("multiply", x, ctx.axis(int(ctx.single(1)), x.rank), 1.0, back, exclusive)


@converter("TopK")
def _topk(ctx: Context) -> Results:
    x = ctx.input(0)
    k = ctx.attr("k") if ctx.opset < 10 else int(ctx.single(1))
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    ctx.ignore("sorted")  # if any order is allowed, so is the sorted one
    return ctx.op("topk", x, k=k, axis=axis, largest=bool(ctx.attr("largest", 1)), sorted=True)


@converter("LpNormalization")
def _lp_normalization(ctx: Context) -> Results:
    x, p = ctx.input(0), ctx.attr("p", 2)
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    if p not in (1, 2):
        ctx.fail(f"p is {p}, but must be 1 or 2")
    norm = ctx.op("sum_abs" if p == 1 else "sum_squares", x, axes=[axis], keepdims=True)
    norm = norm if p == 1 else norm.sqrt()
    return where(norm.equal(0), 0, x / norm)
