"""The policy ``optimal``: branch and bound over all assignments of a small graph, many at a time.

Assignments grow node by node, in node order, so that the times of nodes assigned so far are exact. An
assignment is dropped if its lower bound is no better than the best known result. If too many assignments are
left, only those with the least bounds are kept. The answer is then the best assignment found, and ``bound``
is a lower bound of all assignments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.unique import unique_values
from .bounds import least_times, lower_bound
from .problem import PlacementProblem
from .schedule import NO_ROOM, evaluate
from .times import Times

_MOST_CELLS = 1 << 22  # most int64 numbers in the assignments of one round: 32 MB
_MOST_NODES = 500  # most nodes: in a larger graph a search would cover too little
_LATE_OWNERS = 8  # most owners for which every device is tried at the start


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """``did`` int16 [nodes] and its time ``ns``; ``bound``: lower bound in ns. If both are equal, ``did`` is
    optimal."""

    did: np.ndarray
    ns: int
    bound: int


def solve(problem: PlacementProblem, known: np.ndarray) -> Exact:
    """The best assignment found; ``known`` int16 [nodes]: the assignment that the search has to beat."""
    best, least = int(evaluate(problem, known[None])[0]), _Bounds(problem)
    if problem.num_nodes > _MOST_NODES:
        return Exact(known, best, lower_bound(problem))
    times, dropped, binds = _begin(problem), best, problem.room.binds
    cells = 3 * problem.num_nodes + len(problem.eid) * problem.num_devices + 6 * problem.num_devices
    most = max(_MOST_CELLS // cells, 1)
    bounds = np.zeros(len(times.rows), np.int64)
    for nid in range(problem.num_nodes):
        times, bounds = _branch(problem, times, bounds, nid)
        if binds:  # an assignment without room never gets room, because more nodes hold more
            so_far = np.where(np.arange(problem.num_nodes) <= nid, times.did, -1)
            fits = np.flatnonzero(problem.room.excess(so_far) == 0)
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


def _begin(problem: PlacementProblem) -> Times:
    """An empty assignment for each way to place the nodes whose values are read by an earlier node."""
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
    """Pair (times, bounds) of every assignment extended by node ``nid``, once for each device that may run
    ``nid``."""
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
        """int64 [rows]: the bounds of assignments whose nodes up to ``nid`` are placed."""
        rest = int(self.rest[nid])
        if self.kind == "serial":
            return times.serial + rest
        share = -((times.load[:, : self.count].sum(1) + rest) // -self.k)
        if self.kind == "throughput":
            return np.maximum(times.bottleneck, share)
        return np.maximum(np.maximum(times.over[:, nid] + self.tail[nid], share), times.makespan)
