"""Pooling over windows of one, two and three dimensions, over whole images, and over boxes (RoiAlign)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.dtypes import FLOATS
from ..context import Context, Results, converter
from ..tape import TapeValue
from .conv import same_pads, spatial
from .shapes import pad


class _Window:
    """The attributes of a pool, with explicit padding. ``counts``: number of windows in each dimension."""

    def __init__(self, ctx: Context, x: TapeValue):
        self.kernel = ctx.attr("kernel_shape", list)
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
        """For each dimension, the number of elements that windows read after the end of the image, including
        the overhang of ceil_mode."""
        return [
            (self.counts[d] - 1) * self.strides[d]
            + (self.kernel[d] - 1) * self.dilations[d]
            + 1
            - self.pads[d]
            - n
            for d, n in enumerate(sizes)
        ]

    def plane(self, dims: Sequence[int | None]) -> dict[Any, Any]:
        """Attributes of a 2-d pool over two of the dimensions. ``dims``: indices of these dimensions; None
        represents a dimension of size 1."""

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


def _flat_pool(ctx: Context, op: str, x: TapeValue, window: _Window, **attrs: Any) -> Any:
    """A pool of one or two dimensions; a 1-d pool gets a leading dimension of size 1."""
    if x.rank == 4:
        return ctx.op(op, x, **window.plane((0, 1)), **attrs)
    return ctx.op(op, ctx.reshape(x, (*x.shape[:2], 1, x.shape[2])), **window.plane((None, 0)), **attrs)


_BEYOND_INT32 = ("int64", "uint64", "uint32")  # ONNX and ONNX Runtime have no MaxPool of these


@converter("MaxPool", limits="1 to 3 spatial dimensions; Indices of 1 and 2")
def _max_pool(ctx: Context) -> Results:
    x, order = ctx.input(0), ctx.attr("storage_order", 0)
    window, dtype = _Window(ctx, x), x.dtype
    if dtype in _BEYOND_INT32:
        ctx.fail(f"MaxPool of {dtype} is not supported: cast to float64 or int32")
    if dtype not in FLOATS:
        x = x.cast("int32")
    n, c, *sizes = x.shape
    if ctx.wants(1):
        if len(sizes) == 3:
            ctx.fail("output 1 (Indices) is not supported in 3 dimensions")
        y, positions = _flat_pool(ctx, "max_pool2d_indices", x, window)
        shape = (n, c, *window.counts)
        positions = ctx.reshape(positions, shape)
        if order and len(sizes) == 2:
            positions = _column_major(positions, *sizes)
        return ctx.reshape(y, shape).cast(dtype), positions
    if len(sizes) == 3:  # the maximum of a box is that of the maxima of its planes
        x = ctx.op("max_pool2d", ctx.reshape(x, (n, c * sizes[0], *sizes[1:])), **window.plane((1, 2)))
        x = ctx.reshape(x, (n, c, sizes[0], math.prod(window.counts[1:])))
        x = ctx.op("max_pool2d", x, **window.plane((0, None)))
    else:
        x = _flat_pool(ctx, "max_pool2d", x, window)
    return ctx.reshape(x, (n, c, *window.counts)).cast(dtype)


def _column_major(positions: TapeValue, height: int, width: int) -> TapeValue:
    """Positions counted row by row (plane * h * w + row * w + column), converted to positions counted column
    by column (plane * h * w + column * h + row)."""
    inside = positions.op("mod", height * width, fmod=False)
    row, column = inside / width, inside.op("mod", width, fmod=False)
    return positions - inside + (column * height + row)


def average_pool(ctx: Context, x: TapeValue) -> TapeValue:
    """AveragePool of x with the node's attributes."""
    include = bool(ctx.attr("count_include_pad", 0))
    window = _Window(ctx, x)
    n, c, *sizes = x.shape
    if len(sizes) == 3 or any(d != 1 for d in window.dilations):
        return _mean_of_sums(ctx, x, window, include)
    made = _flat_pool(ctx, "avg_pool2d", x, window, count_include_pad=include)
    return ctx.reshape(made, (n, c, *window.counts))


