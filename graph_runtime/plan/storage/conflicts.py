"""Groups: which buffers may share no byte, as sets of which all pairs are apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...base.errors import InputError
from ...base.unique import unique_values
from ..columns import ragged, starts

__all__ = ["Groups"]


class Groups(NamedTuple):
    """Group g is the buffers ``member[ptr[g]:ptr[g + 1]]`` (int64 [groups + 1], int32); two that may share no
    byte are in some group together, and every buffer is in one. ``width`` int64 [buffers]: how long each
    lives, in which the packer orders them."""

    ptr: np.ndarray
    member: np.ndarray
    width: np.ndarray

    @classmethod
    def of_times(cls, lower: np.ndarray, upper: np.ndarray) -> Groups:
        """Of buffers that live at lower <= time < upper, int64 [buffers] each: a group for each span between
        neighbouring times at which something begins or ends. Raises InputError."""
        if len(lower) != len(upper):
            raise InputError(
                f"{len(lower)} buffers begin and {len(upper)} end: give both times of each",
                got=len(upper),
                wanted=len(lower),
            )
        bad = np.flatnonzero(lower >= upper)
        if len(bad):
            at = int(bad[0])
            raise InputError(
                f"buffer {at} of a packing lives from {lower[at]} to {upper[at]}: give a time to live", got=at
            )
        times = unique_values(np.concatenate([lower, upper]))
        first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
        buffer = np.repeat(np.arange(len(lower), dtype=np.int32), last - first)
        return cls._of_pairs(ragged(first, last - first), buffer, max(len(times) - 1, 0), upper - lower)

    @classmethod
    def of_conflicts(cls, conflict: np.ndarray, size: np.ndarray) -> Groups:
        """Of pairs, bool [buffers, buffers], symmetric: groups that none can be added to, from each buffer on
        the larger ones first, until all pairs are in one."""
        conflict = conflict.copy()
        np.fill_diagonal(conflict, False)
        left, found = conflict.copy(), []
        np.fill_diagonal(left, True)  # a buffer without conflicts is a group too
        for at in np.argsort(-size, kind="stable").tolist():
            while left[at].any():
                group, near = [at], conflict[at].copy()
                while near.any():  # one whose pair is in no group yet, else any; the largest
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
        """Bytes of the largest group: no packing takes less."""
        total = np.add.reduceat(np.append(size[self.member], 0), self.ptr[:-1]) if len(self.ptr) > 1 else ()
        return int(max(total, default=0))
