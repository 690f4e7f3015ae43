"""Averages over windows, and their gradients. Each is computed as weighted sums along one axis, then along
the next axis."""

from __future__ import annotations

from typing import Any

from .layers import each, windows_of
from .resampling import Parts, summed, turned
from .table import rule
from .windows import adaptive


def _adaptive(size: int, new: int) -> Parts:
    return [[(at, 1 / len(window)) for at in window] for window in adaptive(size, new)]


@rule("_adaptive_avg_pool2d")
def adaptive_avg_pool2d(e: Any, x: Any, size: Any) -> Any:
    sizes = x.shape[-2:]
    if len(x.shape) == 4 and tuple(size) == (1, 1):
        return x.op("global_avg_pool2d")
    if len(x.shape) == 4 and not any(n % new for n, new in zip(sizes, size, strict=True)):
        kernel = tuple(n // new for n, new in zip(sizes, size, strict=True))
        return x.op("avg_pool2d", **windows_of(2, kernel, kernel, 0, False), count_include_pad=True)
    return _adaptive_forward(e, x, size)


@rule("_adaptive_avg_pool3d")
def _adaptive_forward(e: Any, x: Any, size: Any) -> Any:
    for axis, new in enumerate(size, len(x.shape) - len(size)):
        x = summed(e, x, axis, _adaptive(x.shape[axis], new))
    return x


rule("_adaptive_avg_pool2d_backward")(lambda e, grad, x: _adaptive_backward(e, grad, x, 2))
rule("_adaptive_avg_pool3d_backward")(lambda e, grad, x: _adaptive_backward(e, grad, x, 3))


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
        size, parts = x.shape[axis], []
        for first in range(-p, grad.shape[axis] * s - p, s):
            inside = range(max(first, 0), min(first + k, size))
            count = min(first + k, size + p) - first if count_include_pad else len(inside)
            if divisor_override is not None:
                count = 1 if i else divisor_override
            parts.append([(at, 1 / count) for at in inside])
        grad = summed(e, grad, axis, turned(parts, size))
    return grad
