"""Elements by index: read (Gather and its kin, OneHot) and written (Scatter and its kin)."""

from __future__ import annotations

import numpy as np

from ..context import Context, Results, converter
from ..tape import TapeValue
from .shapes import MOST_RANGE


def _indices(ctx: Context, index: int) -> TapeValue:
    """An input of indices in a dtype that the registry's ops take."""
    x = ctx.input(index)
    return x if x.dtype in ("int32", "int64") else ctx.cast(x, "int64")


@converter("Gather")
def _gather(ctx: Context) -> Results:
    return taken(ctx, ctx.input(0), _indices(ctx, 1), ctx.attr("axis", 0))


def taken(ctx: Context, x: TapeValue, indices: TapeValue, axis: int) -> TapeValue:
    """What is at ``indices`` along an axis."""
    axis = ctx.axis(axis, x.rank)
    known = indices.known()
    if known is not None:  # an index that counts from the back is settled here
        size = x.shape[axis]
        if known.size and not (-size <= known.min() and known.max() < size):
            ctx.fail(f"index {known.min() if known.min() < -size else known.max()} of an axis of {size}")
        if known.size and known.min() < 0:
            indices = ctx.const(np.where(known < 0, known + size, known), indices.dtype)
    return ctx.op("take", x, indices, axis=axis)


@converter("GatherElements")
def _gather_elements(ctx: Context) -> Results:
    x = ctx.input(0)
    return ctx.op("take_along_axis", x, _indices(ctx, 1), axis=ctx.axis(ctx.attr("axis", 0), x.rank))


@converter("GatherND")
def _gather_nd(ctx: Context) -> Results:
    return ctx.op("gather_nd", ctx.input(0), _indices(ctx, 1), batch_dims=ctx.attr("batch_dims", 0))


@converter("Scatter", "ScatterElements")
def _scatter(ctx: Context) -> Results:
    x = ctx.input(0)
    return ctx.op(
        "scatter_elements",
        x,
        _indices(ctx, 1),
        ctx.input(2),
        axis=ctx.axis(ctx.attr("axis", 0), x.rank),
        reduction=ctx.attr("reduction", "none"),
    )


@converter("ScatterND")
def _scatter_nd(ctx: Context) -> Results:
    return ctx.op(
        "scatter_nd", ctx.input(0), _indices(ctx, 1), ctx.input(2), reduction=ctx.attr("reduction", "none")
    )


@converter("OneHot")
def _one_hot(ctx: Context) -> Results:
    indices, depth, values = ctx.input(0), int(ctx.single(1)), ctx.input(2)
    axis = ctx.axis(ctx.attr("axis", -1), indices.rank + 1)
    if not 0 <= depth <= MOST_RANGE:
        ctx.fail(f"depth is {depth}, it must be in 0 .. {MOST_RANGE}")
    ctx.fits(depth)
    indices = ctx.cast(indices, "int64")
    size = ctx.scalar(depth, indices)
    indices = ctx.op(
        "where", ctx.op("less", indices, ctx.scalar(0, indices)), ctx.op("add", indices, size), indices
    )
    positions = np.arange(depth).reshape(-1, *(1,) * (indices.rank - axis))
    hit = ctx.op("equal", ctx.op("unsqueeze", indices, axes=[axis]), ctx.const(positions, "int64"))
    off, on = (ctx.reshape(ctx.slice(values, 0, i, i + 1), ()) for i in (0, 1))
    return ctx.op("where", hit, on, off)


@converter("ReverseSequence")
def _reverse_sequence(ctx: Context) -> Results:
    x, lengths = ctx.input(0), ctx.cast(ctx.input(1), "int64")
    time, batch = ctx.attr("time_axis", 0), ctx.attr("batch_axis", 1)
    ctx.fits(x.shape[time])
    steps = ctx.const(np.arange(x.shape[time]), "int64")
    lengths = ctx.reshape(lengths, (x.shape[batch], 1))
    back = ctx.op("subtract", ctx.op("subtract", lengths, ctx.scalar(1, lengths)), steps)
    position = ctx.op("where", ctx.op("less", steps, lengths), back, steps)  # [batch, time]
    if time < batch:
        position = ctx.transpose(position, [1, 0])
    shape = [n if d in (time, batch) else 1 for d, n in enumerate(x.shape)]
    return ctx.op("take_along_axis", x, ctx.expand(ctx.reshape(position, shape), x.shape), axis=time)


@converter("TensorScatter", limits="write_indices must be known before a run")
def _tensor_scatter(ctx: Context) -> Results:
    cache, update = ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.attr("axis", -2), cache.rank)
    mode, size, count = ctx.attr("mode", "linear"), cache.shape[axis], update.shape[axis]
    ctx.fits(cache.shape[0], count)
    starts = ctx.value(2, np.zeros(cache.shape[0], np.int64)).reshape(-1)
    positions = starts[:, None] + np.arange(count)
    if mode == "circular":
        positions %= size
    shape = [n if d in (0, axis) else 1 for d, n in enumerate(update.shape)]
    positions = np.broadcast_to(positions.reshape(shape), update.shape)
    return ctx.op(
        "scatter_elements", cache, ctx.const(positions, "int64"), update, axis=axis, reduction="none"
    )


@converter("MaxUnpool", limits="as if each index occurs once")
def _max_unpool(ctx: Context) -> Results:
    x, indices = ctx.input(0), ctx.input(1)
    kernel = ctx.attr("kernel_shape")
    strides, pads = ctx.attr("strides", [1] * len(kernel)), ctx.attr("pads", [0] * (2 * len(kernel)))
    rank = len(kernel)
    natural = [
        *x.shape[:2],
        *((n - 1) * strides[d] + kernel[d] - pads[d] - pads[d + rank] for d, n in enumerate(x.shape[2:])),
    ]
    wanted = ctx.ints(2, natural)
    empty = ctx.full((int(np.prod(natural)),), 0, x.dtype)
    made = ctx.op(
        "scatter_elements",
        empty,
        ctx.reshape(indices, (indices.type.size,)),
        ctx.reshape(x, (x.type.size,)),
        axis=0,
        reduction="none",
    )
    made = ctx.reshape(made, natural)
    pads = [0] * x.rank + [w - n for w, n in zip(wanted, natural, strict=True)]
    return made if not any(pads) else ctx.op("pad", made, pads=pads, mode="constant", value=0.0)
