"""Values of images between their pixels."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..ir.ops.moving.shape import exactly
from ..ir.value import Value

V = TypeVar("V", bound=Value)


def sampled(pixels: V, x: V, y: V, height: int, width: int) -> V:
    """[n, p, c]: the values at the places x, y [n, p], in pixels, of images [n, height width, c]. A value is
    a mean of the four pixels around its place, weighted by the distances; pixels outside of the image are
    0."""
    images, _, channels = pixels.shape
    points = x.shape[1]
    left, top = x.floor(), y.floor()
    across, down = x - left, y - top
    first = x.scalar((np.arange(images, dtype=np.int32) * (height * width))[:, None], "int32")
    rows = pixels.op("reshape", **exactly((images * height * width, channels)))
    made = None
    for row, share_y in ((top, 1.0 - down), (top + 1.0, down)):
        for column, share_x in ((left, 1.0 - across), (left + 1.0, across)):
            weight = share_x * share_y * _inside(row, height) * _inside(column, width)
            at = _place(row, height) * width + _place(column, width) + first
            found = rows.op("take", at.op("reshape", **exactly((images * points,))), axis=0)
            found = found.op("reshape", **exactly((images, points, channels)))
            term = found * weight.op("reshape", **exactly((images, points, 1)))
            made = term if made is None else made + term
    assert made is not None
    return made


def _inside(at: V, size: int) -> V:
    """1 for places in the image, 0 for others."""
    return (at >= 0.0).cast("float32") * (at <= float(size - 1)).cast("float32")


def _place(at: V, size: int) -> V:
    return at.clip(0.0, float(size - 1)).cast("int32")


def pixels_of(at: V, size: int, corners: bool) -> V:
    """Places between -1 and 1 in pixels. ``corners``: whether -1 and 1 are the middles of the outer pixels,
    or else the image's edges."""
    return (at + 1.0) * ((size - 1) / 2) if corners else (at + 1.0) * (size / 2) - 0.5
