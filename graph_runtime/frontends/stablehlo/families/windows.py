"""reduce_window and select_and_scatter: pools, running sums, and windows of any other body."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from ....base.dtypes import FLOATS
from ....base.errors import GraphError
from ....ir.value import where
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter
from .reduce import combine, is_neutral
from .shapes import padded

_MOST_ELEMENTS = 4096  # most elements of a window of select_and_scatter


@dataclass(frozen=True, slots=True)
class _Window:
    """Attributes of a window: each has one entry per dimension."""

    sizes: list[int]
    strides: list[int]
    dilations: list[int]
    base: list[int]
    low: list[int]
    high: list[int]


def _window(ctx: HloContext, rank: int) -> _Window:
    ones = [1] * rank
    pads = ctx.ints("padding", default=[0] * (2 * rank))
    found = _Window(
        ctx.ints("window_dimensions"),
        ctx.ints("window_strides", default=ones),
        ctx.ints("window_dilations", default=ones),
        ctx.ints("base_dilations", default=ones),
        pads[0::2],
        pads[1::2],
    )
    for name in ("sizes", "strides", "dilations", "base"):
        own = getattr(found, name)
        if len(own) != rank or min([1, *own]) < 1:
            ctx.fail(f"{name} {own} do not fit a window of {rank} dimensions")
    if len(pads) != 2 * rank:
        ctx.fail(f"padding {pads} does not fit {rank} dimensions")
    return found


@converter("reduce_window")
def _reduce_window(ctx: HloContext) -> Results:
    count = len(ctx.inputs) // 2
    values, starts = ctx.inputs[:count], ctx.inputs[count:]
    if not values or len(starts) != count or any(v.shape != values[0].shape for v in values):
        ctx.fail("its operands have different shapes")
    x, region = values[0], ctx.region(0)
    window = _window(ctx, x.rank)
    body = ctx.body_op(region)
    if count == 1 and is_neutral(body, starts[0]):
        made = _running(ctx, x, window, body) or _pool(ctx, x, window, body)
        if made is not None:
            return made
    gaps = [b - 1 for b in window.base]
    rows = [padded(ctx, v, s, window.low, window.high, gaps) for v, s in zip(values, starts, strict=True)]
    for axis in range(x.rank):
        rows = _along(ctx, rows, axis, window)
    if not (count == 1 and is_neutral(body, starts[0])):
        rows = combine(ctx, region, list(starts), rows)
    return rows


def _along(ctx: HloContext, rows: list[TapeValue], axis: int, window: _Window) -> list[TapeValue]:
    """Reductions of windows along one axis. Partial results over 1, 2, 4, ... elements are joined to windows
    of the wanted size."""
    size, dilation, stride = window.sizes[axis], window.dilations[axis], window.strides[axis]
    region, have = ctx.region(0), rows[0].shape[axis]
    length = have - (size - 1) * dilation
    if length < 1:
        return [ctx.slice(row, axis, 0, 0) for row in rows]

    def part(values: list[TapeValue], at: int, count: int) -> list[TapeValue]:
        return [ctx.slice(v, axis, at, at + count) for v in values]

    found: list[TapeValue] = []
    power, width, at = rows, 1, 0
    while True:
        if size & width:
            own = part(power, at * dilation, length)
            found = combine(ctx, region, found, own) if found else own
            at += width
        width *= 2
        if width > size:
            break
        room = have - (width - 1) * dilation
        power = combine(ctx, region, part(power, 0, room), part(power, width // 2 * dilation, room))
    if stride == 1:
        return found
    return [ctx.op("slice", v, starts=[0], ends=[length], axes=[axis], steps=[stride]) for v in found]


def _running(ctx: HloContext, x: TapeValue, window: _Window, body: str) -> TapeValue | None:
    """A running sum. It is possible if each window is as long as the axis and is padded to begin or end at
    its own element; None for other windows."""
    axes = [d for d, n in enumerate(window.sizes) if n > 1]
    if body != "add" or x.dtype == "bool" or len(axes) != 1 or max(window.strides + window.base) > 1:
        return None
    n, axis = x.shape[axes[0]], axes[0]
    others = [p for d in range(x.rank) if d != axis for p in (window.low[d], window.high[d])]
    if window.sizes[axis] != n or window.dilations[axis] != 1 or any(others):
        return None
    pads = window.low[axis], window.high[axis]
    if pads not in ((n - 1, 0), (0, n - 1)):
        return None
    return ctx.op("cumsum", x, axis=axis, reverse=pads[0] == 0)


def _pool(ctx: HloContext, x: TapeValue, window: _Window, body: str) -> TapeValue | None:
    """A pool over at most two dimensions, which are moved to the end; None if no pool is equivalent."""
    moved = [
        d
        for d in range(x.rank)
        if (window.sizes[d], window.strides[d], window.low[d], window.high[d]) != (1, 1, 0, 0)
    ]
    dilated = any(window.dilations[d] > 1 for d in moved)
    if x.dtype not in FLOATS or not 1 <= len(moved) <= 2 or max(window.base) > 1:
        return None
    if body not in ("add", "maximum") or (dilated and body == "add"):
        return None
    others = [d for d in range(x.rank) if d not in moved]
    front = [x.shape[d] for d in others] if len(others) == 2 else [1, math.prod(x.shape[d] for d in others)]
    one = [1] * (2 - len(moved))
    image = ctx.reshape(ctx.transpose(x, [*others, *moved]), (*front, *one, *(x.shape[d] for d in moved)))

    def of(values: Sequence[int], none: int) -> list[int]:
        return [none] * len(one) + [values[d] for d in moved]

    attrs = {
        "kernel_shape": of(window.sizes, 1),
        "strides": of(window.strides, 1),
        "pads": of(window.low, 0) + of(window.high, 0),
    }
    try:
        if body == "maximum":
            made = ctx.op("max_pool2d", image, dilations=of(window.dilations, 1), **attrs)
        else:
            made = ctx.op("avg_pool2d", image, count_include_pad=True, **attrs)
            made = made * math.prod(window.sizes)
    except GraphError:  # no pool takes these pads
        return None
    order = [*others, *moved]
    made = ctx.reshape(made, [*(x.shape[d] for d in others), *made.shape[4 - len(moved) :]])
    return ctx.transpose(made, [order.index(d) for d in range(x.rank)])


# ---------------------------------------------------------------- the gradient of a pool


@converter("select_and_scatter")
def _select_and_scatter(ctx: HloContext) -> Results:
    x, source, start = ctx.input(0), ctx.input(1), ctx.input(2)
    window = _window(ctx, x.rank) if ctx.attr("window_dimensions", default=None) is not None else None
    if window is None or ctx.body_op(ctx.region(1)) != "add":
        ctx.fail("it must have a window, and its scatter region must add")
    if math.prod(window.sizes) > _MOST_ELEMENTS:
        ctx.fail(f"a window of {window.sizes} has too many elements")
    better = ctx.body_compare(ctx.region(0))
    worst = -np.inf if better in ("GE", "GT") else np.inf
    if x.dtype not in FLOATS or not better:
        ctx.fail("it must select the greatest or the least of floats")
    image = padded(ctx, x, x.scalar(worst), window.low, window.high)
    offsets = list(itertools.product(*map(range, window.sizes)))
    best, chosen = _chosen(ctx, image, source, window, offsets)
    assert best.shape == source.shape
    gaps = [s - 1 for s in window.strides]
    spread = [n + (n - 1) * g for n, g in zip(source.shape, gaps, strict=True)]

    def put(k: int, offset: tuple[int, ...]) -> TapeValue:
        own = where(chosen.equal(k), source, 0)
        low = [o - before for o, before in zip(offset, window.low, strict=True)]
        high = [n - b - s for n, b, s in zip(x.shape, low, spread, strict=True)]
        return padded(ctx, own, own.scalar(0), low, high, gaps)

    total = reduce(add, itertools.starmap(put, enumerate(offsets)))
    return total if is_neutral("add", start) else total + start


def _chosen(
    ctx: HloContext, image: TapeValue, source: TapeValue, window: _Window, offsets: list[tuple[int, ...]]
) -> tuple[TapeValue, TapeValue]:
    """(the best element of each window, the index of its offset in ``offsets``). Between two elements the
    select region decides, also if they are equal."""

    def part(offset: tuple[int, ...]) -> TapeValue:
        ends = [o + (n - 1) * s + 1 for o, n, s in zip(offset, source.shape, window.strides, strict=True)]
        axes = list(range(image.rank))
        return ctx.op("slice", image, starts=list(offset), ends=ends, axes=axes, steps=window.strides)

    parts = map(part, offsets)
    best = next(parts)
    chosen = ctx.full(best.shape, 0, "int32")
    for k, own in enumerate(parts, 1):
        stays = ctx.run(ctx.region(0), [best, own])[0]
        best = where(stays, best, own)
        chosen = where(stays, chosen, ctx.const(k, "int32"))
    return best, chosen
