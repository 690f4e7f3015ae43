"""Constants, and ops that move elements: reshape, broadcast, slice, pad, concatenate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....ir.value import where
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter


@converter("constant", "arith.constant")
def _constant(ctx: HloContext) -> Results:
    value = ctx.attr("value")
    made = ctx.literal(value)
    assert made.constant is not None
    is_number = value.kind == "dense" and not value.text.startswith(('"', "["))
    if made.rank and (is_number or made.type.nbytes <= 1 << 16):
        array = made.constant.read()
        if array.size > 1 and not any(array.strides):  # all elements are equal
            thin = ctx.const(array[(slice(1),) * array.ndim], made.dtype)
            ctx.importer.thin[id(made)] = (thin, made)
    return made


@converter("iota")
def _iota(ctx: HloContext) -> Results:
    kind, axis = ctx.made, ctx.number("dim", "iota_dimension")
    (axis,) = ctx.dims([axis], len(kind.shape), "dim")
    if kind.dtype == "bool":
        ctx.fail("i1 is not supported")
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


converter("broadcast")(lambda ctx: ctx.expand(ctx.input(0), ctx.made.shape))


@converter("reshape")
def _reshape(ctx: HloContext) -> Results:
    x = ctx.input(0)
    if math.prod(x.shape) != math.prod(ctx.made.shape):
        ctx.fail(f"{x.type} and {ctx.made} differ in their number of elements")
    return ctx.reshape(x, ctx.made.shape)


@converter("transpose")
def _transpose(ctx: HloContext) -> Results:
    x = ctx.input(0)
    perm = ctx.dims(ctx.ints("dims", "permutation"), x.rank, "dims")
    if len(perm) != x.rank:
        ctx.fail(f"dims {perm} are no permutation for {x.type}")
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
            ctx.fail("a range must be start:limit or start:limit:stride")
        starts, ends = [r[0] for r in ranges], [r[1] for r in ranges]
        steps = [r[2] if len(r) == 3 else 1 for r in ranges]
    else:
        starts, ends = ctx.ints("start_indices"), ctx.ints("limit_indices")
        steps = ctx.ints("strides", default=[1] * x.rank)
    if not len(starts) == len(ends) == len(steps) == x.rank:
        ctx.fail(f"{len(starts)} ranges do not fit {x.type}")
    for n, start, end, step in zip(x.shape, starts, ends, steps, strict=True):
        if not 0 <= start <= end <= n or step < 1:
            ctx.fail(f"{start}:{end}:{step} is not a range within 0:{n}")
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
        ctx.fail(f"low {low}, high {high} and interior {inner} do not fit {x.type}")
    return padded(ctx, x, value, low, high, inner)


def padded(
    ctx: HloContext,
    x: TapeValue,
    value: TapeValue,
    low: Sequence[int],
    high: Sequence[int],
    inner: Sequence[int] | None = None,
) -> TapeValue:
    """x with ``value`` before and after it, and ``inner`` times between neighbours; a negative pad removes
    elements."""
    known = value.known()
    fill = 0 if known is None else known.reshape(-1)[0].item()
    if known is None or not math.isfinite(fill) or float(fill) != fill:
        ones = ctx.expand(ctx.const(True), x.shape)
        there = padded(ctx, ones, ctx.const(False), low, high, inner)
        zero = padded(ctx, x, x.scalar(0), low, high, inner)
        return where(there, zero, value)
    for axis, gap in enumerate(inner or ()):
        x = ctx.spread(x, axis, gap, float(fill))
    pads = [*low, *high]
    return ctx.op("pad", x, pads=pads, value=float(fill)) if any(pads) else x


@converter("get_dimension_size")
def _dimension_size(ctx: HloContext) -> Results:
    x, axis = ctx.input(0), ctx.number("dimension", "dim")
    (axis,) = ctx.dims([axis], x.rank, "dimension")
    return ctx.const(x.shape[axis], "int32")
