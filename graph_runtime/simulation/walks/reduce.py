"""Walks of reductions, including global pools and argmax (native/kernels/tt: reduce.h, rows.h)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.ops.reductions.axis import MOST_KEPT
from .args import KernelArg, KernelCall, Moves, cut, moves, steps

_WINDOW, _PLANES = 512, 12  # columns in L1 at a time (reduce.h); bits of axes 2 and 3 of NCHW


@dataclass(frozen=True, slots=True)
class _Job:
    """Description of a reduction, as gr_tt_reduce_job. ``lines``: rows of the input that are combined into
    one row or element of the output. ``last``, ``rows_last``: whether the last dimension, and the one before
    it, are reduced."""

    shape: tuple[int, ...]
    mask: int
    lines: int
    last: bool
    rows_last: bool


def _reduce(call: KernelCall) -> Moves:
    """Moves of a reduction. Each panel loads in turn the rows that it needs; rows of one tile are loaded
    together."""
    return _walk(call, call.words[0])


def _arg(call: KernelCall) -> Moves:
    return _walk(call, 1 << call.words[0])


def _topk(call: KernelCall) -> Moves:
    """Moves of topk. Along the last axis, a row is read in windows, and its k results are written at once;
    along another axis, 32 columns are read at a time. Where more than MOST_KEPT elements of a line are kept,
    the lines are sorted."""
    x, out = call.args
    if out.shape and out.shape[call.words[0]] > MOST_KEPT:
        return _sorted_lines(call)
    last = call.words[0] >= len(x.shape) - 1
    windows = steps(x.view[2], _WINDOW if last else 32)
    read = x.touched(np.ones(x.view[0], np.int64), steps(x.view[1], 32), windows)
    made = [moves([], to, max(out.view[2], 1) if last else 32) for to in (out, *call.others)]
    return Moves([read, *(m.reads[0] for m in made)], made[0].writes, [m.writes for m in made[1:]])


def _sorted_lines(call: KernelCall) -> Moves:
    """Moves of topk by sorting: panels of the whole input are read, then panels of each output written
    (topk.h)."""
    x, out = call.args
    tiled = any(a.tiled for a in (*call.args, *call.others))
    height, width = cut(tiled, x.view[2], 1)
    read = x.touched(np.ones(x.view[0], np.int64), steps(x.view[1], height), steps(x.view[2], width))
    made = [moves([], to, cut(tiled, to.view[2], 1)[1]) for to in (out, *call.others)]
    return Moves([read, *(m.reads[0] for m in made)], made[0].writes, [m.writes for m in made[1:]])


def _global_pool(call: KernelCall) -> Moves:
    return _walk(call, _PLANES)


def _walk(call: KernelCall, mask: int) -> Moves:
    x, out = call.args
    ndim = len(x.shape)
    job = _Job(
        x.shape,
        mask,
        math.prod(n for d, n in enumerate(x.shape[:-1]) if mask >> d & 1),
        bool(ndim >= 1 and mask >> (ndim - 1) & 1),
        bool(ndim >= 2 and mask >> (ndim - 2) & 1),
    )
    height, width = cut(any(a.tiled for a in call.args), out.view[2], 4)
    planes, rows, cols = x.view
    down = -(-rows // x.unit[0])
    times = np.zeros((planes * down, -(-max(cols, 1) // x.unit[1])), np.int64)
    for at in _panels(out, height, width):
        row = _rows(job, out.view, at)
        block = row // rows * down + row % rows // x.unit[0] if rows else row
        loads = np.bincount(block[np.diff(block, prepend=-1) != 0], minlength=len(times))
        step, (left, end) = (_WINDOW, (0, cols)) if job.last else (width, at[2])
        for c0 in range(left, end, step):
            times[:, c0 // x.unit[1] : -(-min(c0 + step, end) // x.unit[1])] += loads[:, None]
    return moves([times.reshape(-1)], out, width)


def _panels(
    out: KernelArg, height: int, width: int
) -> Iterator[tuple[int, tuple[int, int], tuple[int, int]]]:
    """Yields (plane, (first row, end), (first column, end)) for each panel."""
    planes, rows, cols = out.view
    for plane in range(planes):
        for r0 in range(0, rows, height):
            for c0 in range(0, cols, width):
                yield plane, (r0, min(r0 + height, rows)), (c0, min(c0 + width, cols))


def _rows(job: _Job, view: tuple[int, int, int], at: tuple[Any, ...]) -> np.ndarray:
    """int64: the input rows that a panel needs, in the kernel's order."""
    plane, (r0, r1), (c0, c1) = at
    kept = plane * view[1] + np.arange(r0, r1)
    if job.last:
        kept = (kept[:, None] * view[2] + np.arange(c0, c1)).ravel()
    kept, reduced = kept[:, None], np.arange(job.lines)
    row, stride = np.zeros((len(kept), job.lines), np.int64), 1
    for d in range(len(job.shape) - 2, -1, -1):
        size = job.shape[d]
        if job.mask >> d & 1:
            row += reduced % size * stride
            reduced = reduced // size
        else:
            row += kept % size * stride
            kept = kept // size
        stride *= size
    return (row if job.rows_last else row.T).ravel()


REDUCTIONS: dict[str, Callable[[KernelCall], Moves]] = {
    "reduce": _reduce,
    "arg": _arg,
    "topk": _topk,
    "global_pool": _global_pool,
}
