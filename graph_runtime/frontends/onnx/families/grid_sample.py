"""GridSample: an image read at coordinates that a tensor says: the nearest element or a mix of neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..context import Context, Results, converter
from ..tape import TapeValue

__all__ = ["Axis", "mixes"]

_CUBIC = -0.75  # the coefficient a of the cubic kernel


@converter("GridSample", limits="1 to 3 spatial dimensions; cubic: at most 2")
def _grid_sample(ctx: Context) -> Results:
    x, grid = ctx.input(0), ctx.input(1)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(m := ctx.attr("mode", "linear"), m)
    corners, padding = bool(ctx.attr("align_corners", 0)), ctx.attr("padding_mode", "zeros")
    sizes = x.shape[2:]
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        ctx.fail(f"mode is {mode!r}, padding_mode {padding!r}")
    if len(sizes) > (2 if mode == "cubic" else 3):
        ctx.fail(f"mode {mode!r} of {len(sizes)} dimensions")
    taps = []
    for d, size in enumerate(sizes):  # the grid has x, the last dimension, first
        last = grid.rank - 1
        part = ctx.slice(grid, last, len(sizes) - 1 - d, len(sizes) - d)
        axis = Axis(ctx, size, corners, padding)
        points = math.prod(grid.shape[1:-1])
        taps.append(axis.taps(axis.coordinate(ctx.reshape(part, (x.shape[0], points))), mode))
    return _gathered(ctx, x, grid, taps)


def _gathered(ctx: Context, x: TapeValue, grid: TapeValue, taps: list[list[tuple[Any, ...]]]) -> TapeValue:
    """The sum over all combinations of taps: x at their indices, times their weights."""
    n, c, *sizes = x.shape
    flat = ctx.reshape(x, (n, c, math.prod(sizes)))
    total: Any = None
    for index, weight in mixes(ctx, sizes, taps):
        points = index.shape[1]
        index = ctx.expand(ctx.reshape(index, (n, 1, points)), (n, c, points))
        part = ctx.op("take_along_axis", flat, index, axis=2)
        if weight is not None:
            part = ctx.op("multiply", part, ctx.reshape(weight, (n, 1, points)))
        total = part if total is None else ctx.op("add", total, part)
    return ctx.reshape(total, (n, c, *grid.shape[1:-1]))


def mixes(
    ctx: Context, sizes: Sequence[int], taps: Sequence[Sequence[tuple[Any, ...]]]
) -> Iterator[tuple[TapeValue, Any]]:
    """Each combination of the dimensions' neighbours: (index in the flat image, weight or None for 1)."""
    for chosen in itertools.product(*taps):
        index: Any = None
        weight: Any = None
        for size, (at, by) in zip(sizes, chosen, strict=True):
            if index is None:
                index = at
            else:
                index = ctx.op("add", ctx.op("multiply", index, ctx.scalar(size, at)), at)
            if by is not None:
                weight = by if weight is None else ctx.op("multiply", weight, by)
        yield index, weight


class Axis:
    """One spatial dimension. Places are float [batch, points] in elements."""

    def __init__(self, ctx: Context, size: int, corners: bool, padding: str):
        self.ctx, self.size, self.padding = ctx, size, padding
        self.corners = corners
        self.low, self.high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)

    def _plus(self, x: TapeValue, value: float) -> TapeValue:
        return self.ctx.op("add", x, self.ctx.scalar(value, x))

    def _times(self, x: TapeValue, value: float) -> TapeValue:
        return self.ctx.op("multiply", x, self.ctx.scalar(value, x))

    def coordinate(self, part: TapeValue) -> TapeValue:
        """-1 .. 1 of the grid -> where in the image it lies."""
        scale = (self.size - 1 if self.corners else self.size) / 2
        return self._plus(self._times(self._plus(part, 1.0), scale), 0.0 if self.corners else -0.5)

    def inside(self, coordinate: TapeValue) -> TapeValue:
        """Moved into the image: to its edge, or mirrored at it as often as needed."""
        if self.padding == "zeros":
            return coordinate
        if self.padding == "border":
            return self.ctx.op("clip", coordinate, min=0.0, max=self.size - 1.0)
        span = self.high - self.low
        if span == 0:
            return self._times(coordinate, 0.0)
        away = self._plus(coordinate, -self.low)
        turns = self.ctx.op("floor", self._times(away, 1 / (2 * span)))
        away = self.ctx.op("subtract", away, self._times(turns, 2 * span))
        back = self._plus(self._times(away, -1.0), 2 * span)
        return self._plus(self.ctx.op("minimum", away, back), self.low)

    def taps(self, coordinate: TapeValue, mode: str) -> list[tuple[TapeValue, TapeValue | None]]:
        """(int64 index, weight or None for 1) of each neighbour that counts."""
        ctx = self.ctx
        coordinate = ctx.op("round", coordinate) if mode == "nearest" else coordinate
        coordinate = self.inside(coordinate)
        if mode == "nearest":
            return [self._tap(coordinate, None)]
        base = ctx.op("floor", coordinate)
        rest = ctx.op("subtract", coordinate, base)
        if mode == "linear":
            return [
                self._tap(base, self._plus(self._times(rest, -1.0), 1.0)),
                self._tap(self._plus(base, 1.0), rest),
            ]
        return [
            self._tap(self._plus(base, float(k)), self._cubic(self._plus(rest, -float(k))))
            for k in (-1, 0, 1, 2)
        ]

    def _cubic(self, distance: TapeValue) -> TapeValue:
        """The weight of a neighbour at this distance, less than 2."""
        ctx, a = self.ctx, _CUBIC
        d = ctx.op("abs", distance)
        square = ctx.op("multiply", d, d)
        near = ctx.op("multiply", self._plus(self._times(d, a + 2), -(a + 3)), square)
        far = self._plus(self._times(d, a), -5 * a)
        far = self._plus(ctx.op("multiply", far, d), 8 * a)
        far = self._plus(ctx.op("multiply", far, d), -4 * a)
        return ctx.op("where", ctx.op("less_equal", d, ctx.scalar(1, d)), self._plus(near, 1.0), far)

    def _tap(self, index: TapeValue, weight: TapeValue | None) -> tuple[TapeValue, TapeValue | None]:
        """With zeros, what lies outside gets the weight 0 (and any index inside)."""
        ctx, index = self.ctx, self.inside(index)
        safe = ctx.op("clip", index, min=0.0, max=self.size - 1.0)
        if self.padding == "zeros":
            there = ctx.cast(ctx.op("equal", safe, index), index.dtype)
            weight = there if weight is None else ctx.op("multiply", weight, there)
        return ctx.cast(safe, "int64"), weight
