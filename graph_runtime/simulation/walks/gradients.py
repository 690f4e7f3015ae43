"""Walks of the gradients of convolutions and pools (native/kernels/tt: convolutions.h, pool_backward.h)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .args import KernelCall, Moves, Spans, cut, inside, moves, steps

# as in convolutions.h
_UNITS, _OUTPUTS, _COLS, _PIXELS, _TAPS = 4, 128, 64, 1024, 144
_FLOATS, _INPUTS, _SUMS = 49152, 8192, 36864


def _even(count: int, most: int) -> int:
    """Size of the parts if ``count`` is divided into equal parts of at most ``most`` (gr_tt_even)."""
    return -(-count // -(-count // max(1, most)))


def _block(outputs: int, area: int, shares: int, most: int) -> int:
    """Number of output channels that are computed at a time (gr_tt_gradient_blocks)."""
    pieces = -(-_UNITS // max(1, shares))
    most = min(most, _OUTPUTS, _SUMS // area, -(-outputs // pieces))
    return _even(outputs, max(16, most))


def _conv_transpose2d(call: KernelCall) -> Moves:
    """Moves of a transposed convolution: for some output channels and some images at a time, a window reads
    all input channels of its group."""
    x, w, *bias, y = call.args
    strides, pads, dilations, groups = call.words[:2], call.words[2:4], call.words[4:6], call.words[6]
    outputs, taps = w.shape[1], max(1, math.prod(w.shape[2:]))
    sides = [min(most, y.shape[2 + d]) for d, most in enumerate((32, _COLS))]
    pixels, phases = math.prod(sides), math.prod(map(min, strides, sides))
    images = _even(max(1, y.shape[0]), _PIXELS // pixels if pixels == math.prod(y.shape[2:]) else 1)
    rounds, bands = -(-y.shape[0] // images), -(-y.shape[2] // sides[0])
    area = -(-images * pixels // 16) * 16 + (16 * phases if phases > 1 else 0)
    block = _block(outputs, area, rounds * groups * bands, _INPUTS // taps)
    seen, windows = [], rounds
    for d, side in enumerate(sides):
        begin, stop = steps(y.shape[2 + d], side)
        windows *= len(begin)
        least = begin + pads[d] - (w.shape[2 + d] - 1) * dilations[d]
        last = np.minimum((stop - 1 + pads[d]) // strides[d] + 1, x.shape[2 + d])
        seen.append((np.maximum(-(-least // strides[d]), 0), last))
    reads = [
        x.touched(np.full(x.view[0], -(-outputs // block)), *seen),
        w.touched(np.full(w.view[0], windows), steps(w.shape[2], 1 << 40), steps(w.shape[3], 1 << 40)),
    ]
    if bias:
        first, end = steps(outputs, block)
        each = np.arange(groups)[:, None] * outputs
        spans = (first + each).ravel(), (end + each).ravel()
        reads.append(bias[0].touched(np.array([windows]), steps(1, 1), spans))
    return moves(reads, y, sides[1])


def _conv2d_backward_weight(call: KernelCall) -> Moves:
    """Moves of a weight gradient: for some channels of the weight at a time, all pixels of all images are
    read."""
    x, grad, w = call.args
    strides, pads, dilations, groups = call.words[:2], call.words[2:4], call.words[4:6], call.words[6]
    channels, outputs = x.shape[1] // groups, grad.shape[1] // groups
    taps = math.prod(w.shape[2:])
    chunk = min(channels, max(1, _TAPS // max(1, taps)))
    chunks, area = -(-channels // chunk), -(-chunk * taps // 16) * 16
    block = _block(outputs, area, groups * chunks, _OUTPUTS)
    width = max(1, min(32, grad.shape[3]))
    height = max(1, min(32, grad.shape[2], max(1, min(256, _FLOATS // area)) // width))
    spans, seen = [], []
    for d, most in enumerate((height, width)):
        begin, end = steps(grad.shape[2 + d], most)
        reach = (end - begin - 1) * strides[d] + (w.shape[2 + d] - 1) * dilations[d] + 1
        spans.append((begin, end))
        seen.append(inside(begin * strides[d] - pads[d], reach, x.shape[2 + d]))
    reads = [
        x.touched(np.full(x.view[0], -(-outputs // block)), *seen),
        grad.touched(np.full(grad.view[0], chunks), *spans),
    ]
    return moves(reads, w, max(w.view[2], 1))


def _max_pool2d_backward(call: KernelCall) -> Moves:
    """Moves of max_pool2d's gradient: a panel reads all windows that overlap it, and the elements of those
    windows."""
    x, grad, out = call.args
    words = call.words
    sides = cut(any(a.tiled for a in call.args), out.view[2], 8)
    windows: list[Spans] = []
    seen: list[Spans] = []
    for d, side in enumerate(sides):
        kernel, stride, pad, dilation = words[1 + d], words[4 + d], words[7 + d], words[13 + d]
        first, end = steps(x.view[1 + d], side)
        lo = np.maximum(-(-(first + pad - (kernel - 1) * dilation) // stride), 0)
        last = np.minimum((end - 1 + pad) // stride + 1, grad.view[1 + d])
        begin = np.maximum(lo * stride - pad, 0)
        stop = np.minimum((last - 1) * stride - pad + (kernel - 1) * dilation + 1, x.view[1 + d])
        some = last > lo
        windows.append((lo[some], last[some]))
        seen.append((begin[some], stop[some]))
    ones = np.ones(x.view[0], np.int64)
    return moves([x.touched(ones, *seen), grad.touched(ones, *windows)], out, sides[1])


GRADIENTS: dict[str, Callable[[KernelCall], Moves]] = {
    "conv_transpose2d": _conv_transpose2d,
    "conv2d_backward_weight": _conv2d_backward_weight,
    "max_pool2d_backward": _max_pool2d_backward,
}
