"""GridSample: an image read at coordinates that a tensor says: the nearest element or a mix of neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..context import Context, Results, converter
from ..tape import TapeValue
from .mixing import narrow, to_even, wide

__all__ = ["Axis", "Tap", "mixes"]

_CUBIC = -0.75  # the coefficient a of the cubic kernel
_REACH = 3.0  # elements from which on a place outside of an image has no neighbour in it


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
    values = x if mode == "nearest" else wide(ctx, x)
    places = (
        wide(ctx, grid) if mode == "nearest" or values.dtype == "float32" else ctx.cast(grid, values.dtype)
    )
    values = values if mode == "nearest" else ctx.cast(values, places.dtype)
    taps = []
    for d, size in enumerate(sizes):  # the grid has x, the last dimension, first
        last = grid.rank - 1
        part = ctx.slice(places, last, len(sizes) - 1 - d, len(sizes) - d)
        axis = Axis(ctx, size, corners, padding)
        points = math.prod(grid.shape[1:-1])
        taps.append(axis.taps(axis.coordinate(ctx.reshape(part, (x.shape[0], points))), mode))
    return narrow(ctx, _gathered(ctx, values, grid, taps), x.dtype, to_even)


def _gathered(ctx: Context, x: TapeValue, grid: TapeValue, taps: list[list[Tap]]) -> TapeValue:
    """The sum over all combinations of taps: x at their indices, times their weights."""
    n, c, *sizes = x.shape
    pixels = math.prod(sizes)
    flat = ctx.reshape(x, (n, c, pixels))
    if taps[0][0].inside is not None:  # one more is 0, and stands for all that lies outside
        flat = ctx.op("concatenate", flat, ctx.full((n, c, 1), 0, x.dtype), axis=2)
    total: Any = None
    for index, weight, inside in mixes(ctx, sizes, taps):
        points = index.shape[1]
        if inside is not None:
            index = ctx.op("where", inside, index, ctx.scalar(pixels, index))
        index = ctx.expand(ctx.reshape(index, (n, 1, points)), (n, c, points))
        part = ctx.op("take_along_axis", flat, index, axis=2)
        if weight is not None:
            part = ctx.op("multiply", part, ctx.reshape(weight, (n, 1, points)))
        total = part if total is None else ctx.op("add", total, part)
    return ctx.reshape(total, (n, c, *grid.shape[1:-1]))


def mixes(
    ctx: Context, sizes: Sequence[int], taps: Sequence[Sequence[Tap]]
) -> Iterator[tuple[TapeValue, Any, Any]]:
    """Each combination of the dimensions' neighbours: (index in the flat image, weight or None for 1, whether
    it is in the image or None for all)."""
    for chosen in itertools.product(*taps):
        index, weight, inside = chosen[0].at, chosen[0].weight, chosen[0].inside
        for size, tap in zip(sizes[1:], chosen[1:], strict=True):
            index = ctx.op("add", ctx.op("multiply", index, ctx.scalar(size, index)), tap.at)
            if tap.weight is not None:
                weight = ctx.op("multiply", weight, tap.weight)
            if tap.inside is not None:
                inside = ctx.op("logical_and", inside, tap.inside)
        yield index, weight, inside


class Tap(NamedTuple):
    """A neighbour of each place along a dimension: its index in the image, int64, the nearest one in it where
    it lies outside; its weight, None for 1; whether it is ``inside``, None where all are."""

    at: TapeValue
    weight: Any
    inside: Any


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

    def near(self, coordinate: TapeValue) -> TapeValue:
        """A place to take neighbours of; not yet one at the border, where it is they that move. One far
        outside comes so near that they still are, all of them: an infinite one has no distance to any."""
        if self.padding == "reflection":
            return self.moved(coordinate)
        return self.ctx.op("clip", coordinate, min=-_REACH, max=self.size - 1 + _REACH)

    def moved(self, coordinate: TapeValue) -> TapeValue:
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

    def taps(self, coordinate: TapeValue, mode: str) -> list[Tap]:
        """The neighbours that count."""
        ctx = self.ctx
        coordinate = ctx.op("round", coordinate) if mode == "nearest" else coordinate
        coordinate = self.near(coordinate)
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

    def _tap(self, place: TapeValue, weight: TapeValue | None) -> Tap:
        ctx, place = self.ctx, self.moved(place)
        safe = ctx.op("clip", place, min=0.0, max=self.size - 1.0)
        inside = ctx.op("equal", safe, place) if self.padding == "zeros" else None
        return Tap(ctx.cast(safe, "int64"), weight, inside)
