"""Rows of several requests in one run: which program takes how many; arrays put together and apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

__all__ = ["choose_rows", "common_rows", "split", "stack"]

_NEARLY = 1.05


def common_rows(arrays: Sequence[tuple[int, ...]]) -> int | None:
    """The first dimension that all shapes have, None where they have none in common."""
    first = {shape[0] if shape else None for shape in arrays}
    return first.pop() if len(first) == 1 else None


def choose_rows(waiting: int, rows: Sequence[int], seconds: Sequence[float] = ()) -> int:
    """The size of the program that runs next, of those that there are (ascending), when ``waiting`` rows are
    there: the one that takes least time for a row that is asked for. ``seconds``: of a run of each; without
    them a run takes as long as one row of it more. A larger one may take a little longer: runs have costs
    that are not in their times."""
    if len(rows) == 1:
        return rows[0]
    taken = seconds or [1.0 + size for size in rows]
    each = {size: time / min(size, waiting) for size, time in zip(rows, taken, strict=True)}
    return max(size for size in rows if each[size] <= _NEARLY * min(each.values()))


def stack(
    requests: Sequence[Mapping[str, np.ndarray]],
    size: int,
    into: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """The inputs of several requests, one below the other, with ``size`` rows: what is missing is the last
    row again and again, which a model takes as it took the first: zeros may be no index and no divisor.
    ``into``: arrays that some of them are written to."""
    to = into or {}
    return {name: _stacked([one[name] for one in requests], size, to.get(name)) for name in requests[0]}


def _stacked(arrays: Sequence[np.ndarray], size: int, into: np.ndarray | None) -> np.ndarray:
    if len(arrays) == 1 and len(arrays[0]) == size and into is None:
        return arrays[0]
    made = np.empty((size, *arrays[0].shape[1:]), arrays[0].dtype) if into is None else into
    at = 0
    for array in arrays:
        made[at : at + len(array)] = array
        at += len(array)
    made[at:] = arrays[-1][-1]
    return made


def split(array: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """The rows of each request; those of padding, behind them, are left out."""
    return [array[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]
