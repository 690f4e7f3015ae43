"""GridSample: an image read at the coordinates that a tensor gives, as the nearest element or a weighted sum
of neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from ....ir.value import where
from ..context import Context, Results, converter
from ..tape import TapeValue
from .casts import narrow, to_even, wide

_CUBIC = -0.75  # coefficient a of the cubic kernel
_REACH = 3.0  # a place farther outside an image has no neighbour in it


@converter("GridSample", limits="1 to 3 spatial dimensions; cubic: at most 2")
def _grid_sample(ctx: Context) -> Results:
    x, grid = ctx.input(0), ctx.input(1)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(m := ctx.attr("mode", "linear"), m)
    corners, padding = bool(ctx.attr("align_corners", 0)), ctx.attr("padding_mode", "zeros")
    sizes = x.shape[2:]
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        ctx.fail(f"mode {mode!r} or padding_mode {padding!r} is not supported")
    if len(sizes) > (2 if mode == "cubic" else 3):
        ctx.fail(f"mode {mode!r} is not supported for {len(sizes)} dimensions")
    values = x if mode == "nearest" else wide(ctx, x)
    places = wide(ctx, grid) if mode == "nearest" or values.dtype == "float32" else grid.cast(values.dtype)
    values = values if mode == "nearest" else values.cast(places.dtype)
    taps = []
    for d, size in enumerate(sizes):  # the grid's first coordinate, x, belongs to the last dimension
        last = grid.rank - 1
        part = ctx.slice(places, last, len(sizes) - 1 - d, len(sizes) - d)
        axis = Axis(size, corners, padding)
        points = math.prod(grid.shape[1:-1])
        taps.append(axis.taps(axis.coordinate(ctx.reshape(part, (x.shape[0], points))), mode))
    return narrow(_gathered(ctx, values, grid, taps), x.dtype, to_even)


def _gathered(ctx: Context, x: TapeValue, grid: TapeValue, taps: list[list[Tap]]) -> TapeValue:
    """Sum over all combinations of taps: the elements of x at the taps' indices, multiplied by the taps'
    weights."""
    n, c, *sizes = x.shape
    pixels = math.prod(sizes)
    flat = ctx.reshape(x, (n, c, pixels))
    if taps[0][0].inside is not None:  # one more element, 0, represents all places outside
        flat = ctx.op("concatenate", flat, ctx.full((n, c, 1), 0, x.dtype), axis=2)

    def part(index: TapeValue, weight: TapeValue | None, inside: TapeValue | None) -> TapeValue:
        points = index.shape[1]
        if inside is not None:
            index = where(inside, index, pixels)
        index = ctx.expand(ctx.reshape(index, (n, 1, points)), (n, c, points))
        found = ctx.op("take_along_axis", flat, index, axis=2)
        return found if weight is None else found * ctx.reshape(weight, (n, 1, points))

    total = reduce(add, itertools.starmap(part, mixes(sizes, taps)))
    return ctx.reshape(total, (n, c, *grid.shape[1:-1]))


def mixes(sizes: Sequence[int], taps: Sequence[Sequence[Tap]]) -> Iterator[tuple[TapeValue, Any, Any]]:
    """(index in the flat image, weight, whether the index is inside the image) for each combination of the
    dimensions' neighbours. A weight of None means 1. None for the last item means that all indices are
    inside."""
    for chosen in itertools.product(*taps):
        index, weight, inside = chosen[0].at, chosen[0].weight, chosen[0].inside
        for size, tap in zip(sizes[1:], chosen[1:], strict=True):
            index = index * size + tap.at
            if tap.weight is not None:
                weight = weight * tap.weight
            if tap.inside is not None:
                inside = inside & tap.inside
        yield index, weight, inside


class Tap(NamedTuple):
    """A neighbour of each place along one dimension. ``at``: index of the neighbour in the image, int64; for
    a neighbour outside, the nearest index inside. ``weight``: factor of the neighbour; None: 1. ``inside``:
    whether the neighbour is in the image; None: all neighbours are."""

    at: TapeValue
    weight: Any
    inside: Any


class Axis:
    """One spatial dimension. Places are float [batch, points], in units of elements."""

    def __init__(self, size: int, corners: bool, padding: str):
        self.size, self.corners, self.padding = size, corners, padding
        self.low, self.high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)

    def coordinate(self, part: TapeValue) -> TapeValue:
        """The place in the image that corresponds to a grid coordinate in -1 .. 1."""
        scale = (self.size - 1 if self.corners else self.size) / 2
        return (part + 1.0) * scale + (0.0 if self.corners else -0.5)

    def near(self, coordinate: TapeValue) -> TapeValue:
        """The place whose neighbours are read. With padding border and zeros, a place far outside is moved
        nearer, because an infinite place has no distance to a neighbour. After the move all its neighbours
        are still outside.
        """
        if self.padding == "reflection":
            return self.moved(coordinate)
        return coordinate.clip(-_REACH, self.size - 1 + _REACH)

    def moved(self, coordinate: TapeValue) -> TapeValue:
        """A coordinate moved into the image: clipped to the edge, or mirrored as often as needed."""
        if self.padding == "zeros":
            return coordinate
        if self.padding == "border":
            return coordinate.clip(0.0, self.size - 1.0)
        span = self.high - self.low
        if span == 0:
            return coordinate * 0.0
        away = coordinate + -self.low
        turns = (away * (1 / (2 * span))).floor()
        away = away - turns * (2 * span)
        return away.minimum(away * -1.0 + 2 * span) + self.low

    def taps(self, coordinate: TapeValue, mode: str) -> list[Tap]:
        """The neighbours that contribute."""
        coordinate = coordinate.round() if mode == "nearest" else coordinate
        coordinate = self.near(coordinate)
        if mode == "nearest":
            return [self._tap(coordinate, None)]
        base = coordinate.floor()
        rest = coordinate - base
        if mode == "linear":
            return [self._tap(base, rest * -1.0 + 1.0), self._tap(base + 1.0, rest)]
        return [self._tap(base + float(k), _cubic(rest + -float(k))) for k in (-1, 0, 1, 2)]

    def _tap(self, place: TapeValue, weight: TapeValue | None) -> Tap:
        place = self.moved(place)
        safe = place.clip(0.0, self.size - 1.0)
        inside = safe.equal(place) if self.padding == "zeros" else None
        return Tap(safe.cast("int64"), weight, inside)


def _cubic(distance: TapeValue) -> TapeValue:
    """Weight of a neighbour at a distance below 2."""
    a, d = _CUBIC, abs(distance)
    near = (d * (a + 2) + -(a + 3)) * (d * d) + 1.0
    far = ((d * a + -5 * a) * d + 8 * a) * d + -4 * a
    return where(d <= 1, near, far)
