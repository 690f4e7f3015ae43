"""Convolutions of one to three dimensions, transposed convolutions, DeformConv (a kernel that reads at
offsets), and the padding of auto_pad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base import dtypes
from ....ir.value import where
from ..context import Context, Results, converter
from ..tape import TapeValue
from .grid_sample import Axis, Tap, mixes
from .shapes import pad


def same_pads(
    ctx: Context, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """``pads``, or the padding that ``auto_pad`` gives for these sizes: [front of each dimension, end of each
    dimension]."""
    rank, how = len(kernel), ctx.attr("auto_pad", "NOTSET") or "NOTSET"
    given = ctx.attr("pads", [0] * (2 * rank))
    if how == "NOTSET":
        return list(given)
    if how == "VALID":
        return [0] * (2 * rank)
    if how not in ("SAME_UPPER", "SAME_LOWER"):
        ctx.fail(f"auto_pad {how!r} is not supported")
    front, behind = [], []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        total = max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
        less = total // 2
        front.append(less if how == "SAME_UPPER" else total - less)
        behind.append(total - front[-1])
    return front + behind


def spatial(ctx: Context, name: str, rank: int) -> list[int]:
    """The attribute strides or dilations: one number per spatial dimension, by default 1."""
    found = ctx.attr(name, [1] * rank)
    if len(found) != rank:
        ctx.fail(f"{name} is {found}, but the image has {rank} dimensions")
    return found


def kernel_shape(ctx: Context, x: TapeValue, w: TapeValue) -> list[int]:
    """Sizes of the kernel. Refuses an image and weight that do not form a convolution of one to three
    dimensions."""
    kernel = list(ctx.attr("kernel_shape", None) or w.shape[2:])
    if list(w.shape[2:]) != kernel or x.rank - 2 not in (1, 2, 3):
        ctx.fail(f"kernel_shape {kernel}, a weight {w.type} and an image {x.type} do not form a convolution")
    return kernel


def convolve(
    ctx: Context,
    x: TapeValue,
    w: TapeValue,
    bias: TapeValue | None,
    op: str = "",
    *more: TapeValue,
    **attrs: Any,
) -> TapeValue:
    """A convolution with the node's attributes. ``op``: registry op; "": the standard convolution. ``more``:
    further inputs of the op, after the weight. ``attrs``: further attributes of the op."""
    rank, kernel = x.rank - 2, kernel_shape(ctx, x, w)
    strides, dilations = spatial(ctx, "strides", rank), spatial(ctx, "dilations", rank)
    pads, group = same_pads(ctx, x.shape[2:], kernel, strides, dilations), ctx.attr("group", 1)
    attrs |= {"strides": list(strides), "dilations": list(dilations)}
    extra = (*more, *(() if bias is None else (bias,)))
    return ctx.convolution(op, x, w, *extra, pads=pads, group=group, **attrs)


converter("Conv", limits="1 to 3 spatial dimensions")(
    lambda ctx: convolve(ctx, ctx.input(0), ctx.input(1), ctx.optional(2))
)


@converter("ConvTranspose", limits="1 to 3 spatial dimensions")
def _conv_transpose(ctx: Context) -> Results:
    x, w, bias = ctx.input(0), ctx.input(1), ctx.optional(2)
    rank, group, kernel = x.rank - 2, ctx.attr("group", 1), kernel_shape(ctx, x, w)
    strides, dilations = spatial(ctx, "strides", rank), spatial(ctx, "dilations", rank)
    extra = ctx.attr("output_padding", [0] * rank)
    pads, extra = _transpose_pads(ctx, x, kernel, strides, dilations, extra)
    if rank == 3:
        made = _as_conv3d(ctx, x, w, group, strides, dilations, pads, extra)
    else:
        how = {"pads": pads, "group": group, "strides": list(strides), "dilations": list(dilations)}
        extra = [0] * (rank == 1) + extra
        made = ctx.convolution("conv_transpose2d", x, w, output_padding=tuple(extra), **how)
    return made if bias is None else ctx.op("bias_add", made, bias, axis=1)


def _transpose_pads(
    ctx: Context,
    x: TapeValue,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: list[int],
) -> tuple[list[int], list[int]]:
    """(pads, output_padding) for an output of the size that output_shape or auto_pad asks for."""
    rank, how = len(kernel), ctx.attr("auto_pad", "NOTSET") or "NOTSET"
    pads, wanted = ctx.attr("pads", [0] * (2 * rank)), ctx.attr("output_shape", None)
    if wanted is None and how in ("NOTSET", "VALID"):
        return list(pads), list(extra)
    sizes = wanted or [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    front, behind, extra = [], [], list(extra)
    for d, size in enumerate(sizes[-rank:]):
        total = strides[d] * (x.shape[2 + d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1 - size
        if total < 0 and wanted is None:  # auto_pad never enlarges, as in ONNX Runtime and shape inference
            total = 0
        elif total < 0:
            extra[d], total = extra[d] - total, 0
        less = total // 2
        front.append(less if how == "SAME_UPPER" else total - less)
        behind.append(total - front[-1])
    return front + behind, extra


def _as_conv3d(
    ctx: Context,
    x: TapeValue,
    w: TapeValue,
    group: int,
    strides: list[int],
    dilations: list[int],
    pads: list[int],
    extra: list[int],
) -> TapeValue:
    """A 3-d transposed convolution, computed as a conv3d. The image is first spread by the strides, the
    weight is flipped, and each group is computed separately."""
    for d, step in enumerate(strides):
        x = ctx.spread(x, 2 + d, step - 1)
    channels, out, *kernel = w.shape
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    sides = [reach[d] - pads[d] for d in range(3)]
    sides += [reach[d] - pads[d + 3] + extra[d] for d in range(3)]
    for d in range(3):
        low, high = min(sides[d], 0), min(sides[d + 3], 0)
        x = ctx.slice(x, 2 + d, -low, x.shape[2 + d] + high)
    x = pad(ctx, x, [0, 0, *(max(s, 0) for s in sides[:3]), 0, 0, *(max(s, 0) for s in sides[3:])])
    if group < 1 or channels % group:
        ctx.fail(f"{channels} channels cannot be split into {group} groups")
    turned = ctx.reshape(w, (group, channels // group, out, *kernel))
    turned = ctx.transpose(turned, [0, 2, 1, 3, 4, 5])
    turned = ctx.op("reverse", ctx.reshape(turned, (group * out, channels // group, *kernel)), axes=[2, 3, 4])
    return ctx.op("conv3d", x, turned, dilations=dilations, group=group)


@converter("Col2Im")
def _col2im(ctx: Context) -> Results:
    """The image in which each element of the columns is added at the place it came from, by one scatter."""
    x, image, block = ctx.input(0), ctx.ints(1), ctx.ints(2)
    rank = len(image)
    strides, dilations = spatial(ctx, "strides", rank), spatial(ctx, "dilations", rank)
    pads = ctx.attr("pads", [0] * (2 * rank))
    padded = [n + pads[d] + pads[d + rank] for d, n in enumerate(image)]
    counts = [
        (p - d * (b - 1) - 1) // s + 1 for p, b, s, d in zip(padded, block, strides, dilations, strict=True)
    ]
    ctx.fits(*block, *(max(c, 0) for c in counts))
    inner = np.meshgrid(*(np.arange(b) * d for b, d in zip(block, dilations, strict=True)), indexing="ij")
    outer = np.meshgrid(*(np.arange(c) * s for c, s in zip(counts, strides, strict=True)), indexing="ij")
    flat: Any = 0
    for d in range(rank):
        flat = flat * padded[d] + inner[d].reshape(-1, 1) + outer[d].reshape(1, -1)
    n, channels = x.shape[0], x.shape[1] // math.prod(block)
    updates = ctx.reshape(x, (n * channels, flat.size))
    positions = ctx.expand(ctx.const(flat.reshape(1, -1), "int64"), updates.shape)
    zeros = ctx.full((n * channels, math.prod(padded)), 0, x.dtype)
    made = ctx.op("scatter_elements", zeros, positions, updates, axis=1, reduction="add")
    made = ctx.reshape(made, (n, channels, *padded))
    for d in range(rank):
        made = ctx.slice(made, 2 + d, pads[d], pads[d] + image[d])
    return made


# ---------------------------------------------------------------- offsets


@converter("DeformConv", limits="1 to 3 spatial dimensions")
def _deform_conv(ctx: Context) -> Results:
    """Result of DeformConv. The sampled elements are rows [batch, places, taps, channels]; one product
    multiplies them by the weight."""
    layer = _Layer(ctx)
    rows = layer.sampled()
    n, groups, inner = layer.x.shape[0], layer.group, layer.weight.shape[1]
    rows = ctx.reshape(rows, (n, layer.places, layer.taps, groups, inner))
    rows = ctx.reshape(ctx.transpose(rows, [0, 3, 1, 2, 4]), (n, groups, layer.places, layer.taps * inner))
    outer = layer.weight.shape[0] // groups
    weight = ctx.reshape(layer.weight, (groups, outer, inner, layer.taps))
    weight = ctx.reshape(ctx.transpose(weight, [0, 3, 2, 1]), (1, groups, layer.taps * inner, outer))
    made = ctx.transpose(rows @ weight, [0, 1, 3, 2])
    made = ctx.reshape(made, (n, groups * outer, *layer.out))
    bias = ctx.optional(3)
    return made if bias is None else ctx.op("bias_add", made, bias, axis=1)


class _Layer:
    """Inputs and attributes of a node, checked against each other."""

    def __init__(self, ctx: Context):
        self.ctx = ctx
        self.x, self.weight, self.offset = ctx.input(0), ctx.input(1), ctx.input(2)
        self.mask = ctx.optional(4)
        self.kernel = kernel_shape(ctx, self.x, self.weight)
        rank = len(self.kernel)
        self.strides, self.dilations = spatial(ctx, "strides", rank), spatial(ctx, "dilations", rank)
        self.pads = ctx.attr("pads", [0] * (2 * rank))
        if len(self.pads) != 2 * rank or min((*self.strides, *self.dilations)) < 1:
            ctx.fail(f"pads {self.pads}, strides {self.strides} or dilations {self.dilations} are invalid")
        self.group, self.parts = ctx.attr("group", 1), ctx.attr("offset_group", 1)
        self.sizes = self.x.shape[2:]
        self.out = [self._out(d) for d in range(rank)]
        self.taps, self.places = math.prod(self.kernel), math.prod(self.out)
        self._check()

    def _out(self, d: int) -> int:
        rank, reach = len(self.kernel), self.dilations[d] * (self.kernel[d] - 1) + 1
        room = self.sizes[d] + self.pads[d] + self.pads[d + rank] - reach
        if room < 0:
            self.ctx.fail(f"a kernel over {reach} elements does not fit into spatial dimension {d}")
        return room // self.strides[d] + 1

    def _check(self) -> None:
        ctx, (n, channels), (outer, inner) = self.ctx, self.x.shape[:2], self.weight.shape[:2]
        if min(self.group, self.parts) < 1 or channels % self.parts or outer % self.group:
            groups = f"group {self.group} and offset_group {self.parts}"
            ctx.fail(f"{groups} must divide {outer} results and {channels} channels")
        if inner * self.group != channels:
            ctx.fail(f"a weight {self.weight.type} of group {self.group} does not fit an image {self.x.type}")
        rank = len(self.kernel)
        for name, value, each in (("offset", self.offset, rank), ("mask", self.mask, 1)):
            wanted = (n, self.parts * self.taps * each, *self.out)
            if value is not None and value.shape != wanted:
                ctx.fail(f"{name} has shape {list(value.shape)} instead of {list(wanted)}")

    def sampled(self) -> TapeValue:
        """The elements that the kernel reads, multiplied by the mask: [batch, places, taps, channels]."""
        ctx, n, parts = self.ctx, self.x.shape[0], self.parts
        inner, pixels = self.x.shape[1] // parts, math.prod(self.sizes)
        image = ctx.reshape(self.x, (n, parts, inner, pixels))
        image = ctx.reshape(ctx.transpose(image, [0, 1, 3, 2]), (n * parts * pixels, inner))
        image = ctx.op("concatenate", image, ctx.full((1, inner), 0, image.dtype), axis=0)  # places outside
        starts = ctx.const(np.arange(n * parts).reshape(-1, 1) * pixels, "int64")
        total: Any = None
        for index, weight, inside in mixes(self.sizes, self._neighbours()):
            index = where(inside, index + starts, n * parts * pixels)
            index = ctx.reshape(index, (index.shape[0] * index.shape[1],))
            part = ctx.op("take", image, index, axis=0)
            part = part * self._column(weight)
            total = part if total is None else total + part
        if self.mask is not None:
            total = total * self._column(self.mask)
        total = ctx.reshape(total, (n, parts, self.taps, self.places, inner))
        return ctx.transpose(total, [0, 3, 2, 1, 4])

    def _column(self, factor: TapeValue) -> TapeValue:
        """A factor per row, in the image's dtype."""
        return self.ctx.reshape(factor.cast(self.x.dtype), (math.prod(factor.shape), 1))

    def _neighbours(self) -> list[list[Tap]]:
        """For each spatial dimension, the two neighbours of every place that is read."""
        ctx, rank, rows = self.ctx, len(self.kernel), self.x.shape[0] * self.parts
        offset = self.offset
        if dtypes.to_numpy(offset.dtype).itemsize < 4:  # 16 bits are too few for a place in an image
            offset = offset.cast("float32")
        offset = ctx.reshape(offset, (rows, self.taps, rank, self.places))
        ctx.fits(self.taps, self.places)
        taps, places = np.indices(self.kernel), np.indices(self.out)
        found = []
        for d in range(rank):
            at = places[d].reshape(1, -1) * self.strides[d] - self.pads[d]
            at = at + taps[d].reshape(-1, 1) * self.dilations[d]
            moved = ctx.reshape(ctx.slice(offset, 2, d, d + 1), (rows, self.taps * self.places))
            place = moved + ctx.const(at.reshape(1, -1), moved.dtype)
            # places at least one element outside the image give 0, even at infinite distance
            place = place.clip(min=-1.0, max=float(self.sizes[d]))
            axis = Axis(self.sizes[d], corners=True, padding="zeros")
            found.append(axis.taps(place, "linear"))
        return found
