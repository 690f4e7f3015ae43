"""Walks of ops that make their output panel by panel: elementwise ops, bias_add, pools and norms
(native/kernels/tt: unary.h, elementwise.h, fpu.h, linear.h, pool.h, normalize.h)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...base.dtypes import FORMATS
from ...ir.ops.numerics import NO_WORDS, WORDS
from .args import PANEL_BYTES, KernelArg, KernelCall, Moves, broadcast, cut, moves, scanned, split, steps
from .product import share_of
from .volumes import volume_pool

_ELEMENTS = 16384  # GR_TT_PANEL_ELEMENTS in work.h
_VALUES = 512  # GR_TT_PLANE_VALUES in panel.h


def by_elements(call: KernelCall, count: int) -> Moves:
    """Moves of an elementwise op on inputs that broadcast, with ``count`` panels in L1. If all arguments are
    in rows, a panel is a sequence of whole rows, from as many planes as fit (gr_tt_cut_elements of
    native/kernels/tt/work.h)."""
    *inputs, out = call.args
    planes, rows, cols = out.view
    tiled, elements = any(a.tiled for a in call.args), min(_ELEMENTS, PANEL_BYTES // 4 // count)
    if tiled or not 0 < cols <= elements:
        height, width = cut(tiled, cols, count)
        across = steps(cols, width)
        return moves([broadcast(x, out, steps(rows, height), across) for x in inputs], out, width)
    height = max(1, min(elements // cols, planes * rows))
    if len(out.shape) > 2 and planes != 1:
        return moves([_joined(x, out, height) for x in inputs], out, cols)
    return moves([broadcast(x, out, steps(rows, height), steps(cols, cols)) for x in inputs], out, cols)


def _joined(x: KernelArg, out: KernelArg, height: int) -> np.ndarray:
    """How often each page of x is touched by panels of ``height`` rows, which continue from plane to plane
    (gr_tt_load_broadcast)."""
    planes, rows, cols = out.view
    if math.prod(x.shape) == math.prod(out.shape) or x.view[1] != 1:
        return broadcast(x, out, steps(rows, rows), steps(cols, cols))
    lead = (*(1,) * (len(out.shape) - len(x.shape)), *x.shape)[:-2]
    of = np.broadcast_to(np.arange(x.view[0]).reshape(lead), out.shape[:-2]).reshape(-1)
    first = np.arange(planes) * rows // height
    last = (np.arange(1, planes + 1) * rows - 1) // height
    if x.view[2] != 1:
        return np.bincount(of, weights=last - first + 1, minlength=x.view[0]).astype(np.int64)
    change = np.zeros(x.view[0] + 1, np.int64)
    for panel in range(-(-planes * rows // height)):
        begin, end = panel * height // rows, (min((panel + 1) * height, planes * rows) - 1) // rows + 1
        _windows(of[begin:end], x.view[0], change)
    return change.cumsum()[:-1]


def _windows(wanted: np.ndarray, count: int, change: np.ndarray) -> None:
    """Add to ``change`` the reads of an argument with ``count`` planes of one element, if a panel needs the
    planes ``wanted`` in order. When a plane is loaded, a window of the planes that follow it is loaded, too;
    the window is kept until a plane outside the window is needed."""
    while len(wanted):
        first = int(wanted[0])
        end = first + min(_VALUES, count - first)
        change[first] += 1
        change[end] -= 1
        out = (wanted < first) | (wanted >= end)
        wanted = wanted[int(out.argmax()) :] if out.any() else wanted[:0]


_POOL_BYTES = 393216  # bytes of the image's part in L1 (pool.h)


def _cut(call: KernelCall, count: int) -> tuple[int, int]:
    return cut(any(a.tiled for a in call.args), call.args[-1].view[2], count)


def _pair(call: KernelCall) -> Moves:
    """Moves of an op of two inputs: if an op model is chosen, its macroblocks are cut into panels, except
    with numerics="ttnn"."""
    *inputs, out = call.args
    words = call.words if len(call.words) == WORDS and call.words[2] != 2 else NO_WORDS
    exact, fpu = words[2] != 0, words[0] != 0 or words[1] == 16
    floats = _floats(out)
    if words[3] <= 0 and not (floats and (exact or fpu)):
        return by_elements(call, 2)
    count = 3 if floats and (exact or fpu) else 2
    height, width = _cut(call, count)
    _, rows, cols = out.view
    if words[3] > 0 and out.tiled and not (exact and floats):
        width = _within(count * 4 * height, width, share_of(words, max(a.page_bytes for a in call.args)))
        down = split(steps(rows, 32 * words[7] * words[9]), height)
        across = split(steps(cols, 32 * words[8] * words[10]), width)
    else:
        down, across = steps(rows, height), steps(cols, width)
    return moves([broadcast(x, out, down, across) for x in inputs], out, width)


def _within(column: int, width: int, share: int) -> int:
    """The width of panels that fit the share of an op model; ``column``: bytes of a column, in all panels
    together (gr_tt_run_pairs)."""
    while column * width > share and width > 32:
        width = -(-(width // 2) // 32) * 32
    return width


def _fused(call: KernelCall) -> Moves:
    """Moves of a fused op, with a panel for each input and one for the result."""
    return by_elements(call, len(call.args))


def _together(call: KernelCall) -> Moves:
    """Moves of an op whose inputs broadcast, with a panel for each in L1."""
    return by_elements(call, len(call.args) - 1)


def _broadcast(call: KernelCall) -> Moves:
    """Moves of an op whose inputs broadcast, with a panel for each in L1. A panel ends where its plane
    ends."""
    *inputs, out = call.args
    height, width = _cut(call, len(inputs))
    down, across = steps(out.view[1], height), steps(out.view[2], width)
    return moves([broadcast(x, out, down, across) for x in inputs], out, width)


def _checked(call: KernelCall) -> Moves:
    """Moves of an op with a divisor: as in _broadcast, but if the inputs are integers, the kernel scans the
    divisor for 0 first."""
    made, divisor = _broadcast(call), call.args[1]
    if not _floats(divisor):
        made.reads[1] += scanned(divisor, call.args[2])
    return made


def _floats(x: KernelArg) -> bool:
    return FORMATS[x.layout.format].converts


def _bias_add(call: KernelCall) -> Moves:
    """Moves of bias_add: a panel reads the bias of its columns or rows, or the element of its plane."""
    x, bias, out = call.args
    height, width = _cut(call, 2)
    planes, rows, cols = out.view
    down, across = steps(rows, height), steps(cols, width)
    from_back, panels = len(x.shape) - 1 - call.words[0], len(down[0]) * len(across[0])
    spans, again = across, len(down[0]) * planes
    if from_back == 1:
        spans, again = down, len(across[0]) * planes
    elif from_back > 1:
        spans, again = steps(bias.view[2], 1), panels * planes // max(bias.view[2], 1)
    reads = [
        x.touched(np.ones(x.view[0], np.int64), down, across),
        bias.touched(np.array([again]), steps(1, 1), spans),
    ]
    return moves(reads, out, width)


def _pool(call: KernelCall) -> Moves:
    """Moves of a pool: a panel reads the image from its first window to its last window, in bands if this
    part of the image does not fit. Dilated max_pool2d and integers use another kernel."""
    w = call.words
    if len(w) > 9 and (w[9:11] != (1, 1) or not _floats(call.args[0])):
        return volume_pool(call, (1, *w[:2], 1, *w[2:4], 0, *w[4:6], 0, *w[6:8], 1, *w[9:11], 0))
    x, out = call.args
    kernel, stride, begin = call.words[:2], call.words[2:4], call.words[4:6]
    height, width = _cut(call, 1 + min(64, stride[0] * stride[1]))
    across = min(x.view[2], (width - 1) * stride[1] + kernel[1])
    band = height
    while band > 1 and min(x.view[1], (band - 1) * stride[0] + kernel[0]) * across * 4 > _POOL_BYTES:
        band = (band + 1) // 2
    spans = []
    for d, (step, part) in enumerate(((height, band), (width, width))):
        first, end = split(steps(out.view[1 + d], step), part)
        last = (end - 1) * stride[d] - begin[d] + kernel[d]
        spans.append((np.maximum(first * stride[d] - begin[d], 0), np.minimum(last, x.view[1 + d])))
    return moves([x.touched(np.ones(x.view[0], np.int64), spans[0], spans[1])], out, width)


def _softmax(call: KernelCall) -> Moves:
    """Moves of softmax: maximum, sum and quotient each read a line again if the line is longer than a
    panel."""
    x, out = call.args
    from_back = len(x.shape) - 1 - call.words[0]
    height, width = _cut(call, 1 if from_back == 0 else 4)
    _, rows, cols = out.view
    lines = {0: -(-cols // width), 1: -(-rows // height)}
    panels = lines.get(from_back, x.shape[call.words[0]])
    times = np.full(x.view[0], 3 if panels > 1 else 1)
    return moves([x.touched(times, steps(rows, height), steps(cols, width))], out, width)


def _cumsum(call: KernelCall) -> Moves:
    """Moves of cumsum: each panel is read once, with a panel of totals in L1."""
    x, out = call.args
    height, width = _cut(call, 3)
    ones = np.ones(x.view[0], np.int64)
    return moves([x.touched(ones, steps(x.view[1], height), steps(x.view[2], width))], out, width)


def _layer_norm(call: KernelCall) -> Moves:
    """Moves of a norm: mean, variance and result each read a line again if the line is longer than a panel;
    scale and bias are read for each panel of the result. rms_norm has no mean and no bias."""
    x, *affine, out = call.args
    axis, ndim = call.words[0], len(x.shape)
    height, width = _cut(call, 3)
    outer, rows, cols = out.view
    down, across = steps(rows, height), steps(cols, width)
    panels, together = len(across[0]), 0
    if axis < ndim - 1:
        together = math.prod(x.shape[axis:-2])
        panels *= together * len(down[0])
    reads = [x.touched(np.full(outer, 1 + len(affine) if panels > 1 else 1), down, across)]
    for a in affine:
        if together:
            reads.append(a.touched(np.full(together, outer // together), down, across))
        else:
            reads.append(a.touched(np.array([outer * len(down[0])]), steps(1, 1), across))
    return moves(reads, out, width)


PANELS: dict[str, Callable[[KernelCall], Moves]] = {
    "map": _together,
    "pair": _pair,
    "together": _together,
    "broadcast": _broadcast,
    "checked": _checked,
    "bias_add": _bias_add,
    "fused": _fused,
    "pool": _pool,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "cumsum": _cumsum,
}
