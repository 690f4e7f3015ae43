"""Functions that move the pixels of images: upsample, rotate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.configs import ShardSpec
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import Target


@operation("upsample", "take, lerp", takes="..., memory_config")
def upsample(input_tensor: Tensor, scale_factor: Any, *, mode: str = "nearest", goal: Target) -> Tensor:
    """An image [N, H, W, C] with ``scale_factor`` (one number, or two for height and width) times as many
    rows and columns. A new pixel has the value of the nearest pixel, or, with "bilinear", a mean of its
    neighbours, weighted by the distances of the pixels' middles."""
    x = input_tensor
    expect(len(x.shape) == 4, f"the input must have 4 dimensions, got {x.shape}")
    expect(mode in ("nearest", "bilinear"), f"mode must be nearest or bilinear, got {mode!r}")
    both = (scale_factor,) * 2 if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
    expect(len(both) == 2 and min(both) > 0, f"scale_factor must be above 0, got {scale_factor}")
    made = x._value
    along = _weighted if mode == "bilinear" else _nearest
    for axis, scale in zip((1, 2), both, strict=True):
        if scale != 1:
            made = along(made, axis, scale)
    spec = goal.config.shard_spec
    if goal.inherited and spec is not None:  # shards grow with their rows of pixels
        rows = math.ceil(spec.shape[0] * both[0] * both[1])
        grown = ShardSpec(spec.grid, [rows, spec.shape[1]], spec.orientation)
        goal.config = goal.config.with_shard_spec(grown)
    return goal.wrap(made)


def _nearest(x: WideValue, axis: int, scale: float) -> WideValue:
    size = x.shape[axis]
    if float(scale).is_integer():
        return _taken(x, axis, np.arange(size * int(scale)) // int(scale))
    at = np.floor(np.arange(math.floor(size * scale), dtype=np.float32) * np.float32(1 / scale))
    return _taken(x, axis, np.minimum(at, size - 1))


def _taken(x: WideValue, axis: int, places: np.ndarray) -> WideValue:
    return x.run("take", x.scalar(places.astype(np.int32), "int32"), axis=axis)


def _weighted(x: WideValue, axis: int, scale: float) -> WideValue:
    """New rows along an axis: each is a mean of the two rows on either side, weighted by the distances of the
    rows' middles."""
    size = x.shape[axis]
    middle = (np.arange(math.floor(size * scale)) + 0.5) / scale - 0.5
    middle = np.clip(middle, 0, size - 1)
    low = np.floor(middle)
    shape = [1] * len(x.shape)
    shape[axis] = len(middle)
    weight = x.scalar((middle - low).astype(np.float32).reshape(shape), "float32")
    first, second = (_taken(x, axis, np.minimum(at, size - 1)) for at in (low, low + 1))
    return first + (second - first) * weight


# **************** rotate ****************


def sources(height: int, width: int, angle: float, center: Any) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns), each [height, width] in pixels: the places from which the pixels of a turned image
    come. The image is turned by ``angle`` degrees counterclockwise about ``center`` (x, y) in pixels, by
    default its middle."""
    turn = math.radians(angle)
    x0, y0 = ((width - 1) / 2, (height - 1) / 2) if center is None else (center[0] - 0.5, center[1] - 0.5)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    across = math.cos(turn) * (x - x0) - math.sin(turn) * (y - y0) + x0
    down = math.sin(turn) * (x - x0) + math.cos(turn) * (y - y0) + y0
    return down, across


def _taps(down: np.ndarray, across: np.ndarray, mode: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """A list of (row, column, share): each pixel of the result is the sum of the image's pixels at (row,
    column), each times its share."""
    if mode == "nearest":
        return [(np.rint(down.round(6)), np.rint(across.round(6)), np.ones_like(down))]
    top, left = np.floor(down), np.floor(across)
    made = []
    for row in (0, 1):
        for column in (0, 1):
            share = (1 - abs(down - top - row)) * (1 - abs(across - left - column))
            made.append((top + row, left + column, share))
    return made


@operation("rotate", "take, multiply, add", takes="..., memory_config")
def rotate(
    input_tensor: Tensor,
    angle: float,
    *,
    center: Any = None,
    fill: float = 0.0,
    expand: bool = False,
    interpolation_mode: str = "nearest",
) -> WideValue:
    """Images [N, H, W, C] turned by ``angle`` degrees counterclockwise about ``center`` (x, y), with ``fill``
    where no pixel comes from. The host computes the places of the pixels from the sizes and the angle."""
    x = input_tensor
    expect(len(x.shape) == 4, f"Input tensor must be 4D (N, H, W, C), got {x.shape}")
    expect(x.dtype.is_float, f"the input must be of floats, got {x.dtype}")
    expect(not expand, "Only expand=False is supported")
    expect(x.layout is Layout.ROW_MAJOR, "Input tensor must be in ROW_MAJOR layout")
    known = interpolation_mode in ("nearest", "bilinear")
    expect(known, f"Unsupported interpolation mode {interpolation_mode}")
    n, height, width, channels = tuple(x.shape)
    table = x._value.reshape((n * height * width, channels))
    made: WideValue | None = None
    rest = np.ones((height, width))
    for row, column, share in _taps(*sources(height, width, float(angle), center), interpolation_mode):
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        share = np.where(inside, share, 0.0)
        rest -= share
        places = np.where(inside, row * width + column, 0).astype(np.int32).reshape(1, -1)
        places = places + np.arange(n, dtype=np.int32).reshape(-1, 1) * (height * width)
        taken = table.run("take", table.scalar(places.reshape(-1), "int32"), axis=0)
        part = taken * table.scalar(_column(share, n), "float32")
        made = part if made is None else made + part
    assert made is not None
    if fill and rest.max() > 0:
        made = made + table.scalar(_column(rest * fill, n), "float32")
    return made.reshape((n, height, width, channels))


def _column(values: np.ndarray, n: int) -> np.ndarray:
    """The values, one for each pixel, repeated for n images: [n pixels, 1]."""
    return np.tile(values.astype(np.float32).reshape(-1, 1), (n, 1))