converter("AveragePool", limits="1 to 3 spatial dimensions")(lambda ctx: average_pool(ctx, ctx.input(0)))


def _sums(ctx: Context, x: TapeValue, window: _Window) -> TapeValue:
    """Sum of each window. It is computed by a convolution with ones, for which every channel is an image of
    its own."""
    n, c, *sizes = x.shape
    rank, behind = len(sizes), window.padded(sizes)
    for d, extra in enumerate(behind):
        if extra < 0:  # remove elements after the last window
            x = ctx.slice(x, 2 + d, 0, sizes[d] + extra)
    sizes = list(x.shape[2:])
    flat = ctx.reshape(x, (n * c, 1, *sizes))
    flat = pad(ctx, flat, [0, 0, *window.pads[:rank], 0, 0, *(max(b, 0) for b in behind)])
    ones = ctx.full((1, 1, *window.kernel), 1, x.dtype)
    made = ctx.convolution("", flat, ones, strides=window.strides, dilations=window.dilations)
    return ctx.reshape(made, (n, c, *window.counts))


def _mean_of_sums(ctx: Context, x: TapeValue, window: _Window, include: bool) -> TapeValue:
    """Mean of each window from its sum and the number of its elements that count. This number follows from
    the shapes."""
    counts, rank = np.ones(()), len(window.kernel)
    ctx.fits(*window.counts)
    for d, n in enumerate(x.shape[2:]):
        ctx.fits(window.counts[d], window.kernel[d])
        begin, end = (window.pads[d], window.pads[d + rank]) if include else (0, 0)
        first = np.arange(window.counts[d]) * window.strides[d] - window.pads[d]
        positions = first[:, None] + np.arange(window.kernel[d]) * window.dilations[d]
        inside = ((positions >= -begin) & (positions < n + end)).sum(1)
        counts = counts[..., None] * inside
    return _sums(ctx, x, window) / ctx.const(counts, x.dtype)


@converter("LpPool", limits="1 to 3 spatial dimensions")
def _lp_pool(ctx: Context) -> Results:
    x, p = ctx.input(0), ctx.attr("p", 2)
    powered = abs(x) if p % 2 else x
    powered = powered if p == 1 else powered**p
    return _root(_sums(ctx, powered, _Window(ctx, x)), p)


def _root(x: TapeValue, p: int) -> TapeValue:
    return x if p == 1 else x ** (1 / p)


@converter("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global(ctx: Context) -> Results:
    x, op = ctx.input(0), ctx.node.op_type
    n, c, *sizes = x.shape
    shape = (n, c, *(1 for _ in sizes))
    if op == "GlobalLpPool":
        p = ctx.attr("p", 2)
        powered = abs(x) ** p
        return _root(powered.sum(axes=list(range(2, x.rank))), p)
    flat = x if len(sizes) == 2 else ctx.reshape(x, (n, c, 1, math.prod(sizes)))
    made = ctx.op("global_avg_pool2d" if op == "GlobalAveragePool" else "global_max_pool2d", flat)
    return ctx.reshape(made, shape)


@converter("RoiAlign")
def _roi_align(ctx: Context) -> Results:
    default = "half_pixel" if ctx.opset >= 16 else "output_half_pixel"
    transform = ctx.attr("coordinate_transformation_mode", default)
    if transform not in ("half_pixel", "output_half_pixel"):
        ctx.fail(f"coordinate_transformation_mode {transform!r} is not supported")
    return ctx.op(
        "roi_align",
        ctx.input(0),
        ctx.input(1),
        ctx.input(2),
        mode=ctx.attr("mode", "avg"),
        output_shape=[ctx.attr("output_height", 1), ctx.attr("output_width", 1)],
        sampling_ratio=ctx.attr("sampling_ratio", 0),
        spatial_scale=ctx.attr("spatial_scale", 1.0),
        half_pixel=transform == "half_pixel",
    )
