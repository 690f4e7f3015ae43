"""The policy ``optimal``: branch and bound over all assignments of a small graph, many at a time.

Assignments grow node by node, in node order, so that the times of nodes assigned so far are exact. Those
whose lower bound is no better than the best known are dropped. Where the others become too many, those with
the least bound are kept: the answer is then the best that was seen, and ``bound`` what no assignment goes
below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.unique import unique_values
from .bounds import least_times, lower_bound
from .problem import PlacementProblem
from .schedule import NO_ROOM, evaluate
from .times import Times

__all__ = ["Exact", "solve"]

_MOST_CELLS = 1 << 22  # int64 that the assignments of one round hold: 32 MB
_MOST_NODES = 500  # of larger graphs a search would see too little
_LATE_OWNERS = 8  # nodes that own values which are read before them: tried before all others


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """``did`` int16 [nodes] and its ``ns``; ``bound`` ns: no assignment takes less. Equal: it is optimal."""

    did: np.ndarray
    ns: int
    bound: int


def solve(problem: PlacementProblem, known: np.ndarray) -> Exact:
    """The best assignment, where ``known`` int16 [nodes] is one that the search is to beat."""
    best, least = int(evaluate(problem, known[None])[0]), _Bounds(problem)
    if problem.num_nodes > _MOST_NODES:
        return Exact(known, best, lower_bound(problem))
    times, dropped, binds = _begin(problem), best, problem.room.binds
    cells = 3 * problem.num_nodes + len(problem.eid) * problem.num_devices + 6 * problem.num_devices
    most = max(_MOST_CELLS // cells, 1)
    bounds = np.zeros(len(times.rows), np.int64)
    for nid in range(problem.num_nodes):
        times, bounds = _branch(problem, times, bounds, nid)
        if binds:  # more nodes hold more: what has no room now never will
            fits = np.flatnonzero(problem.room.excess(_so_far(times.did, nid)) == 0)
            times, bounds = times.take(fits), bounds[fits]
        bounds = np.maximum(bounds, least.of(times, nid))
        kept = np.flatnonzero(bounds < best)
        if len(kept) > most:
            order = np.argsort(bounds[kept], kind="stable")
            dropped = min(dropped, int(bounds[kept[order[most]]]))
            kept = np.sort(kept[order[:most]])
        times, bounds = times.take(kept), bounds[kept]
    if len(times.rows):
        found = evaluate(problem, times.did)
        at = int(np.argmin(found))
        if found[at] < best:
            known, best = times.did[at], int(found[at])
    return Exact(known, best, min(best, dropped, NO_ROOM))


def _so_far(did: np.ndarray, nid: int) -> np.ndarray:
    """``did`` with only nodes up to ``nid`` placed."""
    return np.where(np.arange(did.shape[1]) <= nid, did, -1)


def _begin(problem: PlacementProblem) -> Times:
    """An empty assignment; one for each way to place nodes that own values which are read before them."""
    owner = problem.owner[problem.use_value]
    early = unique_values(owner[owner > problem.use_nid])
    times = Times(problem, 1)
    for at, nid in enumerate(early.tolist()):
        options = np.flatnonzero(problem.allowed[nid])
        options = options if at < _LATE_OWNERS else options[:1]
        rows = np.repeat(np.arange(len(times.rows)), len(options))
        did = np.tile(options, len(times.rows))
        times = times.take(rows)
        times.did[:, nid] = did
    return times


def _branch(
    problem: PlacementProblem, times: Times, bounds: np.ndarray, nid: int
) -> tuple[Times, np.ndarray]:
    """Every assignment on with node ``nid`` on each device that may run it."""
    said = times.did[:, nid]
    rows, did = [], []
    for device in np.flatnonzero(problem.allowed[nid]).tolist():
        fits = np.flatnonzero((said < 0) | (said == device))
        rows.append(fits)
        did.append(np.full(len(fits), device, np.int64))
    of = np.concatenate(rows)
    times = times.take(of)
    times.step(nid, np.concatenate(did))
    return times, bounds[of]


class _Bounds:
    """Lower bounds of assignments whose first nodes are placed."""

    def __init__(self, problem: PlacementProblem):
        least, self.tail = least_times(problem)
        self.kind, self.k = problem.objective, max(len(problem.running), 1)
        self.count = problem.num_devices
        self.rest = int(least.sum()) - np.cumsum(least)

    def of(self, times: Times, nid: int) -> np.ndarray:
        """int64 [rows], once node ``nid`` is placed, too."""
        rest = int(self.rest[nid])
        if self.kind == "serial":
            return times.serial + rest
        share = -((times.load[:, : self.count].sum(1) + rest) // -self.k)
        if self.kind == "throughput":
            return np.maximum(times.bottleneck, share)
        return np.maximum(np.maximum(times.over[:, nid] + self.tail[nid], share), times.makespan)
