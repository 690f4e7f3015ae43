"""Constants, and ops that move elements: reshape, broadcast, slice, pad, concatenate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter

__all__ = ["padded"]


@converter("constant", "arith.constant")
def _constant(ctx: HloContext) -> Results:
    made = ctx.literal(ctx.attr("value"))
    assert made.constant is not None
    values = made.constant
    if made.rank and made.type.nbytes <= 1 << 16:
        array = values.read()
        if array.size > 1 and not any(array.strides):  # one value throughout
            thin = ctx.const(array.reshape(-1)[:1].reshape((1,) * array.ndim), made.dtype)
            ctx.importer.thin[id(made)] = (thin, made)
    elif made.rank:
        _splat_of_many(ctx, made)
    return made


def _splat_of_many(ctx: HloContext, made: TapeValue) -> None:
    """Note what a large literal of one value was broadcast from."""
    value = ctx.attr("value")
    if value.kind == "dense" and not value.text.startswith(('"', "[")) and made.constant is not None:
        one = made.constant.read()[(slice(1),) * made.rank]
        if one.size:
            ctx.importer.thin[id(made)] = (ctx.const(one, made.dtype), made)


@converter("iota")
def _iota(ctx: HloContext) -> Results:
    kind, axis = ctx.made, ctx.number("dim", "iota_dimension")
    (axis,) = ctx.dims([axis], len(kind.shape), "dim")
    if kind.dtype == "bool":
        ctx.fail("of i1")
    shape = tuple(n if d == axis else 1 for d, n in enumerate(kind.shape))
    size = kind.shape[axis]
    thin = ctx.filled(shape, lambda: np.arange(size).reshape(shape), kind.dtype, f"iota of {size}")
    made = ctx.expand(thin, kind.shape, weight=True)
    if made is not thin:
        ctx.importer.thin[id(made)] = (thin, made)
    return made


@converter("broadcast_in_dim")
def _broadcast_in_dim(ctx: HloContext) -> Results:
    x, wanted = ctx.input(0), ctx.made
    dims = ctx.dims(ctx.ints("dims", "broadcast_dimensions"), len(wanted.shape), "dims")
    if len(dims) != x.rank or any(n not in (1, wanted.shape[d]) for n, d in zip(x.shape, dims, strict=True)):
        ctx.fail(f"{x.type} along {dims} does not broadcast to {wanted}")
    own = ctx.thin(x)
    order = sorted(range(x.rank), key=lambda i: dims[i])
    shape = [1] * len(wanted.shape)
    for i in range(x.rank):
        shape[dims[i]] = own.shape[i]
    thin = ctx.reshape(ctx.transpose(own, order), shape)
    made = ctx.expand(thin, wanted.shape)
    if made is not thin:
        ctx.importer.thin[id(made)] = (thin, made)
    return made


@converter("broadcast")
def _broadcast(ctx: HloContext) -> Results:
    return ctx.expand(ctx.input(0), ctx.made.shape)


@converter("reshape")
def _reshape(ctx: HloContext) -> Results:
    x = ctx.input(0)
    if math.prod(x.shape) != math.prod(ctx.made.shape):
        ctx.fail(f"{x.type} has not as many elements as {ctx.made}")
    return ctx.reshape(x, ctx.made.shape)


@converter("transpose")
def _transpose(ctx: HloContext) -> Results:
    x = ctx.input(0)
    perm = ctx.dims(ctx.ints("dims", "permutation"), x.rank, "dims")
    if len(perm) != x.rank:
        ctx.fail(f"dims {perm} of {x.type}")
    return ctx.transpose(x, perm)


@converter("reverse")
def _reverse(ctx: HloContext) -> Results:
    x = ctx.input(0)
    axes = ctx.dims(ctx.ints("dims", "dimensions"), x.rank, "dims")
    return ctx.op("reverse", x, axes=axes) if axes else x


@converter("slice")
def _slice(ctx: HloContext) -> Results:
    x = ctx.input(0)
    ranges = ctx.attr("ranges", default=None)
    if isinstance(ranges, list):
        if any(len(r) not in (2, 3) for r in ranges):
            ctx.fail("a range is start:limit or start:limit:stride")
        starts, ends = [r[0] for r in ranges], [r[1] for r in ranges]
        steps = [r[2] if len(r) == 3 else 1 for r in ranges]
    else:
        starts, ends = ctx.ints("start_indices"), ctx.ints("limit_indices")
        steps = ctx.ints("strides", default=[1] * x.rank)
    if not len(starts) == len(ends) == len(steps) == x.rank:
        ctx.fail(f"{len(starts)} ranges of {x.type}")
    for n, start, end, step in zip(x.shape, starts, ends, steps, strict=True):
        if not 0 <= start <= end <= n or step < 1:
            ctx.fail(f"{start}:{end}:{step} is no range of {n}")
    axes = [d for d in range(x.rank) if (starts[d], ends[d], steps[d]) != (0, x.shape[d], 1)]
    if not axes:
        return x
    of = [[each[d] for d in axes] for each in (starts, ends, steps)]
    return ctx.op("slice", x, starts=of[0], ends=of[1], axes=axes, steps=of[2])


@converter("concatenate")
def _concatenate(ctx: HloContext) -> Results:
    values = [ctx.input(i) for i in range(max(len(ctx.inputs), 1))]
    (axis,) = ctx.dims([ctx.number("dim", "dimension")], values[0].rank, "dim")
    return values[0] if len(values) == 1 else ctx.op("concatenate", *values, axis=axis)


@converter("pad")
def _pad(ctx: HloContext) -> Results:
    x, value = ctx.input(0), ctx.input(1)
    low, high = ctx.ints("low", "edge_padding_low"), ctx.ints("high", "edge_padding_high")
    inner = ctx.ints("interior", "interior_padding")
    if not len(low) == len(high) == len(inner) == x.rank or any(n < 0 for n in inner):
        ctx.fail(f"low {low}, high {high}, interior {inner} of {x.type}")
    return padded(ctx, x, value, low, high, inner)


def padded(
    ctx: HloContext,
    x: TapeValue,
    value: TapeValue,
    low: Sequence[int],
    high: Sequence[int],
    inner: Sequence[int] | None = None,
) -> TapeValue:
    """x with ``value`` around it, fewer elements where a pad is negative, and ``inner`` between elements."""
    known = value.known()
    fill = 0 if known is None else known.reshape(-1)[0].item()
    if known is None or not math.isfinite(fill) or float(fill) != fill:
        ones = ctx.expand(ctx.const(True), x.shape)
        there = padded(ctx, ones, ctx.const(False), low, high, inner)
        zero = padded(ctx, x, ctx.scalar(0, x), low, high, inner)
        return ctx.op("where", there, zero, value)
    for axis, gap in enumerate(inner or ()):
        if gap and x.shape[axis] > 1:
            x = _spread(ctx, x, axis, gap, float(fill))
    pads = [*low, *high]
    return ctx.op("pad", x, pads=pads, value=float(fill)) if any(pads) else x


def _spread(ctx: HloContext, x: TapeValue, axis: int, gap: int, fill: float) -> TapeValue:
    """``gap`` elements of a value between those along an axis."""
    n = x.shape[axis]
    apart = ctx.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    pads = [0] * (2 * apart.rank)
    pads[apart.rank + axis + 1] = gap
    apart = ctx.op("pad", apart, pads=pads, value=fill)
    joined = ctx.reshape(apart, (*x.shape[:axis], n * (gap + 1), *x.shape[axis + 1 :]))
    return ctx.slice(joined, axis, 0, n * (gap + 1) - gap)


@converter("get_dimension_size")
def _dimension_size(ctx: HloContext) -> Results:
    x, axis = ctx.input(0), ctx.number("dimension", "dim")
    (axis,) = ctx.dims([axis], x.rank, "dimension")
    return ctx.const(x.shape[axis], "int32")
