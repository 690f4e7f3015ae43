"""Offsets for buffers with known lifetimes: a search, and greedy in six orders where it finds nothing.

The search is an argument (Packer), because planning imports no C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .conflicts import Groups

__all__ = [
    "FITS",
    "IMPOSSIBLE",
    "MOST",
    "MOST_GROUPED",
    "UNKNOWN",
    "Packed",
    "Packer",
    "in_time",
    "most_live",
    "pack_conflicts",
    "pack_offsets",
]

FITS, IMPOSSIBLE, UNKNOWN = "fits", "impossible", "unknown"
# (groups, size, capacity) -> (FITS, offsets) or (IMPOSSIBLE or UNKNOWN, None): packing.pack
Packer = Callable[[Groups, np.ndarray, int], tuple[str, np.ndarray | None]]

MOST = 2000  # buffers of which all pairs are looked at
MOST_GROUPED = 300  # of which pairs are put into groups
_STEPS = 6  # capacities tried between the bound and what greedy found


class Packed(NamedTuple):
    """``offset`` int64 [buffers]; ``peak``, where the last ends; ``bound``, which no packing is below."""

    offset: np.ndarray
    peak: int
    bound: int


def most_live(lower: np.ndarray, upper: np.ndarray, size: np.ndarray) -> int:
    """The most bytes that live at one time; lifetimes are half open."""
    if not len(size):
        return 0
    times = np.concatenate([upper, lower])  # what ends at a time goes before what begins there
    change = np.concatenate([-size, size])
    order = np.argsort(times, kind="stable")
    return int(change[order].cumsum().max())


def pack_offsets(
    lower: np.ndarray, upper: np.ndarray, size: np.ndarray, packer: Packer | None = None
) -> Packed:
    """Offsets of buffers that live at lower <= time < upper, int64 [buffers] each, so that the peak is small.

    ``packer`` is asked to fit them into the bound; else greedy packings show what is possible, and it is
    asked for less than that. Beyond MOST buffers the result is one after another."""
    bound = most_live(lower, upper, size)
    if not len(size) or len(size) > MOST:
        return Packed(size.cumsum() - size, int(size.sum()), bound)
    groups = Groups.of_times(lower, upper)
    offset = None if packer is None else packer(groups, size, bound)[1]
    if offset is not None:  # it mostly fits the bound faster than greedy is done
        return Packed(offset, bound, bound)
    best = _best(in_time(lower, upper), size, _orders(lower, upper, size), bound)
    return _search(groups, size, best, packer, bound)


def pack_conflicts(
    conflict: np.ndarray, born: np.ndarray, size: np.ndarray, packer: Packer | None = None
) -> Packed:
    """As pack_offsets, of buffers of which pairs are in conflict, bool [buffers, buffers], not just those
    that live at one time in one order. ``born`` int64 [buffers]: that order. The bound is the largest group
    found in which all are in conflict; beyond MOST_GROUPED buffers none is looked for, and it is the
    largest pair."""
    orders = [np.argsort(key, kind="stable") for key in (born, -size)]
    if len(size) > MOST_GROUPED:
        return _best(conflict, size, orders, int(np.where(conflict, size[:, None] + size, size).max()))
    groups = Groups.of_conflicts(conflict, size)
    return _search(groups, size, _best(conflict, size, orders, groups.most(size)), packer)


def in_time(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """bool [buffers, buffers]: both live at some time."""
    return (lower[:, None] < upper) & (lower < upper[:, None])


def _best(conflict: np.ndarray, size: np.ndarray, orders: list[np.ndarray], bound: int) -> Packed:
    """The best of greedy packings in some orders: each buffer goes into the lowest gap that those placed
    before it leave, of those that it is in conflict with (bool [buffers, buffers])."""
    best = None
    for order in orders:
        offset = _greedy(conflict, size, order)
        peak = int((offset + size).max(initial=0))
        if best is None or peak < best.peak:
            best = Packed(offset, peak, bound)
        if peak <= bound:
            break
    return best or Packed(np.zeros(0, np.int64), 0, bound)


def _orders(lower: np.ndarray, upper: np.ndarray, size: np.ndarray) -> list[np.ndarray]:
    """By size, area, birth, lifetime, size as it dies, and breadth: the most that lives beside a buffer."""
    width = upper - lower
    times = np.array(sorted({*lower.tolist(), *upper.tolist()}), np.int64)
    first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
    total = np.zeros(len(times), np.int64)
    for begin, end, s in zip(first.tolist(), last.tolist(), size.tolist(), strict=True):
        total[begin:end] += s
    breadth = np.array([total[a:b].max() for a, b in zip(first.tolist(), last.tolist(), strict=True)])
    keys = (
        (width, size),
        (size, width * size),
        (-size, lower),
        (size, width),
        (-upper, size),
        (width * size, breadth),
    )
    return [np.lexsort((np.arange(len(size)), -second, -major)) for second, major in keys]


def _greedy(conflict: np.ndarray, size: np.ndarray, order: np.ndarray) -> np.ndarray:
    offset, placed = np.zeros(len(size), np.int64), np.zeros(len(size), bool)
    for at in order.tolist():
        near = np.flatnonzero(conflict[at] & placed)
        low = offset[near]
        rank = np.argsort(low, kind="stable")
        low = low[rank]
        top = np.maximum.accumulate(low + size[near][rank])
        floor = np.concatenate([[0], top])  # where each gap begins; the last has no end
        fits = np.flatnonzero(low - floor[:-1] >= size[at])
        offset[at] = floor[fits[0]] if len(fits) else floor[-1]
        placed[at] = True
    return offset


def _search(
    groups: Groups, size: np.ndarray, best: Packed, packer: Packer | None, refused: int = -1
) -> Packed:
    """Asks the packer for the bound, unless it ``refused`` that, then for capacities half way between what it
    did not find and what was found."""
    if packer is None or best.peak == best.bound:
        return best
    for _ in range(_STEPS):
        capacity = best.bound if refused < best.bound else (refused + best.peak) // 2
        if capacity <= refused or capacity >= best.peak:
            break
        offset = packer(groups, size, capacity)[1]
        if offset is None:
            refused = capacity
        else:
            best = Packed(offset, int((offset + size).max()), best.bound)
    return best
