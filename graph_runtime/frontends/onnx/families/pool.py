"""Pools over windows of one, two and three dimensions, and over whole images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..context import FLOATS, Context, Results, converter
from ..tape import TapeValue
from .conv import same_pads, spatial
from .shapes import pad


class _Window:
    """The attributes of a pool, with the padding settled. ``counts``: windows in each dimension."""

    def __init__(self, ctx: Context, x: TapeValue):
        self.kernel = ctx.attr("kernel_shape")
        rank = len(self.kernel)
        if rank != x.rank - 2 or rank not in (1, 2, 3):
            ctx.fail(f"kernel_shape {self.kernel} does not fit {x.type}")
        self.strides, self.dilations = spatial(ctx, "strides", rank), spatial(ctx, "dilations", rank)
        self.pads = same_pads(ctx, x.shape[2:], self.kernel, self.strides, self.dilations)
        self.ceil = bool(ctx.attr("ceil_mode", 0))
        self.counts = [self._count(d, n) for d, n in enumerate(x.shape[2:])]

    def _count(self, d: int, size: int) -> int:
        begin, end = self.pads[d], self.pads[d + len(self.kernel)]
        room = size + begin + end - (self.kernel[d] - 1) * self.dilations[d] - 1
        count = (-(-room // self.strides[d]) if self.ceil else room // self.strides[d]) + 1
        return count - (self.ceil and (count - 1) * self.strides[d] >= size + begin)

    def padded(self, sizes: Sequence[int]) -> list[int]:
        """Elements behind the image that its windows reach, overhang of ceil_mode included."""
        return [
            (self.counts[d] - 1) * self.strides[d]
            + (self.kernel[d] - 1) * self.dilations[d]
            + 1
            - self.pads[d]
            - n
            for d, n in enumerate(sizes)
        ]

    def plane(self, dims: Sequence[int | None]) -> dict[Any, Any]:
        """The attributes of a 2-d pool over these two dimensions; None is a dimension of size 1."""

        def of(values: Sequence[int], none: int) -> list[int]:
            return [none if d is None else values[d] for d in dims]

        rank = len(self.kernel)
        found = {
            "kernel_shape": of(self.kernel, 1),
            "strides": of(self.strides, 1),
            "ceil_mode": self.ceil,
            "pads": of(self.pads[:rank], 0) + of(self.pads[rank:], 0),
        }
        if any(d != 1 for d in self.dilations):
            found["dilations"] = of(self.dilations, 1)
        return found


_BEYOND_INT32 = ("int64", "uint64", "uint32")  # of these neither ONNX nor ONNX Runtime has a MaxPool


@converter("MaxPool", limits="1 to 3 spatial dimensions; Indices of 1 and 2")
def _max_pool(ctx: Context) -> Results:
    x, order = ctx.input(0), ctx.attr("storage_order", 0)
    window, dtype = _Window(ctx, x), x.dtype
    if dtype in _BEYOND_INT32:
        ctx.fail(f"there is no MaxPool of {dtype}: cast to float64, or to int32")
    if dtype not in FLOATS:
        x = ctx.cast(x, "int32")
    n, c, *sizes = x.shape
    if ctx.wants(1):
        if len(sizes) == 3:
            ctx.fail("output 1 (Indices) is not supported in 3 dimensions")
        flat = x if len(sizes) == 2 else ctx.reshape(x, (n, c, 1, *sizes))
        plane = window.plane((0, 1) if len(sizes) == 2 else (None, 0))
        y, positions = ctx.op("max_pool2d_indices", flat, **plane)
        shape = (n, c, *window.counts)
        positions = ctx.reshape(positions, shape)
        if order and len(sizes) == 2:
            positions = _column_major(ctx, positions, *sizes)
        return ctx.cast(ctx.reshape(y, shape), dtype), positions
    if len(sizes) == 3:  # the greatest of a box is that of its planes' greatest
        x = ctx.op("max_pool2d", ctx.reshape(x, (n, c * sizes[0], *sizes[1:])), **window.plane((1, 2)))
        x = ctx.reshape(x, (n, c, sizes[0], math.prod(window.counts[1:])))
        x = ctx.op("max_pool2d", x, **window.plane((0, None)))
    elif len(sizes) == 1:
        x = ctx.op("max_pool2d", ctx.reshape(x, (n, c, 1, *sizes)), **window.plane((None, 0)))
    else:
        x = ctx.op("max_pool2d", x, **window.plane((0, 1)))
    return ctx.cast(ctx.reshape(x, (n, c, *window.counts)), dtype)


def _column_major(ctx: Context, positions: TapeValue, height: int, width: int) -> TapeValue:
    """plane * h * w + row * w + column -> plane * h * w + column * h + row."""
    size, w = ctx.scalar(height * width, positions), ctx.scalar(width, positions)
    inside = ctx.op("mod", positions, size, fmod=False)
    row, column = ctx.op("divide", inside, w), ctx.op("mod", inside, w, fmod=False)
    turned = ctx.op("add", ctx.op("multiply", column, ctx.scalar(height, positions)), row)
    return ctx.op("add", ctx.op("subtract", positions, inside), turned)


@converter("AveragePool", limits="1 to 3 spatial dimensions")
def _average_pool(ctx: Context) -> Results:
    return average_pool(ctx, ctx.input(0))


def average_pool(ctx: Context, x: TapeValue) -> TapeValue:
    """AveragePool of x with the node's attributes."""
    include = bool(ctx.attr("count_include_pad", 0))
    window = _Window(ctx, x)
    n, c, *sizes = x.shape
    if len(sizes) == 3 or any(d != 1 for d in window.dilations):
        return _mean_of_sums(ctx, x, window, include)
    flat = x if len(sizes) == 2 else ctx.reshape(x, (n, c, 1, *sizes))
    made = ctx.op(
        "avg_pool2d",
        flat,
        count_include_pad=include,
        **window.plane((0, 1) if len(sizes) == 2 else (None, 0)),
    )
    return ctx.reshape(made, (n, c, *window.counts))


