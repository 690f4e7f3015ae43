"""convolution with any layout of its operands, with padding, dilation of image and kernel, and groups of
features or of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....base.dtypes import FLOATS
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter
from .shapes import padded

_LHS, _RHS = ("b", "f"), ("o", "i")
_FIELDS = (
    ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    ("kernel_output_feature_dimension", "kernel_input_feature_dimension", "kernel_spatial_dimensions"),
    ("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
)


@dataclass(frozen=True, slots=True)
class _Window:
    """Attributes of a convolution's window: each has one entry per spatial dimension."""

    strides: list[int]
    low: list[int]
    high: list[int]
    lhs_dilation: list[int]
    rhs_dilation: list[int]
    reverse: list[int]


@converter("convolution")
def _convolution(ctx: HloContext) -> Results:
    x, w, wanted = ctx.input(0), ctx.input(1), ctx.made
    orders = _orders(ctx)
    rank = x.rank - 2
    if not all(len(order) == x.rank == w.rank == len(wanted.shape) for order in orders) or rank > 3:
        ctx.fail(
            f"dimension numbers {orders} do not fit {x.type} and {w.type}, or are over three spatial ones"
        )
    window = _window(ctx, rank)
    inner = wanted.dtype if wanted.dtype in FLOATS else "float64"
    x = ctx.transpose(x, orders[0]).cast(inner)
    w = ctx.transpose(w, orders[1]).cast(inner)
    if any(window.reverse):
        w = ctx.op("reverse", w, axes=[2 + d for d in range(rank) if window.reverse[d]])
    groups = ctx.number("feature_group_count", default=1)
    batches = ctx.number("batch_group_count", default=1)
    if batches > 1:
        x, groups = _grouped_batch(ctx, x, batches, groups), batches
    if groups < 1 or x.shape[1] != groups * w.shape[1] or w.shape[0] % groups:
        ctx.fail(f"{groups} groups do not fit {x.type} and {w.type}")
    made = _convolved(ctx, x, w, window, groups)
    back = [orders[2].index(d) for d in range(len(orders[2]))]
    return ctx.transpose(made, back).cast(wanted.dtype)


def _grouped_batch(ctx: HloContext, x: TapeValue, count: int, groups: int) -> TapeValue:
    """x with the batch divided into ``count`` parts, which become groups of channels, so that each group is
    convolved with its own filters."""
    if groups != 1 or x.shape[0] % count:
        ctx.fail(f"batch_group_count {count} does not fit {x.type} with {groups} feature groups")
    n, c, *rest = x.shape
    apart = ctx.reshape(x, (count, n // count, c, *rest))
    apart = ctx.transpose(apart, [1, 0, *range(2, apart.rank)])
    return ctx.reshape(apart, (n // count, count * c, *rest))


def _convolved(ctx: HloContext, x: TapeValue, w: TapeValue, window: _Window, groups: int) -> TapeValue:
    """The convolution of an image [n, c, ...] with filters [o, c / groups, ...]. Padding that the convolution
    op does not support is added to the image first."""
    rank = x.rank - 2
    low, high = list(window.low), list(window.high)
    gaps = [d - 1 for d in window.lhs_dilation]
    if any(gaps) or min([0, *low, *high]) < 0:
        x = padded(ctx, x, x.scalar(0), [0, 0, *low], [0, 0, *high], [0, 0, *gaps])
        low, high = [0] * rank, [0] * rank
    how = {"strides": window.strides, "dilations": window.rhs_dilation}
    return ctx.convolution("", x, w, pads=[*low, *high], group=groups, **how)


def _orders(ctx: HloContext) -> list[list[int]]:
    """For input, kernel and output each: indices of the batch dimension (for the kernel, of the output
    features), the feature dimension, and the spatial dimensions."""
    numbers = ctx.attr("dimension_numbers")
    found: list[list[int]] = []
    if isinstance(numbers, dict):
        for batch, feature, spatial in _FIELDS:
            found.append([int(numbers[batch]), int(numbers[feature]), *ctx.field_ints(numbers, spatial)])
    elif isinstance(numbers, list) and len(numbers) == 3:
        for marks, (first, second) in zip(numbers, (_LHS, _RHS, _LHS), strict=True):
            wanted: list[Any] = [first, second, *range(len(marks) - 2)]
            if sorted(map(str, marks)) != sorted(map(str, wanted)):
                ctx.fail(f"dimension numbers {marks} are invalid")
            found.append([marks.index(each) for each in wanted])
    else:
        ctx.fail("dimension_numbers are not three lists")
    for order in found:
        ctx.dims(order, len(order), "dimension numbers")
    return found


def _window(ctx: HloContext, rank: int) -> _Window:
    own = ctx.attr("window", default=None)
    if isinstance(own, dict):
        names = ("stride", "pad", "lhs_dilate", "rhs_dilate", "reverse")
        strides, pads, lhs, rhs, turned = (own.get(name) for name in names)
        pads = None if pads is None else [n for pair in pads for n in pair]
    else:
        names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal")
        strides, pads, lhs, rhs, turned = (ctx.ints(name, default=None) for name in names)
    pads = [0] * (2 * rank) if pads is None else pads
    found = _Window(
        strides or [1] * rank,
        pads[0::2],
        pads[1::2],
        lhs or [1] * rank,
        rhs or [1] * rank,
        [int(t) for t in turned or [0] * rank],
    )
    lists = (found.strides, found.low, found.high, found.lhs_dilation, found.rhs_dilation, found.reverse)
    if any(len(each) != rank or not all(isinstance(n, int) for n in each) for each in lists):
        ctx.fail(f"a window of {rank} dimensions needs as many strides, pads and dilations")
    if min([1, *found.strides, *found.lhs_dilation, *found.rhs_dilation]) < 1:
        ctx.fail("strides and dilations must be at least 1")
    return found
