"""Rows of several requests in one run: which program takes how many; arrays put together and apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["choose_rows", "common_rows", "split", "stack"]


def common_rows(arrays: Sequence[tuple[int, ...]]) -> int | None:
    """The first dimension that all shapes have, None where they have none in common."""
    first = {shape[0] if shape else None for shape in arrays}
    return first.pop() if len(first) == 1 else None


def choose_rows(waiting: int, rows: Sequence[int]) -> int:
    """The size of the program that runs next, of those that there are (ascending), when ``waiting`` rows are
    there: the smallest that holds all of them, but one that they fill where less than half of that were
    used."""
    if waiting >= rows[-1]:
        return rows[-1]
    above = next(size for size in rows if size >= waiting)
    filled = [size for size in rows if size <= waiting]
    return filled[-1] if filled and 2 * waiting <= above else above


def stack(requests: Sequence[Mapping[str, np.ndarray]], size: int) -> dict[str, np.ndarray]:
    """The inputs of several requests, one below the other, with ``size`` rows: what is missing is the last
    row again and again, which a model takes as it took the first: zeros may be no index and no divisor."""
    return {name: _stacked([one[name] for one in requests], size) for name in requests[0]}


def _stacked(arrays: Sequence[np.ndarray], size: int) -> np.ndarray:
    if len(arrays) == 1 and len(arrays[0]) == size:
        return arrays[0]
    made, at = np.empty((size, *arrays[0].shape[1:]), arrays[0].dtype), 0
    for array in arrays:
        made[at : at + len(array)] = array
        at += len(array)
    made[at:] = arrays[-1][-1]
    return made


def split(array: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """The rows of each request; those of padding, behind them, are left out."""
    ends = np.cumsum(counts)
    return [array[end - count : end] for count, end in zip(counts, ends.tolist(), strict=True)]
