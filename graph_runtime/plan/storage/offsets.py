"""Offsets for buffers with known lifetimes: sets of buffers that may share no byte, a search, and a greedy
method in six orders if the search finds nothing.

The search is an argument (Packer), because planning imports no C code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import GraphRuntimeError, InputError, PlanError
from ...base.outside import find_outside, name_of
from ...base.unique import unique_values
from ..columns import most_live, ragged, starts


class Groups(NamedTuple):
    """Sets of buffers that may share no byte: group g has the buffers ``member[ptr[g]:ptr[g + 1]]`` (``ptr``
    int64 [groups + 1], ``member`` int32). Two buffers in conflict are in some group together, and every
    buffer is in a group. ``width`` int64 [buffers]: lifetimes, by which the packer orders buffers."""

    ptr: np.ndarray
    member: np.ndarray
    width: np.ndarray

    @classmethod
    def of_times(cls, lower: np.ndarray, upper: np.ndarray) -> Groups:
        """Groups of buffers that live at lower <= time < upper, int64 [buffers] each. There is one group for
        each span between neighbouring times at which a buffer begins or ends. Raises InputError for times
        that do not match, or a buffer without a time to live."""
        if len(lower) != len(upper):
            text = f"{len(lower)} buffers begin and {len(upper)} end: give both times of each"
            raise InputError(text, got=len(upper), wanted=len(lower))
        bad = np.flatnonzero(lower >= upper)
        if len(bad):
            at = int(bad[0])
            raise InputError(
                f"buffer {at} of a packing lives from {lower[at]} to {upper[at]}: give a later end", got=at
            )
        times = unique_values(np.concatenate([lower, upper]))
        first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
        buffer = np.repeat(np.arange(len(lower), dtype=np.int32), last - first)
        return cls._of_pairs(ragged(first, last - first), buffer, max(len(times) - 1, 0), upper - lower)

    @classmethod
    def of_conflicts(cls, conflict: np.ndarray, size: np.ndarray) -> Groups:
        """Groups for pairs in conflict, bool [buffers, buffers], symmetric. No buffer can be added to a
        group. For each buffer, the largest first, groups are made until every conflict of the buffer lies in
        a group."""
        conflict = conflict.copy()
        np.fill_diagonal(conflict, False)
        left, found = conflict.copy(), []
        np.fill_diagonal(left, True)  # a buffer without conflicts is a group, too
        for at in np.argsort(-size, kind="stable").tolist():
            while left[at].any():
                group, near = [at], conflict[at].copy()
                while near.any():  # take the largest whose pair is in no group yet, else the largest
                    other = int(np.argmax(np.where(near, size + left[at] * size.max(), -1)))
                    group.append(other)
                    near &= conflict[other]
                left[np.ix_(group, group)] = False
                found.append(group)
        row = np.repeat(np.arange(len(found)), [len(group) for group in found])
        member = np.array([at for group in found for at in group], np.int32)
        return cls._of_pairs(row, member, len(found), conflict.sum(1))

    @classmethod
    def _of_pairs(cls, group: np.ndarray, member: np.ndarray, count: int, width: np.ndarray) -> Groups:
        order = np.lexsort((member, group))
        return cls(starts(np.bincount(group, minlength=count)), member[order], width.astype(np.int64))

    def most(self, size: np.ndarray) -> int:
        """Bytes of the largest group, a lower bound of every packing."""
        total = np.add.reduceat(np.append(size[self.member], 0), self.ptr[:-1]) if len(self.ptr) > 1 else ()
        return int(max(total, default=0))


FITS, IMPOSSIBLE, UNKNOWN = "fits", "impossible", "unknown"
# function (groups, size, capacity) -> (FITS, offsets), or (IMPOSSIBLE or UNKNOWN, None), such as packing.pack
Packer = Callable[[Groups, np.ndarray, int], tuple[str, np.ndarray | None]]

MOST = 2000  # most buffers of which all pairs are compared
MOST_GROUPED = 300  # most buffers whose conflicts are put into groups
_STEPS = 6  # most capacities tried between the bound and the greedy peak


class Packed(NamedTuple):
    """``offset`` int64 [buffers]; ``peak``: the highest end of a buffer; ``bound``: a lower bound of every
    packing."""

    offset: np.ndarray
    peak: int
    bound: int


def pack_offsets(
    lower: np.ndarray, upper: np.ndarray, size: np.ndarray, packer: Packer | None = None
) -> Packed:
    """Offsets of buffers that live at lower <= time < upper, int64 [buffers] each, with a small peak.

    ``packer`` is first asked to fit the buffers into the bound. If ``packer`` finds no such packing, greedy
    packings give a capacity, and ``packer`` is asked for smaller capacities. More than MOST buffers are put
    one after another.
    """
    bound = most_live(lower, upper, size)
    if not len(size) or len(size) > MOST:
        return Packed(size.cumsum() - size, int(size.sum()), bound)
    groups = Groups.of_times(lower, upper)
    offset = None if packer is None else packer(groups, size, bound)[1]
    if offset is not None:  # the usual case, and faster than the greedy method
        return Packed(offset, bound, bound)
    best = _best(in_time(lower, upper), size, _orders(lower, upper, size), bound)
    return _search(groups, size, best, packer, bound)


def pack_conflicts(
    conflict: np.ndarray, born: np.ndarray, size: np.ndarray, packer: Packer | None = None
) -> Packed:
    """Offsets as in pack_offsets, for buffers with pairs in conflict, bool [buffers, buffers]. ``born`` int64
    [buffers]: their order. The bound is the size of the largest group found whose buffers are all in
    conflict; for more than MOST_GROUPED buffers it is the size of the largest pair in conflict."""
    orders = [np.argsort(key, kind="stable") for key in (born, -size)]
    if len(size) > MOST_GROUPED:
        return _best(conflict, size, orders, int(np.where(conflict, size[:, None] + size, size).max()))
    groups = Groups.of_conflicts(conflict, size)
    return _search(groups, size, _best(conflict, size, orders, groups.most(size)), packer)


def in_time(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """bool [buffers, buffers]: whether the two buffers live at a common time."""
    return (lower[:, None] < upper) & (lower < upper[:, None])


def _best(conflict: np.ndarray, size: np.ndarray, orders: list[np.ndarray], bound: int) -> Packed:
    """The best of the greedy packings in ``orders``: each buffer goes into the lowest gap between the placed
    buffers with which it is in conflict (bool [buffers, buffers])."""
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
    """Orders of the buffers by size, area, birth, lifetime, size by death, and breadth (the most bytes live
    while a buffer lives)."""
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
        floor = np.concatenate([[0], top])  # places where gaps begin; the last gap is endless
        fits = np.flatnonzero(low - floor[:-1] >= size[at])
        offset[at] = floor[fits[0]] if len(fits) else floor[-1]
        placed[at] = True
    return offset


def _search(
    groups: Groups, size: np.ndarray, best: Packed, packer: Packer | None, refused: int = -1
) -> Packed:
    """The best packing after a search. The packer is first asked for the bound, unless it has ``refused`` the
    bound before. Then it is asked for capacities half way between the largest refused capacity and the best
    found."""
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


def find_packer(given: Callable[..., Any] | str) -> Packer:
    """The packer named "package.module:function", or the given function. Its answers are checked: offsets
    that do not fit raise PlanError and never become a plan. Raises InputError for a value that is no packer,
    PlanError for a name that cannot be found."""
    name = name_of(given)
    if isinstance(given, str) and ":" in given:
        packer = find_outside("packer", given)
    elif callable(given):
        packer = given
    else:
        raise InputError(f"a packer is a function or package.module:function, got {given!r}", got=given)

    def checked(groups: Groups, size: np.ndarray, capacity: int) -> tuple[str, np.ndarray | None]:
        try:
            status, offset = packer(groups, size.copy(), capacity)
        except GraphRuntimeError:
            raise
        except Exception as error:
            raise PlanError(f"packer {name} failed: {type(error).__name__}: {error}", got=name) from error
        if status not in (FITS, IMPOSSIBLE, UNKNOWN):
            _refuse(name, f"{status!r}, which is none of {FITS!r}, {IMPOSSIBLE!r} and {UNKNOWN!r}")
        return (FITS, _offsets(name, offset, groups, size, capacity)) if status == FITS else (status, None)

    return checked


def _offsets(name: str, said: Any, groups: Groups, size: np.ndarray, capacity: int) -> np.ndarray:
    """int64 [buffers]: a packer's offsets, checked: buffers of a group do not overlap, and all are within the
    capacity."""
    offset = np.asarray(said)
    if offset.shape != size.shape or offset.dtype.kind not in "iu":
        _refuse(name, f"{offset.dtype}{list(offset.shape)} of offsets, for integers [{len(size)}]")
    offset = offset.astype(np.int64)
    ends = offset + size
    out = np.flatnonzero((offset < 0) | (ends > capacity))
    if len(out):
        at = int(out[0])
        _refuse(name, f"bytes {offset[at]} to {ends[at]} of {capacity} for buffer {at}")
    group = np.repeat(np.arange(len(groups.ptr) - 1), np.diff(groups.ptr))
    order = np.lexsort((ends[groups.member], offset[groups.member], group))
    group, member = group[order], groups.member[order]
    over = np.flatnonzero((group[1:] == group[:-1]) & (ends[member[:-1]] > offset[member[1:]]))
    # a buffer without bytes overlaps no other
    over = over[(size[member[over]] > 0) & (size[member[over + 1]] > 0)]
    if len(over):
        a, b = int(member[over[0]]), int(member[over[0] + 1])
        _refuse(
            name, f"bytes {offset[a]} to {ends[a]} for buffer {a} and from {offset[b]} for {b}, which overlap"
        )
    return offset


def _refuse(name: str, text: str) -> None:
    raise PlanError(f"packer {name} answered {text}", got=name)
