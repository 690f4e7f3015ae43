"""Walks of the ops that use indices (native/kernels/tt: gather.h, scatter.h, rows.h, scan.h)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...base.machine.layout import pages
from .args import COVER, KernelArg, KernelCall, Moves, hits, moves, pair, scanned, steps, taken


def far_apart(count: int, size: int) -> np.ndarray:
    """int64 [count]: indices below ``size``, each far from the index before. Hardly two successive indices
    share a tile, so a take of them reads as much as possible."""
    return np.arange(count) * max(round(size * 0.618), 1) % max(size, 1)


def _chosen(call: KernelCall, sizes: np.ndarray | int) -> np.ndarray:
    """int64 [numbers]: the indices, made >= 0 by counting from the front of ``sizes``; if unknown, indices
    that are far apart."""
    count = math.prod(call.args[1].shape)
    if call.indices is None:
        return far_apart(count, int(np.max(sizes))) % np.maximum(sizes, 1)
    index = np.asarray(call.indices, np.int64).ravel()
    return np.where(index < 0, index + sizes, index)


def _begin(call: KernelCall, batch: int) -> np.ndarray:
    """int64 [tuples]: the first element of each tuple's slice, counted within the dimensions after
    ``batch``."""
    data, shape = call.args[0].shape, call.args[1].shape
    k = shape[-1]
    sizes = np.array(data[batch : batch + k])
    index = _chosen(call, np.tile(sizes, math.prod(shape[:-1]))).reshape(-1, k)
    return index @ np.array([math.prod(data[batch + j + 1 :]) for j in range(k)])


def _load(times: np.ndarray, arg: KernelArg, at: np.ndarray, new: np.ndarray) -> None:
    """Add to ``times`` the pages that gr_tt_run_at loads for elements ``at``, in order. ``new``: mask over
    the elements; where it is true, no page is held from before."""
    _, rows, cols = arg.view
    row, cover = at // cols, at % cols // COVER
    down = -(-rows // arg.unit[0])
    block = row // rows * down + row % rows // arg.unit[0]
    key = block * (cols // COVER + 1) + cover
    loads = new.copy()
    loads[1:] |= key[1:] != key[:-1]
    across, per = -(-cols // arg.unit[1]), COVER // arg.unit[1] if arg.tiled else 1
    first = block[loads] * across + (cover[loads] * per if arg.tiled else 0)
    end = np.minimum(first + per, (block[loads] + 1) * across)
    times += hits((first, end), len(times), 1)


def _unread(*args: KernelArg) -> list[np.ndarray]:
    return [np.zeros(pages(a.layout, a.shape).count, np.int64) for a in args]


def _take(call: KernelCall) -> Moves:
    data, chosen, _ = call.args
    axis, count = call.words[0], math.prod(chosen.shape)
    size, after = data.shape[axis], math.prod(data.shape[axis + 1 :])
    index = _chosen(call, size)

    def locate(to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        which = to // after % count
        return which[:, None], (to // after // count * size + index[which]) * after + to % after

    return _gather(call, locate, after)


def _take_along_axis(call: KernelCall) -> Moves:
    data, chosen, _ = call.args
    axis = call.words[0]
    index = _chosen(call, data.shape[axis])
    spans = [math.prod(data.shape[d + 1 :]) for d in range(len(data.shape))]

    def locate(to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        coordinates = np.array(np.unravel_index(to, chosen.shape))
        coordinates[axis] = index[to]
        return to[:, None], np.array(spans) @ coordinates

    return _gather(call, locate, 1)


def _gather_nd(call: KernelCall) -> Moves:
    data, chosen, _ = call.args
    batch, k = call.words[0], chosen.shape[-1]
    after, size = math.prod(data.shape[batch + k :]), math.prod(data.shape[batch:])
    count, begin = math.prod(chosen.shape[batch:-1]), _begin(call, batch)

    def locate(to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        t = to // after
        return t[:, None] * k + np.arange(k), begin[t] + t // max(count, 1) * size + to % after

    return _gather(call, locate, after)


def _gather(
    call: KernelCall, locate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], after: int
) -> Moves:
    """Moves of a gather: the kernel makes runs of output elements in its order; data in the rectangle that it
    holds is not loaded again. ``locate``: function that gives, for output elements, the numbers of their
    indices [elements, k] and their source elements. ``after``: number of elements; runs end at its multiples.
    """
    data, chosen, out = call.args
    height, width = pair(call.args)
    planes, rows, cols = out.view
    reads = _unread(data, chosen)
    reads[1] += scanned(chosen, out)
    for c0 in range(0, cols, width):
        column = np.arange(c0, min(c0 + width, cols))
        line = np.arange(planes * rows)[:, None]
        to = (line * cols + column).ravel()
        anew = np.zeros((planes * rows, len(column)), bool)
        anew[line[:, 0] % rows % height == 0, 0] = True
        which, source = locate(to)
        begins = (to % after == 0) | (source % data.view[2] % COVER == 0) | (to % cols == c0)
        anew, which, source = anew.ravel()[begins], which[begins], source[begins]
        _load(reads[0], data, source, anew)
        again = np.zeros(which.shape, bool)
        again[:, 0] = anew
        _load(reads[1], chosen, which.ravel(), again.ravel())
    return moves(reads, out, width)


def _scatter_elements(call: KernelCall) -> Moves:
    """Moves of a scatter of elements: a panel reads the rows of indices and updates that may fall on the
    panel. If the axis is not the last, the panel reads only its own columns of these rows."""
    data, chosen, updates, _ = call.args
    axis, ndim, shape = call.words[0], len(data.shape), chosen.shape
    height, width = pair(call.args)
    planes, rows, cols = data.view
    reads, lines = _unread(data, chosen, updates), np.arange(math.prod(shape[:-1]))
    last = axis == ndim - 1
    spans = [math.prod(data.shape[d + 1 : -1]) for d in range(ndim - 1)]
    coordinates = np.array(np.unravel_index(lines, (1, *shape[:-1])))[1:]
    row = np.array([span * (d != axis) for d, span in enumerate(spans)], np.int64) @ coordinates
    reach = 0 if last else (data.shape[axis] - 1) * spans[axis]
    for plane in range(planes):
        for r0 in range(0, rows, height):
            top, end = plane * rows + r0, plane * rows + min(r0 + height, rows)
            seen = lines[(row < end) & (row + reach >= top)]
            for c0 in range(0, cols, width):
                first, ends = (0, shape[-1]) if last else (c0, min(shape[-1], c0 + width))
                at = np.array([j for j in range(first, ends) if j == first or j % COVER == 0], np.int64)
                flat = (seen[:, None] * shape[-1] + at).ravel()
                for times, arg in zip(reads[1:], (chosen, updates), strict=True):
                    _load(times, arg, flat, np.arange(len(flat)) == 0)
    return _scattered(call, reads, _targets(call, row, spans, last))


def _targets(call: KernelCall, row: np.ndarray, spans: list[int], last: bool) -> np.ndarray:
    """int64 [updates]: for each update, the element of the data that it changes."""
    data, chosen = call.args[0], call.args[1]
    index = _chosen(call, data.shape[call.words[0]]).reshape(len(row), -1)
    columns = np.arange(chosen.shape[-1])
    within = index if last else index * spans[call.words[0]] * data.view[2] + columns
    return (row[:, None] * data.view[2] + within).ravel()


def _scatter_nd(call: KernelCall) -> Moves:
    """Moves of scatter_nd: a panel reads all indices, and the part within the panel of each slice that falls
    on the panel."""
    data, chosen, updates, _ = call.args
    height, width = pair(call.args)
    planes, rows, cols = data.view
    k = chosen.shape[-1]
    part, begin = math.prod(data.shape[k:]), _begin(call, 0)
    reads = _unread(data, chosen, updates)
    target = (begin[:, None] + np.arange(part)).ravel()  # element of the data for each element of the updates
    for plane in range(planes):
        for r0 in range(0, rows, height):
            for c0 in range(0, cols, width):
                numbers = np.arange(len(begin) * k)
                _load(reads[1], chosen, numbers, numbers == 0)
                line, column = target // cols - plane * rows, target % cols
                flat = np.flatnonzero(
                    (line >= r0) & (line < min(r0 + height, rows)) & (column >= c0) & (column < c0 + width)
                )
                _load(reads[2], updates, flat, np.arange(len(flat)) == 0)
    return _scattered(call, reads, target)


def _scattered(call: KernelCall, reads: list[np.ndarray], target: np.ndarray) -> Moves:
    """Moves of a scatter whose ``reads`` of indices and updates are known: the data is read and the output
    written. In place, only panels that contain an element of ``target`` are read and written."""
    data, out = call.args[0], call.args[-1]
    reads[1] += scanned(call.args[1], out)
    height, width = pair(call.args)
    planes, rows, cols = data.view
    down, across = steps(rows, height), steps(cols, width)
    if not call.in_place:
        reads[0] = data.touched(np.ones(planes, np.int64), down, across)
        return moves(reads, out, width)
    changed = np.unique(
        np.stack([target // cols // rows, target // cols % rows // height, target % cols // width]), axis=1
    )
    one, stores = np.zeros(planes, np.int64), np.zeros(len(reads[0]), np.int64)
    for plane, line, column in changed.T:
        one[:] = np.arange(planes) == plane
        stores += out.touched(
            one, taken(down, slice(line, line + 1)), taken(across, slice(column, column + 1))
        )
    again = stores if len(across[0]) > 1 and not out.tiled else 0
    return Moves([stores, *reads[1:], again], stores)


GATHERS: dict[str, Callable[[KernelCall], Moves]] = {
    "take": _take,
    "take_along_axis": _take_along_axis,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
}
