"""Which values share a block: greedy best fit over lifetimes, the rule of TVM's planner without its limit on
waste."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

__all__ = ["greedy"]


def greedy(born: np.ndarray, last: np.ndarray, size: np.ndarray, region: np.ndarray) -> np.ndarray:
    """int64 [values]: the block of each value; values whose lifetimes [born, last] touch never share one.

    Values come in the order of ``born``. Of the free blocks of its region a value takes the smallest that is
    large enough, else the largest, which grows, else a new one: blocks are numbered as they are made.
    """
    ending = np.argsort(last, kind="stable")
    ends, ending = last[ending].tolist(), ending.tolist()
    born, size, region = born.tolist(), size.tolist(), region.tolist()
    free: list[list[tuple[int, int]]] = [
        [] for _ in range(max(region, default=-1) + 1)
    ]  # sorted (capacity, block)
    capacity: list[int] = []
    block = [0] * len(born)
    at = 0
    for value, start in enumerate(born):
        while ends[at] < start:
            done = ending[at]
            at += 1
            insort(free[region[done]], (capacity[block[done]], block[done]))
        blocks, need = free[region[value]], size[value]
        if not blocks:
            block[value] = len(capacity)
            capacity.append(need)
            continue
        fit = bisect_left(blocks, (need, -1))
        if fit == len(blocks):
            fit -= 1
        found = block[value] = blocks.pop(fit)[1]
        if capacity[found] < need:
            capacity[found] = need
    return np.array(block, np.int64)
