"""rotate: images turned about a point, each pixel taken from where it was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import device_tensor, target
from ..wide import Wide


def sources(height: int, width: int, angle: float, center: Any) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) in pixels, [height, width], where the pixels of an image that is turned by ``angle``
    degrees against the clock come from. ``center``: (x, y) in pixels, None: the middle."""
    turn = math.radians(angle)
    x0, y0 = ((width - 1) / 2, (height - 1) / 2) if center is None else (center[0] - 0.5, center[1] - 0.5)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    across = math.cos(turn) * (x - x0) - math.sin(turn) * (y - y0) + x0
    down = math.sin(turn) * (x - x0) + math.cos(turn) * (y - y0) + y0
    return down, across


def _taps(down: np.ndarray, across: np.ndarray, mode: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(row, column, share) of the pixels that each pixel is made of."""
    if mode == "nearest":
        return [(np.rint(down.round(6)), np.rint(across.round(6)), np.ones_like(down))]
    top, left = np.floor(down), np.floor(across)
    made = []
    for row in (0, 1):
        for column in (0, 1):
            share = (1 - abs(down - top - row)) * (1 - abs(across - left - column))
            made.append((top + row, left + column, share))
    return made


@operation("rotate", "take, multiply, add")
def rotate(
    input_tensor: Tensor,
    angle: float,
    *,
    center: Any = None,
    fill: float = 0.0,
    expand: bool = False,
    interpolation_mode: str = "nearest",
    memory_config: Any = None,
) -> Tensor:
    """Images [N, H, W, C] turned by ``angle`` degrees against the clock about ``center`` (x, y), ``fill``
    where nothing comes from. Where pixels come from is known before, by the sizes and the angle alone."""
    op = "ttnn.rotate"
    x = device_tensor(op, input_tensor)
    check(len(x.shape) == 4, op, f"Input tensor must be 4D (N, H, W, C), got {x.shape}")
    check(x.dtype.is_float, op, f"the input must be of floats, got {x.dtype}")
    check(not expand, op, "Only expand=False is supported")
    check(x.layout is Layout.ROW_MAJOR, op, "Input tensor must be in ROW_MAJOR layout")
    check(
        interpolation_mode in ("nearest", "bilinear"),
        op,
        f"Unsupported interpolation mode {interpolation_mode}",
    )
    n, height, width, channels = tuple(x.shape)
    w = Wide(x._handle.device)
    table = w.reshape(w.rows(x._handle), (n * height * width, channels))
    made: Handle | None = None
    rest = np.ones((height, width))
    for row, column, share in _taps(*sources(height, width, float(angle), center), interpolation_mode):
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        share = np.where(inside, share, 0.0)
        rest -= share
        places = np.where(inside, row * width + column, 0).astype(np.int32).reshape(1, -1)
        places = places + np.arange(n, dtype=np.int32).reshape(-1, 1) * (height * width)
        taken = kernels.run("take", [table, w.number(places.reshape(-1), "int32")], {"axis": 0})
        part = w("multiply", taken, w.number(_column(share, n)))
        made = part if made is None else w("add", made, part)
    assert made is not None
    if fill and rest.max() > 0:
        made = w("add", made, w.number(_column(rest * fill, n)))
    return target(op, x, memory_config).wrap(w.reshape(w.rows(made), (n, height, width, channels)))


def _column(values: np.ndarray, n: int) -> np.ndarray:
    """A number for each pixel of n images, [pixels, 1]."""
    return np.tile(values.astype(np.float32).reshape(-1, 1), (n, 1))
