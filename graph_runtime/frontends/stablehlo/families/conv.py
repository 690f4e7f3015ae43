"""convolution: any layout of its operands, padding, dilation of both, groups of channels and of the batch."""

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
    """One entry for each spatial dimension."""

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
        ctx.fail(f"of {x.type} and {w.type}, dimension numbers {orders}; up to three spatial ones are done")
    window = _window(ctx, rank)
    inner = wanted.dtype if wanted.dtype in FLOATS else "float64"
    x = ctx.cast(ctx.transpose(x, orders[0]), inner)
    w = ctx.cast(ctx.transpose(w, orders[1]), inner)
    if any(window.reverse):
        w = ctx.op("reverse", w, axes=[2 + d for d in range(rank) if window.reverse[d]])
    groups = ctx.number("feature_group_count", default=1)
    batches = ctx.number("batch_group_count", default=1)
    if batches > 1:
        x, groups = _grouped_batch(ctx, x, batches, groups), batches
    if groups < 1 or x.shape[1] != groups * w.shape[1] or w.shape[0] % groups:
        ctx.fail(f"{groups} groups of {x.type} and {w.type}")
    made = _convolved(ctx, x, w, window, groups)
    back = [orders[2].index(d) for d in range(len(orders[2]))]
    return ctx.cast(ctx.transpose(made, back), wanted.dtype)


def _grouped_batch(ctx: HloContext, x: TapeValue, count: int, groups: int) -> TapeValue:
    """Parts of the batch as groups of channels: each meets filters of its own."""
    if groups != 1 or x.shape[0] % count:
        ctx.fail(f"batch_group_count {count} of {x.type} with {groups} feature groups")
    n, c, *rest = x.shape
    apart = ctx.reshape(x, (count, n // count, c, *rest))
    apart = ctx.transpose(apart, [1, 0, *range(2, apart.rank)])
    return ctx.reshape(apart, (n // count, count * c, *rest))


def _convolved(ctx: HloContext, x: TapeValue, w: TapeValue, window: _Window, groups: int) -> TapeValue:
    """The convolution of [n, c, ...] and [o, c / groups, ...]; what no kernel takes is padded first."""
    rank = x.rank - 2
    low, high = list(window.low), list(window.high)
    gaps = [d - 1 for d in window.lhs_dilation]
    if any(gaps) or min([0, *low, *high]) < 0:
        x = padded(ctx, x, ctx.scalar(0, x), [0, 0, *low], [0, 0, *high], [0, 0, *gaps])
        low, high = [0] * rank, [0] * rank
    missing = max(2 - rank, 0)
    if missing:
        ones = [1] * missing
        x = ctx.reshape(x, (*x.shape[:2], *ones, *x.shape[2:]))
        w = ctx.reshape(w, (*w.shape[:2], *ones, *w.shape[2:]))
    zeros, ones = [0] * missing, [1] * missing
    made = ctx.op(
        "conv3d" if rank == 3 else "conv2d",
        x,
        w,
        strides=[*ones, *window.strides],
        pads=[*zeros, *low, *zeros, *high],
        dilations=[*ones, *window.rhs_dilation],
        group=groups,
    )
    return ctx.reshape(made, (*made.shape[:2], *made.shape[2 + missing :])) if missing else made


def _orders(ctx: HloContext) -> list[list[int]]:
    """Of input, kernel and output: which dimension is batch or output feature, feature, each spatial one."""
    numbers = ctx.attr("dimension_numbers")
    found: list[list[int]] = []
    if isinstance(numbers, dict):
        for batch, feature, spatial in _FIELDS:
            found.append([int(numbers[batch]), int(numbers[feature]), *ctx.field_ints(numbers, spatial)])
    elif isinstance(numbers, list) and len(numbers) == 3:
        for marks, (first, second) in zip(numbers, (_LHS, _RHS, _LHS), strict=True):
            wanted: list[Any] = [first, second, *range(len(marks) - 2)]
            if sorted(map(str, marks)) != sorted(map(str, wanted)):
                ctx.fail(f"dimension numbers {marks}")
            found.append([marks.index(each) for each in wanted])
    else:
        ctx.fail("dimension_numbers are no three lists")
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
        ctx.fail("strides and dilations are at least 1")
    return found
