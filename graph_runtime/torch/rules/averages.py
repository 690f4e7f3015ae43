"""Averages of windows, and their gradients: sums of few elements of one axis after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .layers import each, windows_of
from .resampling import Parts, summed, turned
from .table import rule


def _averages(windows: Sequence[tuple[int, int]], counts: Sequence[float]) -> Parts:
    """Of windows (first, end) of an axis."""
    return [
        [(at, 1 / count) for at in range(max(first, 0), end)]
        for (first, end), count in zip(windows, counts, strict=True)
    ]


def _adaptive(size: int, new: int) -> Parts:
    windows = [(i * size // new, -(-(i + 1) * size // new)) for i in range(new)]
    return _averages(windows, [end - first for first, end in windows])


@rule("_adaptive_avg_pool2d")
def adaptive_avg_pool2d(e: Any, x: Any, size: Any) -> Any:
    sizes = x.shape[-2:]
    if len(x.shape) == 4 and tuple(size) == (1, 1):
        return e.op("global_avg_pool2d", x)
    if len(x.shape) == 4 and not any(n % new for n, new in zip(sizes, size, strict=True)):
        kernel = tuple(n // new for n, new in zip(sizes, size, strict=True))
        return e.op("avg_pool2d", x, **windows_of(2, kernel, kernel, 0, False), count_include_pad=True)
    return _adaptive_forward(e, x, size)


@rule("_adaptive_avg_pool3d")
def _adaptive_forward(e: Any, x: Any, size: Any) -> Any:
    for axis, new in enumerate(size, len(x.shape) - len(size)):
        x = summed(e, x, axis, _adaptive(x.shape[axis], new))
    return x


@rule("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(e: Any, grad: Any, x: Any) -> Any:
    return _adaptive_backward(e, grad, x, 2)


@rule("_adaptive_avg_pool3d_backward")
def adaptive_avg_pool3d_backward(e: Any, grad: Any, x: Any) -> Any:
    return _adaptive_backward(e, grad, x, 3)


def _adaptive_backward(e: Any, grad: Any, x: Any, dims: int) -> Any:
    for axis in range(len(x.shape) - dims, len(x.shape)):
        size = x.shape[axis]
        grad = summed(e, grad, axis, turned(_adaptive(size, grad.shape[axis]), size))
    return grad


@rule("avg_pool2d_backward")
def avg_pool2d_backward(
    e: Any,
    grad: Any,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any:
    kernel, padding = each(kernel, 2), each(padding, 2)
    stride = each(stride, 2) if stride else kernel
    for i, (k, s, p) in enumerate(zip(kernel, stride, padding, strict=True)):
        axis = len(x.shape) - 2 + i
        size = x.shape[axis]
        windows = [(at * s - p, min(at * s - p + k, size + p)) for at in range(grad.shape[axis])]
        inside = [(first, min(end, size)) for first, end in windows]
        counts = [
            end - (first if count_include_pad else max(first, 0))
            for first, end in (windows if count_include_pad else inside)
        ]
        if divisor_override is not None:
            counts = [divisor_override if i == 0 else 1] * len(counts)
        grad = summed(e, grad, axis, turned(_averages(inside, counts), size))
    return grad
