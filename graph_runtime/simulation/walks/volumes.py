"""Walks of pools and convolutions over volumes (images are one plane), and of lrn (native/kernels/tt:
windows.h, conv3d.h, response.h)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .args import KernelCall, Moves, Spans, cut, inside, moves, steps

_OUTPUTS, _COLS = 16, 64  # as in conv3d.h and convolutions.h
_INPUT = 32768  # as in conv3d.h


def _taps(count: int, size: int, kernel: int, stride: int, pad: int, dilation: int) -> np.ndarray:
    """bool [count, kernel, size]: whether the element lies under the tap of the window."""
    at = np.arange(count)[:, None] * stride - pad + np.arange(kernel) * dilation
    return at[..., None] == np.arange(size)


def _seen(size: int, out: int, side: int, window: Sequence[int]) -> Spans:
    """Spans of the input that the windows of each group of ``side`` outputs read. ``window``: (kernel,
    stride, pad, dilation)."""
    kernel, stride, pad, dilation = window
    first, end = steps(out, side)
    return inside(first * stride - pad, (end - first - 1) * stride + (kernel - 1) * dilation + 1, size)


def _pool(call: KernelCall) -> Moves:
    return volume_pool(call, call.words)


def volume_pool(call: KernelCall, words: Sequence[int]) -> Moves:
    """Moves of a pool: a panel reads the elements under its windows, in each plane that contains a tap;
    indices are stored in the same way as values."""
    x, out = call.args
    windows = [(words[d], words[3 + d], words[6 + d], words[12 + d]) for d in range(3)]
    tiled = any(a.tiled for a in (*call.args, *call.others))
    sides = cut(tiled, out.view[2], 4 + min(64, words[4] * words[5]))
    depth, planes = (x.shape[2], out.shape[2]) if len(x.shape) == 5 else (1, 1)
    loads = _taps(planes, depth, *windows[0]).sum(axis=(0, 1))
    spans = [_seen(x.view[d], out.view[d], sides[d - 1], windows[d]) for d in (1, 2)]
    read = x.touched(np.tile(loads, x.shape[0] * x.shape[1]), *spans)
    made = [moves([], to, sides[1]) for to in (out, *call.others)]
    return Moves([read, *(m.reads[0] for m in made)], made[0].writes, [m.writes for m in made[1:]])


def _lrn(call: KernelCall) -> Moves:
    """Moves of lrn: for each existing neighbour channel, a panel loads its part of the input shifted to that
    channel."""
    x, out = call.args
    size, channels = call.words[0], x.shape[1]
    before, after = min((size - 1) // 2, channels - 1), min(size - 1 - (size - 1) // 2, channels - 1)
    sides = cut(any(a.tiled for a in call.args), out.view[2], 3)
    loads, spans = np.ones(x.view[0], np.int64), [steps(n, s) for n, s in zip(x.view[1:], sides, strict=True)]
    if len(x.shape) > 3:
        at = np.arange(channels)
        each = np.minimum(at + before, channels - 1) - np.maximum(at - after, 0) + 1
        loads = np.tile(np.repeat(each, math.prod(x.shape[2:-2])), x.shape[0])
    else:
        axis = 3 - len(x.shape)  # dimension of the channels: rows (0) or columns (1)
        first, end = spans[axis]
        shifted = [inside(first + s, end - first, channels) for s in range(-before, after + 1)]
        spans[axis] = np.concatenate([s[0] for s in shifted]), np.concatenate([s[1] for s in shifted])
    return moves([x.touched(loads, *spans)], out, sides[1])


def _conv3d(call: KernelCall) -> Moves:
    """Moves of conv3d: for some output channels at a time, a window reads all input channels of its group, in
    each plane under a tap along the depth, and the weights of that tap."""
    x, w, *bias, y = call.args
    words, groups = call.words, call.words[9]
    windows = [(w.shape[2 + d], words[d], words[3 + d], words[6 + d]) for d in range(3)]
    outputs = y.shape[1] // groups
    block = min(_OUTPUTS, outputs)
    sides = [min(32, y.shape[3]), min(_COLS, y.shape[4])]
    reach = [
        min(x.shape[3 + d], (sides[d] - 1) * stride + (kernel - 1) * dilation + 1)
        for d, (kernel, stride, _, dilation) in enumerate(windows[1:])
    ]
    if math.prod(reach) > _INPUT:
        sides[1] = min(32, sides[1])
    count = y.shape[0] * math.prod(-(-n // s) for n, s in zip(y.shape[3:], sides, strict=True))
    taps = _taps(y.shape[2], x.shape[2], *windows[0])
    spans = [_seen(x.view[d], y.view[d], sides[d - 1], windows[d]) for d in (1, 2)]
    whole = [steps(n, 1 << 40) for n in w.shape[3:]]
    reads = [
        x.touched(np.tile(taps.sum(axis=(0, 1)), x.shape[0] * x.shape[1]) * -(-outputs // block), *spans),
        w.touched(np.tile(taps.sum(axis=(0, 2)), w.shape[0] * w.shape[1]) * count, *whole),
    ]
    if bias:
        each = steps(y.shape[1], 1)
        reads.append(bias[0].touched(np.array([count * y.shape[2]]), steps(1, 1), each))
    return moves(reads, y, sides[1])


VOLUMES: dict[str, Callable[[KernelCall], Moves]] = {"volume": _pool, "lrn": _lrn, "conv3d": _conv3d}