def _sums(ctx: Context, x: TapeValue, window: _Window) -> TapeValue:
    """The sum of each window: a convolution with ones, each channel an image of its own."""
    n, c, *sizes = x.shape
    rank, behind = len(sizes), window.padded(sizes)
    for d, extra in enumerate(behind):
        if extra < 0:  # elements behind the last window
            x = ctx.slice(x, 2 + d, 0, sizes[d] + extra)
    sizes = list(x.shape[2:])
    flat = ctx.reshape(x, (n * c, 1, *([1] if rank == 1 else []), *sizes))
    lead = [0, 0] + ([0] if rank == 1 else [])
    flat = pad(ctx, flat, [*lead, *window.pads[:rank], *lead, *(max(b, 0) for b in behind)])
    one = [1] if rank == 1 else []
    ones = ctx.full((1, 1, *one, *window.kernel), 1, x.dtype)
    made = ctx.op(
        "conv3d" if rank == 3 else "conv2d",
        flat,
        ones,
        strides=[*one, *window.strides],
        dilations=[*one, *window.dilations],
    )
    return ctx.reshape(made, (n, c, *window.counts))


def _mean_of_sums(ctx: Context, x: TapeValue, window: _Window, include: bool) -> TapeValue:
    """Each window's sum over the number of its elements that count, which the shapes tell."""
    counts, rank = np.ones(()), len(window.kernel)
    ctx.fits(*window.counts)
    for d, n in enumerate(x.shape[2:]):
        ctx.fits(window.counts[d], window.kernel[d])
        begin, end = (window.pads[d], window.pads[d + rank]) if include else (0, 0)
        first = np.arange(window.counts[d]) * window.strides[d] - window.pads[d]
        positions = first[:, None] + np.arange(window.kernel[d]) * window.dilations[d]
        inside = ((positions >= -begin) & (positions < n + end)).sum(1)
        counts = counts[..., None] * inside
    return ctx.op("divide", _sums(ctx, x, window), ctx.const(counts, x.dtype))


@converter("LpPool", limits="1 to 3 spatial dimensions")
def _lp_pool(ctx: Context) -> Results:
    x, p = ctx.input(0), ctx.attr("p", 2)
    powered = ctx.op("abs", x) if p % 2 else x
    powered = powered if p == 1 else ctx.op("power", powered, ctx.scalar(p, x))
    return _root(ctx, _sums(ctx, powered, _Window(ctx, x)), p)


def _root(ctx: Context, x: TapeValue, p: int) -> TapeValue:
    return x if p == 1 else ctx.op("power", x, ctx.scalar(1 / p, x))


@converter("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global(ctx: Context) -> Results:
    x, op = ctx.input(0), ctx.node.op_type
    n, c, *sizes = x.shape
    shape = (n, c, *(1 for _ in sizes))
    if op == "GlobalLpPool":
        p = ctx.attr("p", 2)
        powered = ctx.op("power", ctx.op("abs", x), ctx.scalar(p, x))
        return _root(ctx, ctx.op("sum", powered, axes=list(range(2, x.rank)), keepdims=True), p)
    flat = x if len(sizes) == 2 else ctx.reshape(x, (n, c, 1, math.prod(sizes)))
    made = ctx.op("global_avg_pool2d" if op == "GlobalAveragePool" else "global_max_pool2d", flat)
    return ctx.reshape(made, shape)
