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
from .problem import UNSUPPORTED, PlacementProblem
from .schedule import NO_ROOM, Times, evaluate

__all__ = ["Exact", "lower_bound", "solve"]

_MOST_CELLS = 1 << 22  # int64 that the assignments of one round hold: 32 MB
_MOST_NODES = 500  # of larger graphs a search would see too little
_STEPS = 100  # towards the weights of devices that bound a share best
_SCALE = 4096  # of weights in integers
_LATE_OWNERS = 8  # nodes that own values which are read before them: tried before all others


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """``did`` int16 [nodes] and its ``ns``; ``bound`` ns: no assignment takes less. Equal: it is optimal."""

    did: np.ndarray
    ns: int
    bound: int


def lower_bound(problem: PlacementProblem) -> int:
    """ns that no assignment goes below, whether it has room or not, with free copies: every node on its
    fastest device (serial); the longest chain, or the work shared out (makespan); the work shared out, or
    the longest node (throughput)."""
    least, tail = _least(problem)
    if problem.objective == "serial":
        return int(least.sum())
    alone = (
        int((least + tail).max(initial=0)) if problem.objective == "makespan" else int(least.max(initial=0))
    )
    return max(_share(problem), alone, _clustered(problem) if problem.objective == "throughput" else 0)


def _clustered(problem: PlacementProblem) -> int:
    """ns of the busiest queue: for it to be less than a value's copy takes, that value's node and its readers
    have to be on one device, which then has the work of all that are so joined. Values are joined from the
    dearest copy down; the bound is the least, over how many are joined, of the dearest copy left and of the
    most work that is joined."""
    calls, running = problem.graph.func_id >= 0, problem.running
    if len(running) < 2:
        return 0
    cost = np.where(problem.allowed, problem.cost, UNSUPPORTED)[:, running]
    cost[~calls] = 0
    apart = ~np.eye(len(running), dtype=bool)
    copy = problem.copy[:, running][:, :, running][:, apart].min(1)
    most = int(cost.min(1).max(initial=0))
    edges = problem.edges[calls[problem.owner[problem.use_value]]]
    edges = edges[np.argsort(-copy[edges[:, 2]], kind="stable")]
    root, best, before = list(range(problem.num_nodes)), UNSUPPORTED, -1
    for owner, reader, value in edges.tolist():
        ns = int(copy[value])
        if ns != before:
            best, before = min(best, max(ns, most)), ns
        if ns == 0 or most >= best:
            return best
        a, b = _root(root, owner), _root(root, reader)
        if a != b:
            root[b] = a
            cost[a] = np.minimum(cost[a] + cost[b], UNSUPPORTED)
            most = max(most, int(cost[a].min()))
    return min(best, most)


def _root(root: list[int], nid: int) -> int:
    while root[nid] != nid:
        root[nid] = nid = root[root[nid]]
    return nid


def _share(problem: PlacementProblem) -> int:
    """ns that the busiest device takes at least: for any weights of the devices that sum to one the busiest
    takes no less than their weighted mean, in which each node is no less than on the device that is best for
    it so weighted. The weights follow the loads that this gives."""
    running = problem.running
    cost = np.where(problem.allowed, problem.cost, UNSUPPORTED)[problem.graph.func_id >= 0][:, running]
    if not cost.size:
        return 0
    weight, best, rows = np.full(len(running), 1.0 / len(running)), 0, np.arange(len(cost))
    for step in range(_STEPS):
        whole = np.maximum(np.floor(weight * _SCALE), 1).astype(np.int64)
        scaled = np.where(cost < UNSUPPORTED, cost * whole, np.iinfo(np.int64).max)
        at = np.argmin(scaled, 1)
        total = sum(scaled[rows, at].tolist())
        best = max(best, -(-total // int(whole.sum())))
        load = np.bincount(at, cost[rows, at], len(running))
        weight = weight * np.exp((load / max(load.max(), 1) - 1) / (step + 1) ** 0.5)
        weight /= weight.sum()
    return best


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
        found = times.objective
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
        least, self.tail = _least(problem)
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


def _least(problem: PlacementProblem) -> tuple[np.ndarray, np.ndarray]:
    """int64 [nodes]: each node's least time; and that of the longest chain after it."""
    least = np.where(problem.allowed, problem.cost, UNSUPPORTED).min(1)
    tail = np.zeros(problem.num_nodes, np.int64)
    for nid, value in zip(problem.use_nid[::-1].tolist(), problem.use_value[::-1].tolist(), strict=True):
        maker = problem.ready[value]
        if maker >= 0:
            tail[maker] = max(tail[maker], least[nid] + tail[nid])
    return least, tail
