"""Rows of several requests in one run: choosing a program by its number of rows, joining arrays and splitting
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

_NEARLY = 1.05


def common_rows(arrays: Sequence[tuple[int, ...]]) -> int | None:
    """The first dimension that all arrays have in common; None if they differ."""
    first = {shape[0] if shape else None for shape in arrays}
    return first.pop() if len(first) == 1 else None


def choose_rows(waiting: int, rows: Sequence[int], seconds: Sequence[float] = ()) -> int:
    """The number of rows of the program that runs next, when ``waiting`` rows wait. ``rows``: the sizes of
    the available programs, ascending; the size with the least time per waiting row is chosen. ``seconds``:
    run time of each size; without it, a run of n rows is taken to cost n + 1. A larger size is chosen even if
    its run takes slightly longer, because a run has costs that its time does not include."""
    if len(rows) == 1:
        return rows[0]
    taken = seconds or [1.0 + size for size in rows]
    each = {size: time / min(size, waiting) for size, time in zip(rows, taken, strict=True)}
    return max(size for size in rows if each[size] <= _NEARLY * min(each.values()))


def stack(
    requests: Sequence[Mapping[str, np.ndarray]], size: int, into: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """The inputs of several requests, joined along the first dimension and filled up to ``size`` rows with
    copies of the last row. Copies of a row are valid inputs; zeros may be invalid as indices or divisors.
    ``into`` {input: array}: arrays into which some of the inputs are written."""
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
    """One array per request: the rows of ``array`` that belong to that request. Padding rows at the end are
    dropped."""
    return [array[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]
