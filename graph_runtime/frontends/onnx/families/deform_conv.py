"""DeformConv: a convolution whose kernel reads where a tensor of offsets says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....base import dtypes
from ..context import Context, Results, converter
from ..tape import TapeValue
from .conv import kernel_shape, spatial
from .grid_sample import Axis, Tap, mixes


@converter("DeformConv", limits="1 to 3 spatial dimensions")
def _deform_conv(ctx: Context) -> Results:
    """What is sampled are rows of channels, [batch, places, taps, channels]; one product takes them."""
    layer = _Layer(ctx)
    rows = layer.sampled()
    n, groups, inner = layer.x.shape[0], layer.group, layer.weight.shape[1]
    rows = ctx.reshape(rows, (n, layer.places, layer.taps, groups, inner))
    rows = ctx.reshape(ctx.transpose(rows, [0, 3, 1, 2, 4]), (n, groups, layer.places, layer.taps * inner))
    outer = layer.weight.shape[0] // groups
    weight = ctx.reshape(layer.weight, (groups, outer, inner, layer.taps))
    weight = ctx.reshape(ctx.transpose(weight, [0, 3, 2, 1]), (1, groups, layer.taps * inner, outer))
    made = ctx.transpose(ctx.op("matmul", rows, weight), [0, 1, 3, 2])
    made = ctx.reshape(made, (n, groups * outer, *layer.out))
    bias = ctx.optional(3)
    return made if bias is None else ctx.op("bias_add", made, bias, axis=1)


class _Layer:
    """A node's inputs and attributes, checked against each other."""

    def __init__(self, ctx: Context):
        self.ctx = ctx
        self.x, self.weight, self.offset = ctx.input(0), ctx.input(1), ctx.input(2)
        self.mask = ctx.optional(4)
        self.kernel = kernel_shape(ctx, self.x, self.weight)
        rank = len(self.kernel)
        self.strides, self.dilations = spatial(ctx, "strides", rank), spatial(ctx, "dilations", rank)
        self.pads = ctx.attr("pads", [0] * (2 * rank))
        if len(self.pads) != 2 * rank or min((*self.strides, *self.dilations)) < 1:
            ctx.fail(f"pads {self.pads}, strides {self.strides}, dilations {self.dilations}")
        self.group, self.parts = ctx.attr("group", 1), ctx.attr("offset_group", 1)
        self.sizes = self.x.shape[2:]
        self.out = [self._out(d) for d in range(rank)]
        self.taps, self.places = math.prod(self.kernel), math.prod(self.out)
        self._check()

    def _out(self, d: int) -> int:
        rank, reach = len(self.kernel), self.dilations[d] * (self.kernel[d] - 1) + 1
        room = self.sizes[d] + self.pads[d] + self.pads[d + rank] - reach
        if room < 0:
            self.ctx.fail(f"a kernel that reaches over {reach} does not fit into spatial dimension {d}")
        return room // self.strides[d] + 1

    def _check(self) -> None:
        ctx, (n, channels), (outer, inner) = self.ctx, self.x.shape[:2], self.weight.shape[:2]
        if min(self.group, self.parts) < 1 or channels % self.parts or outer % self.group:
            groups = f"group {self.group} and offset_group {self.parts}"
            ctx.fail(f"{groups} do not divide {outer} results and {channels} channels")
        if inner * self.group != channels:
            ctx.fail(f"a weight {self.weight.type} of group {self.group} and an image {self.x.type}")
        rank = len(self.kernel)
        for name, value, each in (("offset", self.offset, rank), ("mask", self.mask, 1)):
            wanted = (n, self.parts * self.taps * each, *self.out)
            if value is not None and value.shape != wanted:
                ctx.fail(f"{name} has shape {list(value.shape)}, {list(wanted)} is wanted")

    def sampled(self) -> TapeValue:
        """What the kernel reads, times the mask: [batch, places, taps, channels]."""
        ctx, n, parts = self.ctx, self.x.shape[0], self.parts
        inner, pixels = self.x.shape[1] // parts, math.prod(self.sizes)
        image = ctx.reshape(self.x, (n, parts, inner, pixels))
        image = ctx.reshape(ctx.transpose(image, [0, 1, 3, 2]), (n * parts * pixels, inner))
        image = ctx.op("concatenate", image, ctx.full((1, inner), 0, image.dtype), axis=0)  # what is outside
        starts = ctx.const(np.arange(n * parts).reshape(-1, 1) * pixels, "int64")
        total: Any = None
        for index, weight, inside in mixes(ctx, self.sizes, self._neighbours()):
            index = ctx.op(
                "where", inside, ctx.op("add", index, starts), ctx.scalar(n * parts * pixels, index)
            )
            index = ctx.reshape(index, (index.shape[0] * index.shape[1],))
            part = ctx.op("take", image, index, axis=0)
            part = ctx.op("multiply", part, self._column(weight))
            total = part if total is None else ctx.op("add", total, part)
        if self.mask is not None:
            total = ctx.op("multiply", total, self._column(self.mask))
        total = ctx.reshape(total, (n, parts, self.taps, self.places, inner))
        return ctx.transpose(total, [0, 3, 2, 1, 4])

    def _column(self, factor: TapeValue) -> TapeValue:
        """A factor of each row, in the image's dtype."""
        return self.ctx.reshape(self.ctx.cast(factor, self.x.dtype), (math.prod(factor.shape), 1))

    def _neighbours(self) -> list[list[Tap]]:
        """For each spatial dimension the two neighbours of each place that is read."""
        ctx, rank, rows = self.ctx, len(self.kernel), self.x.shape[0] * self.parts
        offset = self.offset
        if dtypes.to_numpy(offset.dtype).itemsize < 4:  # too few bits for a place in an image
            offset = ctx.cast(offset, "float32")
        offset = ctx.reshape(offset, (rows, self.taps, rank, self.places))
        ctx.fits(self.taps, self.places)
        taps, places = np.indices(self.kernel), np.indices(self.out)
        found = []
        for d in range(rank):
            at = places[d].reshape(1, -1) * self.strides[d] - self.pads[d]
            at = at + taps[d].reshape(-1, 1) * self.dilations[d]
            moved = ctx.reshape(ctx.slice(offset, 2, d, d + 1), (rows, self.taps * self.places))
            place = ctx.op("add", moved, ctx.const(at.reshape(1, -1), moved.dtype))
            # what lies an element or more outside is 0, infinitely far away too
            place = ctx.op("clip", place, min=-1.0, max=float(self.sizes[d]))
            axis = Axis(ctx, self.sizes[d], corners=True, padding="zeros")
            found.append(axis.taps(place, "linear"))
        return found
