"""Elements of windows, and the windows' maxima."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.value import where
from ..counters import Unsupported
from .layers import batched, spread_windows
from .movement import cut
from .operands import is_float, joined, reshape
from .table import rule

_MOST = 2**22  # maximum number of elements that are picked at once


@rule("im2col")
def im2col(x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return batched(2, lambda image: _columns(image, kernel, dilation, padding, stride), x)


def _columns(x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if any(padding):
        x = x.op("pad", pads=(0, 0, *padding, 0, 0, *padding), value=0.0)
    n, c = x.shape[:2]
    places = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, d, s in zip(x.shape[2:], kernel, dilation, stride, strict=True)
    ]
    columns = []
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            part = x
            for axis, at in ((2, row), (3, column)):
                first, step = at * dilation[axis - 2], stride[axis - 2]
                part = cut(part, axis, first, first + step * (places[axis - 2] - 1) + 1, step)
            columns.append(reshape(part, (n, c, 1, math.prod(places))))
    return reshape(joined(columns, 2), (n, c * len(columns), math.prod(places)))


def adaptive(size: int, count: int) -> list[range]:
    """The windows of adaptive pooling along an axis: for each, the range of its elements."""
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


@rule("adaptive_max_pool2d", "adaptive_max_pool3d", wide=(1,))
def adaptive_max_pool(e: Any, x: Any, size: Any) -> Any:
    sizes = x.shape[len(x.shape) - len(size) :]
    return _greatest(e, x, [adaptive(n, m) for n, m in zip(sizes, size, strict=True)])


def volumes(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> list[range]:
    """The windows of a pooling along an axis: for each, the range of its elements inside of the axis."""
    reach = dilation * (kernel - 1) + 1
    rest = size + 2 * padding - reach
    count = (-(-rest // stride) if ceil_mode else rest // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    starts = (i * stride - padding for i in range(count))
    return [range(at - min(at, 0) // dilation * dilation, min(at + reach, size), dilation) for at in starts]


def _greatest(e: Any, x: Any, windows: list[list[range]]) -> Any:
    """(maxima, their positions in the plane) of windows, each the product of one range per axis. The elements
    are picked by a table [windows, elements of the largest window], where shorter windows repeat their last
    element."""
    dims = len(windows)
    sizes, counts = x.shape[len(x.shape) - dims :], tuple(map(len, windows))
    axes = [_padded(w) for w in windows]
    table = np.zeros((1, 1), np.int64)
    for axis, size in zip(axes, sizes, strict=True):
        table = table[:, None, :, None] * size + axis[None, :, None, :]
        table = table.reshape(table.shape[0] * table.shape[1], -1)
    lead = x.shape[: len(x.shape) - dims]
    if math.prod(lead) * table.size > _MOST:
        raise Unsupported("windows of so many elements run on the host")
    flat = reshape(x, (math.prod(lead), math.prod(sizes)))
    picked = flat.op("take", e.array(table, "int32"), axis=1)
    best = picked.op("argmax", axis=2, keepdims=False, dtype="int32")
    if is_float(picked):  # if a window has several NaNs, the position is that of the last NaN
        order = e.array(np.arange(table.shape[1]), "int32")
        places = where(picked.isnan(), order, -1)
        best = best.maximum(places.max(axes=(2,), keepdims=False))
    first = e.array(np.arange(len(table)) * table.shape[1], "int32")
    at = e.array(table.reshape(-1), "int32").op("take", best + first, axis=0)
    made = picked.max(axes=(2,), keepdims=False)
    return reshape(made, (*lead, *counts)), reshape(at, (*lead, *counts))


def _padded(windows: list[range]) -> np.ndarray:
    most = max(map(len, windows))
    return np.array([[*w, *[w[-1]] * (most - len(w))] for w in windows], np.int64)


@rule("max_pool3d_with_indices", wide=(1,))
def max_pool3d_with_indices(e: Any, x: Any, *how: Any, **more: Any) -> Any:
    """Maxima with indices; an op computes the maxima alone for graphs that read no indices."""
    windows = spread_windows(3, *how, **more)
    if e.graph and 1 not in e.used and len(x.shape) == 5:
        return x.op("max_pool3d", **windows), None
    kernel, stride, pads, ceil_mode, dilation = windows.values()
    axes = zip(x.shape[-3:], kernel, stride, pads[:3], dilation, strict=True)
    return _greatest(e, x, [volumes(*axis, ceil_mode) for axis in axes])
