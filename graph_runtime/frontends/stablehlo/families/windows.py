"""reduce_window and select_and_scatter: pools where they are pools, running sums, and windows of any body."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....base.dtypes import FLOATS
from ....base.errors import GraphError
from ...onnx.tape import TapeValue
from ..op_context import HloContext, Results, converter
from .reduce import combine, is_neutral
from .shapes import padded

_MOST_ELEMENTS = 4096  # of a window of select_and_scatter


@dataclass(frozen=True, slots=True)
class _Window:
    """One entry for each dimension."""

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
            ctx.fail(f"{name} {own} of a window of {rank} dimensions")
    if len(pads) != 2 * rank:
        ctx.fail(f"padding {pads} of {rank} dimensions")
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
    """Windows along one axis: of 1, 2, 4, ... elements, joined to the size that is wanted."""
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
    """A running sum: a window as long as an axis, that begins before it."""
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
    """A pool over at most two dimensions, the others before them; None where no pool does it."""
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
            made = ctx.op("multiply", made, ctx.scalar(math.prod(window.sizes), made))
    except GraphError:  # pads that no pool takes
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
        ctx.fail("its window is missing, or what is scattered is not added")
    if math.prod(window.sizes) > _MOST_ELEMENTS:
        ctx.fail(f"a window of {window.sizes}")
    better = ctx.body_compare(ctx.region(0))
    worst = -np.inf if better in ("GE", "GT") else np.inf
    if x.dtype not in FLOATS or not better:
        ctx.fail("what it selects is not the greatest or the least of floats")
    image = padded(ctx, x, ctx.scalar(worst, x), window.low, window.high)
    offsets = list(itertools.product(*map(range, window.sizes)))
    best, chosen = _chosen(ctx, image, source, window, offsets)
    assert best.shape == source.shape
    total = None
    for k, offset in enumerate(offsets):
        own = ctx.op("where", ctx.op("equal", chosen, ctx.scalar(k, chosen)), source, ctx.scalar(0, source))
        gaps = [s - 1 for s in window.strides]
        spread = [n + (n - 1) * g for n, g in zip(source.shape, gaps, strict=True)]
        low = [o - before for o, before in zip(offset, window.low, strict=True)]
        high = [n - b - s for n, b, s in zip(x.shape, low, spread, strict=True)]
        put = padded(ctx, own, ctx.scalar(0, own), low, high, gaps)
        total = put if total is None else ctx.op("add", total, put)
    assert total is not None
    return total if is_neutral("add", start) else ctx.op("add", total, start)


def _chosen(
    ctx: HloContext, image: TapeValue, source: TapeValue, window: _Window, offsets: list[tuple[int, ...]]
) -> tuple[TapeValue, TapeValue]:
    """The best element of each window, and at which offset it is; of equal ones the select decides."""
    best = chosen = None
    for k, offset in enumerate(offsets):
        ends = [o + (n - 1) * s + 1 for o, n, s in zip(offset, source.shape, window.strides, strict=True)]
        own = ctx.op(
            "slice", image, starts=list(offset), ends=ends, axes=list(range(image.rank)), steps=window.strides
        )
        if best is None or chosen is None:
            best, chosen = own, ctx.full(own.shape, 0, "int32")
            continue
        stays = ctx.run(ctx.region(0), [best, own])[0]
        best = ctx.op("where", stays, best, own)
        chosen = ctx.op("where", stays, chosen, ctx.const(k, "int32"))
    assert best is not None, "a window has an element"
    assert chosen is not None, "a window has an element"
    return best, chosen
