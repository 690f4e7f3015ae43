"""Walks of the ops that move elements (native/kernels/tt: move.h, slice.h, rows.h, fill.h)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .args import KernelArg, KernelCall, Moves, Spans, cut, hits, inside, moves, pair, steps, taken

_COVER = 512  # as in slice.h


def _transpose(call: KernelCall) -> Moves:
    """Moves of a transpose: each of the output's last two dimensions is walked in panels, any other dimension
    element by element."""
    x, out = call.args
    ndim = max(len(x.shape), 2)
    perm = list(call.words) if len(x.shape) > 1 else [0, 1]
    height, width = pair(call.args)
    spans = []
    for d in (ndim - 2, ndim - 1):
        step = {ndim - 2: height, ndim - 1: width}.get(perm.index(d), 1)
        spans.append(steps(x.view[1 + d - (ndim - 2)], step))
    return moves([x.touched(np.ones(x.view[0], np.int64), spans[0], spans[1])], out, width)


def _planes(whole: KernelArg, part: KernelArg, strides: list[tuple[int, int]]) -> np.ndarray:
    """The planes of ``whole`` that contain a strided part of it, in the order of the part."""
    planes = np.zeros(1, np.int64)
    for size, count, (start, step) in zip(whole.shape[:-2], part.shape[:-2], strides[2:], strict=False):
        planes = (planes[:, None] * size + start + step * np.arange(count)).ravel()
    return planes


def _slice_update(call: KernelCall) -> Moves:
    """Moves of slice_update: all of x goes to the output, or, in place, only the panels that the update
    overlaps."""
    x, update, out = call.args
    height, width = pair(call.args)
    strides = [(0, 1), (0, 1), *zip(call.words[::2], call.words[1::2], strict=True)]
    (top, down), (left, right) = strides[-2:]
    rows, cols = top + down * np.arange(update.view[1]), left + right * np.arange(update.view[2])
    hit = np.bincount(_planes(x, update, strides), minlength=x.view[0]) * (len(cols) > 0)
    bands, across = steps(x.view[1], height), steps(x.view[2], width)
    changed, below = taken(bands, np.unique(rows // height)), taken(across, np.unique(cols // width))
    columns = [np.flatnonzero(cols // width == p) for p in np.unique(cols // width)]
    spans = np.array([(c[0], c[-1] + 1) for c in columns], np.int64).reshape(-1, 2).T
    unit, units = update.unit[0], max(-(-update.view[1] // update.unit[0]), 1)
    blocks = np.unique(rows // height * units + np.arange(len(rows)) // unit) % units
    loads = np.bincount(blocks, minlength=units)[: -(-update.view[1] // unit), None]
    loads = (
        np.ones((update.view[0], 1, 1), np.int64)
        * loads
        * hits((spans[0], spans[1]), update.view[2], update.unit[1])
    )
    if not call.in_place:
        return moves([x.touched(np.ones(x.view[0], np.int64), bands, across), loads.reshape(-1)], out, width)
    stores = out.touched(hit, changed, below)
    again = stores if len(across[0]) > 1 and not out.tiled else 0
    return Moves([x.touched(hit, bands, below), loads.reshape(-1), again], stores)


def _slice(call: KernelCall) -> Moves:
    """Moves of a slice: a panel loads each page of rows from which it takes a row, as many columns at a time
    as fit a cover."""
    x, out = call.args
    height, width = pair(call.args)
    strides = [(0, 1), (0, 1), *zip(call.words[::2], call.words[1::2], strict=True)]
    planes = _planes(x, out, strides)
    (top, down), (left, right) = strides[-2:]
    unit, units = x.unit[0], max(-(-x.view[1] // x.unit[0]), 1)
    r = np.arange(out.view[1])
    rows = np.unique(r // height * units + (top + down * r) // unit) % units
    most = (_COVER - 1) // abs(right) + 1
    starts = [np.arange(j, min(j + width, out.view[2]), most) for j in range(0, out.view[2], width)]
    first = np.concatenate(starts)
    last = np.minimum(first + most, np.minimum(first // width * width + width, out.view[2])) - 1
    ends = left + right * np.array([first, last])
    across = hits((ends.min(0), ends.max(0) + 1), x.view[2], x.unit[1])
    loads = np.bincount(rows, minlength=units)
    times = np.bincount(planes, minlength=x.view[0])[:, None, None] * loads[:, None] * across
    return moves([times.reshape(-1)], out, width)


def _concatenate(call: KernelCall) -> Moves:
    """Moves of concatenate: panels of the output read their part of each input."""
    *inputs, out = call.args
    tiled, ndim = any(a.tiled for a in call.args), len(out.shape)
    height, width = cut(tiled, out.view[2], 1)
    reads, at = [], [0, 0]
    for x in inputs:
        pieces = []
        for d, step in ((0, height), (1, width)):
            first, end = steps(out.view[1 + d], step)
            pieces.append(inside(first - at[d], end - first, x.view[1 + d]))
        reads.append(x.touched(np.ones(x.view[0], np.int64), pieces[0], pieces[1]))
        if call.words[0] >= ndim - 2:
            at[call.words[0] - max(ndim - 2, 0) + (ndim < 2)] += x.shape[call.words[0]]
    return moves(reads, out, width)


def _tile(call: KernelCall) -> Moves:
    """Moves of tile: a panel is made in pieces, each of which ends where the input ends."""
    x, out = call.args
    height, width = cut(any(a.tiled for a in call.args), out.view[2], 1)
    spans = [
        _pieces(n, size, step)
        for n, size, step in zip(x.view[1:], out.view[1:], (height, width), strict=True)
    ]
    return moves([x.touched(np.full(x.view[0], out.view[0] // max(x.view[0], 1)), *spans)], out, width)


def _pieces(n: int, size: int, step: int) -> Spans:
    """Spans that cover 0 .. size-1 in panels of ``step``; each panel is cut where the input, of n elements,
    starts again."""
    cuts = np.union1d(np.arange(0, size, step), np.arange(0, size, n))
    return cuts % n, cuts % n + np.diff(cuts, append=size)


def _pad(call: KernelCall) -> Moves:
    """Moves of pad: panels of the output read their part of the input."""
    x, out = call.args
    height, width = cut(any(a.tiled for a in call.args), out.view[2], 1)
    before = (0, 0, *call.words[2:])
    spans = []
    for d, step in enumerate((height, width)):
        first, end = steps(out.view[1 + d], step)
        spans.append(inside(first - before[d - 2], end - first, x.view[1 + d]))
    seen = np.ones(1, np.int64)
    for n, size, front in zip(x.shape[:-2], out.shape[:-2], call.words[2:], strict=False):
        shown = (np.arange(n) + front >= 0) & (np.arange(n) + front < size)
        seen = (seen[:, None] * shown).ravel()
    return moves([x.touched(seen, *spans)], out, width)


MOVES: dict[str, Callable[[KernelCall], Moves]] = {
    "transpose": _transpose,
    "slice": _slice,
    "tile": _tile,
    "pad": _pad,
    "slice_update": _slice_update,
    "concatenate": _concatenate,
}
