"""Ops that read by index (Gather, GatherElements, ..., OneHot) or write by index (Scatter, ...)."""

from __future__ import annotations

import numpy as np

from ....ir.value import where
from ..context import Context, Results, converter, function
from ..tape import TapeValue
from .shapes import MOST_RANGE


def _indices(x: TapeValue) -> TapeValue:
    """Indices in a dtype that the registry's ops take."""
    return x if x.dtype in ("int32", "int64") else x.cast("int64")


converter("Gather")(lambda ctx: taken(ctx, ctx.input(0), _indices(ctx.input(1)), ctx.attr("axis", 0)))


def taken(ctx: Context, x: TapeValue, indices: TapeValue, axis: int) -> TapeValue:
    """Elements at ``indices`` along an axis."""
    axis = ctx.axis(axis, x.rank)
    known = indices.known()
    if known is not None:  # known negative indices become indices from the front
        size = x.shape[axis]
        if known.size and not (-size <= known.min() and known.max() < size):
            ctx.fail(
                f"index {known.min() if known.min() < -size else known.max()} is outside an axis of {size}"
            )
        if known.size and known.min() < 0:
            indices = ctx.const(np.where(known < 0, known + size, known), indices.dtype)
    return ctx.op("take", x, indices, axis=axis)


@converter("GatherElements")
def _gather_elements(ctx: Context) -> Results:
    x, indices = ctx.input(0), _indices(ctx.input(1))
    return x.op("take_along_axis", indices, axis=ctx.axis(ctx.attr("axis", 0), x.rank))


function("GatherND")(lambda x, at, *, batch_dims=0: x.op("gather_nd", _indices(at), batch_dims=batch_dims))


@converter("Scatter", "ScatterElements")
def _scatter(ctx: Context) -> Results:
    x, indices, updates = ctx.input(0), _indices(ctx.input(1)), ctx.input(2)
    axis, reduction = ctx.axis(ctx.attr("axis", 0), x.rank), ctx.attr("reduction", "none")
    return x.op("scatter_elements", indices, updates, axis=axis, reduction=reduction)


function("ScatterND")(
    lambda x, at, updates, *, reduction="none": x.op("scatter_nd", _indices(at), updates, reduction=reduction)
)


@converter("OneHot")
def _one_hot(ctx: Context) -> Results:
    indices, depth, values = ctx.input(0), int(ctx.single(1)), ctx.input(2)
    axis = ctx.axis(ctx.attr("axis", -1), indices.rank + 1)
    if not 0 <= depth <= MOST_RANGE:
        ctx.fail(f"depth is {depth}, but must be in 0 .. {MOST_RANGE}")
    ctx.fits(depth)
    indices = indices.cast("int64")
    indices = where(indices < 0, indices + depth, indices)
    positions = np.arange(depth).reshape(-1, *(1,) * (indices.rank - axis))
    hit = ctx.op("unsqueeze", indices, axes=[axis]).equal(ctx.const(positions, "int64"))
    off, on = (ctx.reshape(ctx.slice(values, 0, i, i + 1), ()) for i in (0, 1))
    return where(hit, on, off)


@converter("ReverseSequence")
def _reverse_sequence(ctx: Context) -> Results:
    x, lengths = ctx.input(0), ctx.input(1).cast("int64")
    time, batch = ctx.attr("time_axis", 0), ctx.attr("batch_axis", 1)
    ctx.fits(x.shape[time])
    steps = ctx.const(np.arange(x.shape[time]), "int64")
    lengths = ctx.reshape(lengths, (x.shape[batch], 1))
    back = lengths - 1 - steps
    position = where(steps < lengths, back, steps)  # [batch, time]
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


@converter("MaxUnpool", limits="computed as if each index occurred only once")
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
