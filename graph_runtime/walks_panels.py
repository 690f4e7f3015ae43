"""Walks of the ops that make their output panel by panel: of one input, pools and norms
(native/kernels/tt: elementwise.h, pool.h, normalize.h)."""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .walks_args import Call, Moves, cut, moves, steps

__all__ = ["PANELS"]

_MAPS = ("relu", "gelu", "sigmoid", "tanh", "exp", "sqrt", "cast")


def _cut(call: Call, count: int) -> tuple[int, int]:
    return cut(any(a.tiled for a in call.args), call.args[-1].view[2], count)


def _map(call: Call) -> Moves:
    x, out = call.args
    height, width = _cut(call, 1)
    _, rows, cols = out.view
    ones = np.ones(x.view[0], np.int64)
    return moves([x.touched(ones, steps(rows, height), steps(cols, width))], out, width)


def _pool(call: Call) -> Moves:
    """What the first to the last window of a panel look at of the image."""
    x, out = call.args
    kernel, stride, begin = call.words[:2], call.words[2:4], call.words[4:6]
    height, width = _cut(call, 1 + min(64, stride[0] * stride[1]))
    spans = []
    for d, step in enumerate((height, width)):
        first, end = steps(out.view[1 + d], step)
        last = (end - 1) * stride[d] - begin[d] + kernel[d]
        spans.append((np.maximum(first * stride[d] - begin[d], 0), np.minimum(last, x.view[1 + d])))
    return moves([x.touched(np.ones(x.view[0], np.int64), spans[0], spans[1])], out, width)


def _softmax(call: Call) -> Moves:
    """Maximum, sum and quotient each read anew what is more than one panel."""
    x, out = call.args
    from_back = len(x.shape) - 1 - call.words[0]
    height, width = _cut(call, 1 if from_back == 0 else 4)
    _, rows, cols = out.view
    lines = {0: -(-cols // width), 1: -(-rows // height)}
    panels = lines.get(from_back, x.shape[call.words[0]])
    times = np.full(x.view[0], 3 if panels > 1 else 1)
    return moves([x.touched(times, steps(rows, height), steps(cols, width))], out, width)


def _layer_norm(call: Call) -> Moves:
    """Mean, variance and result, likewise; scale and bias are read for each panel of the result."""
    x, scale, bias, out = call.args
    axis, ndim = call.words[0], len(x.shape)
    height, width = _cut(call, 3)
    outer, rows, cols = out.view
    down, across = steps(rows, height), steps(cols, width)
    panels, together = len(across[0]), 0
    if axis < ndim - 1:
        together = math.prod(x.shape[axis:-2])
        panels *= together * len(down[0])
    reads = [x.touched(np.full(outer, 3 if panels > 1 else 1), down, across)]
    for a in (scale, bias):
        if together:
            reads.append(a.touched(np.full(together, outer // together), down, across))
        else:
            reads.append(a.touched(np.array([outer * len(down[0])]), steps(1, 1), across))
    return moves(reads, out, width)


PANELS: dict[str, Callable[[Call], Moves]] = {
    **dict.fromkeys(_MAPS, _map), "max_pool2d": _pool, "avg_pool2d": _pool, "softmax": _softmax,
    "layer_norm": _layer_norm}
