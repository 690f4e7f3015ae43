"""Convolutions of one, two and three dimensions, transposed ones, and the padding that auto_pad asks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..context import Context, Results, converter
from ..tape import TapeValue
from .shapes import pad

__all__ = ["convolve", "kernel_shape", "same_pads", "spatial"]


def same_pads(
    ctx: Context, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """``pads``, or what ``auto_pad`` makes of these sizes: all in front, then all behind."""
    rank, how = len(kernel), ctx.attr("auto_pad", "NOTSET") or "NOTSET"
    given = ctx.attr("pads", [0] * (2 * rank))
    if how == "NOTSET":
        return list(given)
    if how == "VALID":
        return [0] * (2 * rank)
    if how not in ("SAME_UPPER", "SAME_LOWER"):
        ctx.fail(f"auto_pad is {how!r}")
    front, behind = [], []
    for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        total = max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
        less = total // 2
        front.append(less if how == "SAME_UPPER" else total - less)
        behind.append(total - front[-1])
    return front + behind


def spatial(ctx: Context, name: str, rank: int) -> list[int]:
    """strides or dilations: one of each spatial dimension, 1 by default."""
    found = ctx.attr(name, [1] * rank)
    if len(found) != rank:
        ctx.fail(f"{name} is {found}, the image has {rank} dimensions")
    return found


def kernel_shape(ctx: Context, x: TapeValue, w: TapeValue) -> list[int]:
    """The kernel's sizes; refuses what is no convolution of one to three dimensions."""
    kernel = list(ctx.attr("kernel_shape", None) or w.shape[2:])
    if list(w.shape[2:]) != kernel or x.rank - 2 not in (1, 2, 3):
        ctx.fail(f"kernel_shape {kernel}, a weight {w.type} and an image {x.type} make no convolution")
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
    """Conv with the node's attributes. One dimension is two, the first of size 1; pads that no kernel takes
    are padded first. ``op``, ``more``, ``attrs``: another op of two dimensions, its inputs behind the
    weight, and its own attributes."""
    rank, kernel = x.rank - 2, kernel_shape(ctx, x, w)
    strides, dilations = spatial(ctx, "strides", rank), spatial(ctx, "dilations", rank)
    pads, group = same_pads(ctx, x.shape[2:], kernel, strides, dilations), ctx.attr("group", 1)
    extra = (*more, *(() if bias is None else (bias,)))
    if rank == 1:
        x = ctx.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        w = ctx.reshape(w, (*w.shape[:2], 1, w.shape[2]))
        strides, dilations, pads = [1, *strides], [1, *dilations], [0, pads[0], 0, pads[1]]
    made = ctx.op(
        op or ("conv3d" if rank == 3 else "conv2d"),
        x,
        w,
        *extra,
        strides=strides,
        dilations=dilations,
        pads=pads,
        group=group,
        **attrs,
    )
    return made if rank != 1 else ctx.reshape(made, (*made.shape[:2], made.shape[3]))


@converter("Conv", limits="1 to 3 spatial dimensions")
def _conv(ctx: Context) -> Results:
    return convolve(ctx, ctx.input(0), ctx.input(1), ctx.optional(2))


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
        if rank == 1:
            x, w = (ctx.reshape(v, (*v.shape[:2], 1, v.shape[2])) for v in (x, w))
            strides, dilations, pads = [1, *strides], [1, *dilations], [0, pads[0], 0, pads[1]]
            extra = [0, *extra]
        made = ctx.op(
            "conv_transpose2d",
            x,
            w,
            strides=strides,
            dilations=dilations,
            group=group,
            pads=pads,
            output_padding=extra,
        )
        made = made if rank == 2 else ctx.reshape(made, (*made.shape[:2], made.shape[3]))
    return made if bias is None else ctx.op("bias_add", made, bias, axis=1)


def _transpose_pads(
    ctx: Context,
    x: TapeValue,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: list[int],
) -> tuple[list[int], list[int]]:
    """(pads, output_padding) so that the output has the size that output_shape or auto_pad wants."""
    rank, how = len(kernel), ctx.attr("auto_pad", "NOTSET") or "NOTSET"
    pads, wanted = ctx.attr("pads", [0] * (2 * rank)), ctx.attr("output_shape", None)
    if wanted is None and how in ("NOTSET", "VALID"):
        return list(pads), list(extra)
    sizes = wanted or [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    front, behind, extra = [], [], list(extra)
    for d, size in enumerate(sizes[-rank:]):
        total = strides[d] * (x.shape[2 + d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1 - size
        if total < 0 and wanted is None:  # auto_pad takes away, ONNX Runtime and shape inference agree
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
    """A transposed convolution is one of the stretched image with the turned weight, whose groups keep their
    places."""
    for d, step in enumerate(strides):
        x = _stretched(ctx, x, 2 + d, step)
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


def _stretched(ctx: Context, x: TapeValue, axis: int, step: int) -> TapeValue:
    """step - 1 zeros between the elements along an axis."""
    if step == 1:
        return x
    shape = list(x.shape)
    wide = ctx.op("unsqueeze", x, axes=[axis + 1])
    wide = pad(ctx, wide, [0] * (wide.rank + axis + 1) + [step - 1] + [0] * (wide.rank - axis - 2))
    shape[axis] *= step
    made = ctx.reshape(wide, shape)
    return ctx.slice(made, axis, 0, shape[axis] - step + 1)


@converter("Col2Im")
def _col2im(ctx: Context) -> Results:
    """Each column's elements are added where they came from: one scatter over flat positions."""
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
