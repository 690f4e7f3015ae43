"""NonZero, Compress, Unique and NonMaxSuppression, whose results have sizes that only a run finds."""

from __future__ import annotations

import math

import numpy as np

from ..context import Context, Results, converter
from ..tape import SizeBound, TapeValue

_OPEN = "nodes that read the result wait for its size: the model runs as a flow"


@converter("NonZero", limits=_OPEN)
def _nonzero(ctx: Context) -> Results:
    x = ctx.input(0)
    if (known := x.known()) is not None:
        return ctx.const(np.array(np.nonzero(np.atleast_1d(known)), np.int64))
    if not x.rank:
        x = ctx.reshape(x, (1,))
    positions, count = ctx.op("nonzero", x)
    return _bounded(ctx, positions, count, 1)


@converter("Compress", limits=_OPEN)
def _compress(ctx: Context) -> Results:
    x, condition, axis = ctx.input(0), ctx.input(1), ctx.attr("axis", None)
    if axis is None:
        x, axis = ctx.reshape(x, (math.prod(x.shape),)), 0
    axis = ctx.axis(axis, x.rank)
    if condition.shape[0] > x.shape[axis]:  # ONNX ignores conditions beyond the axis
        condition = ctx.slice(condition, 0, 0, x.shape[axis])
    if (known := condition.known()) is not None:
        return ctx.op("take", x, ctx.const(np.flatnonzero(known)), axis=axis)
    found, count = ctx.op("compress", x, condition, axis=axis)
    return _bounded(ctx, found, count, axis)


@converter("Unique", limits=_OPEN)
def _unique(ctx: Context) -> Results:
    x, axis = ctx.input(0), ctx.attr("axis", None)
    ordered = bool(ctx.attr("sorted", 1))
    axis = 0 if axis is None else ctx.axis(axis, x.rank)
    if ctx.attr("axis", None) is None:
        x = ctx.reshape(x, (math.prod(x.shape),))
    perm = [axis, *(d for d in range(x.rank) if d != axis)]
    turned = ctx.transpose(x, perm)
    n = turned.shape[0]
    rows = ctx.reshape(turned, (n, math.prod(turned.shape[1:])))
    found, first, inverse, counts, count = ctx.op("unique", rows, sorted=ordered)
    found = ctx.reshape(found, turned.shape)
    found = ctx.transpose(found, [perm.index(d) for d in range(x.rank)])
    return (
        _bounded(ctx, found, count, axis),
        _bounded(ctx, first, count, 0),
        inverse,
        _bounded(ctx, counts, count, 0),
    )


@converter("NonMaxSuppression", limits=_OPEN + "; the most boxes of a class may be computed")
def _suppress(ctx: Context) -> Results:
    most, overlap = ctx.single(2, np.int64(0)), ctx.single(3, np.float32(0))
    least = ctx.single(4, None)
    chosen, _, count = ctx.op(
        "non_max_suppression",
        ctx.input(0),
        ctx.input(1),
        max_output_boxes_per_class=int(min(most, 2**31 - 1)),
        iou_threshold=float(overlap),
        score_threshold=None if least is None else float(least),
        center_point_box=ctx.attr("center_point_box", 0),
    )
    return _bounded(ctx, chosen, count, 0)


def _bounded(ctx: Context, value: TapeValue, count: TapeValue, axis: int) -> TapeValue:
    """The first ``count`` elements of a value along an axis. The slice is made now if both the value and the
    count are known."""
    if (known := count.known()) is None or (array := value.known()) is None:
        value.bound = SizeBound(count, axis)
        return value
    cut = array[(slice(None),) * axis + (slice(int(known.reshape(-1)[0])),)]
    return ctx.const(np.asarray(cut, order="C"), value.dtype)
