"""Windows of elements, and the greatest of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..counters import Unsupported
from .layers import each, windows_of
from .movement import cut
from .operands import is_float, reshape
from .table import rule

_MOST = 2**22  # elements that are picked at once


@rule("im2col")
def im2col(e: Any, x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if len(x.shape) == 3:
        made = im2col(e, reshape(e, x, (1, *x.shape)), kernel, dilation, padding, stride)
        return reshape(e, made, made.shape[1:])
    if any(padding):
        x = e.op("pad", x, pads=(0, 0, *padding, 0, 0, *padding), value=0.0)
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
                part = cut(e, part, axis, first, first + step * (places[axis - 2] - 1) + 1, step)
            columns.append(reshape(e, part, (n, c, 1, math.prod(places))))
    made = columns[0] if len(columns) == 1 else e.op("concatenate", *columns, axis=2)
    return reshape(e, made, (n, c * len(columns), math.prod(places)))


def _windows(size: int, count: int) -> list[range]:
    """Adaptive pooling's windows of an axis."""
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


@rule("adaptive_max_pool2d", wide=(1,))
def adaptive_max_pool2d(e: Any, x: Any, size: Any) -> Any:
    return _greatest(e, x, [_windows(n, m) for n, m in zip(x.shape[-2:], size, strict=True)])


@rule("adaptive_max_pool3d", wide=(1,))
def adaptive_max_pool3d(e: Any, x: Any, size: Any) -> Any:
    return _greatest(e, x, [_windows(n, m) for n, m in zip(x.shape[-3:], size, strict=True)])


def volumes(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> list[range]:
    """The elements of an axis in each window of a pooling."""
    reach = dilation * (kernel - 1) + 1
    rest = size + 2 * padding - reach
    count = (-(-rest // stride) if ceil_mode else rest // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    made = []
    for i in range(count):
        first = i * stride - padding
        made.append(
            range(first + -(min(first, 0) // dilation) * dilation, min(first + reach, size), dilation)
        )
    return made


def _greatest(e: Any, x: Any, windows: list[list[range]]) -> Any:
    """(maxima, their places in the plane) of windows that are products of one range an axis: elements are
    picked by a table [windows, most elements of one], which repeats the last of a shorter one."""
    dims = len(windows)
    sizes, counts = x.shape[len(x.shape) - dims :], tuple(map(len, windows))
    axes = [_padded(w) for w in windows]
    table = np.zeros((1, 1), np.int64)
    for axis, size in zip(axes, sizes, strict=True):
        table = table[:, None, :, None] * size + axis[None, :, None, :]
        table = table.reshape(table.shape[0] * table.shape[1], -1)
    lead = x.shape[: len(x.shape) - dims]
    if math.prod(lead) * table.size > _MOST:
        raise Unsupported("windows of so many elements are the host's")
    flat = reshape(e, x, (math.prod(lead), math.prod(sizes)))
    picked = e.op("take", flat, e.array(table, "int32"), axis=1)
    best = e.op("argmax", picked, axis=2, keepdims=False, dtype="int32")
    if is_float(picked):  # of NaNs the last
        order = e.array(np.arange(table.shape[1]), "int32")
        places = e.op("where", e.op("isnan", picked), order, e.scalar(-1, "int32"))
        best = e.op("maximum", best, e.op("max", places, axes=(2,), keepdims=False))
    first = e.array(np.arange(len(table)) * table.shape[1], "int32")
    at = e.op("take", e.array(table.reshape(-1), "int32"), e.op("add", best, first), axis=0)
    made = e.op("max", picked, axes=(2,), keepdims=False)
    return reshape(e, made, (*lead, *counts)), reshape(e, at, (*lead, *counts))


def _padded(windows: list[range]) -> np.ndarray:
    most = max(map(len, windows))
    return np.array([[*w, *[w[-1]] * (most - len(w))] for w in windows], np.int64)


@rule("max_pool3d_with_indices", wide=(1,))
def max_pool3d_with_indices(
    e: Any,
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """Graphs that read no indices have an op."""
    if e.graph and 1 not in e.used and len(x.shape) == 5:
        windows = windows_of(3, kernel, stride, padding, ceil_mode)
        return e.op("max_pool3d", x, **windows, dilations=each(dilation, 3)), None
    kernel, padding, dilation = each(kernel, 3), each(padding, 3), each(dilation, 3)
    stride = each(stride, 3) if stride else kernel
    how = zip(x.shape[-3:], kernel, stride, padding, dilation, strict=True)
    return _greatest(e, x, [volumes(*axis, ceil_mode) for axis in how])
