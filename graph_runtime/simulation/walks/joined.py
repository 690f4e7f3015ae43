"""Walks of the ops that make an element of those in its place (gr_tt_cut_elements of
native/kernels/tt/work.h): where all arguments are in rows, a panel is whole rows one behind the other, of as
many planes as it holds."""

from __future__ import annotations

import math

import numpy as np

from .args import PANEL_BYTES, KernelArg, KernelCall, Moves, broadcast, cut, moves, steps

__all__ = ["by_elements"]

_ELEMENTS = 16384  # GR_TT_PANEL_ELEMENTS of work.h
_VALUES = 512  # GR_TT_PLANE_VALUES of panel.h


def by_elements(call: KernelCall, count: int) -> Moves:
    """Inputs that broadcast; ``count`` panels in L1."""
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
    """How often each page of x is touched by panels of ``height`` rows, which go on from plane to plane
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
    """Adds what is read of an argument with one element a plane, of ``count`` planes, where a panel wants
    these one after the other: windows of the planes that follow, kept until another is wanted."""
    while len(wanted):
        first = int(wanted[0])
        end = first + min(_VALUES, count - first)
        change[first] += 1
        change[end] -= 1
        out = (wanted < first) | (wanted >= end)
        wanted = wanted[int(out.argmax()) :] if out.any() else wanted[:0]
