"""HEFT (Topcuoglu, Hariri and Wu, 2002): the node with the longest way to the end first, each on the device
where it is over earliest, in a gap if it fits."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from .problem import UNSUPPORTED, PlacementProblem

__all__ = ["heft"]


def heft(problem: PlacementProblem) -> np.ndarray:
    """int16 [nodes]; copies are as long as they are and take no queue."""
    allowed, count = problem.allowed, problem.num_nodes
    reads: list[list[int]] = [[] for _ in range(count)]
    for nid, value in zip(problem.use_nid.tolist(), problem.use_value.tolist(), strict=True):
        reads[nid].append(value)
    did, over = [-1] * count, [0] * count
    busy: list[list[tuple[int, int]]] = [[] for _ in problem.devices]
    owner, ready = problem.owner.tolist(), problem.ready.tolist()
    copy, cost = problem.copy.tolist(), problem.cost.tolist()
    options = [np.flatnonzero(row).tolist() for row in allowed]
    for nid in _by_rank(problem):
        best: tuple[int, int, int] | None = None  # (end, device, start)
        for device in options[nid]:
            begin = 0
            for value in reads[nid]:
                source = did[owner[value]]
                there = copy[value][source][device] if source >= 0 else 0
                begin = max(begin, there + (over[ready[value]] if ready[value] >= 0 else 0))
            start = _gap(busy[device], begin, cost[nid][device])
            if best is None or start + cost[nid][device] < best[0]:
                best = (start + cost[nid][device], device, start)
        assert best is not None  # some device can run every node
        over[nid], did[nid], start = best
        if over[nid] > start:
            slots = busy[did[nid]]
            slots.insert(bisect_left(slots, (start, over[nid])), (start, over[nid]))
    return np.array(did, np.int16)


def _by_rank(problem: PlacementProblem) -> list[int]:
    """Nodes by the mean time from their beginning to the end of all that needs them, longest first."""
    k = problem.num_devices
    able = problem.cost < UNSUPPORTED
    mean = np.where(able, problem.cost, 0).sum(1) / np.maximum(able.sum(1), 1)
    moved = problem.copy.sum((1, 2)) / max(k * (k - 1), 1)
    rank = mean.copy()
    for nid, value in zip(problem.use_nid[::-1].tolist(), problem.use_value[::-1].tolist(), strict=True):
        maker = problem.ready[value]
        if maker >= 0:
            rank[maker] = max(rank[maker], mean[maker] + moved[value] + rank[nid])
    return np.lexsort((np.arange(len(rank)), -rank)).tolist()


def _gap(busy: list[tuple[int, int]], begin: int, ns: int) -> int:
    """The earliest start from ``begin`` at which ``ns`` fit between busy times."""
    at = bisect_left(busy, (begin, 0))
    if at:
        begin = max(begin, busy[at - 1][1])
    for start, end in busy[at:]:
        if begin + ns <= start:
            return begin
        begin = max(begin, end)
    return begin
