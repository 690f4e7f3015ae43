"""Times of assignments of nodes to devices, many at a time: as simulation.simulate() of their plans.

Each device has three queues, of compute, of copies in and of copies out, which run in node order. A copy runs
before its first reader, in copy_out of a device that sends to a host, else in copy_in of the one that
receives; while it runs it has its links to itself.
"""

from __future__ import annotations

import numpy as np

from ...costs import SPIN_NS
from .problem import PlacementProblem

__all__ = ["Times"]

_NEVER = -1


class Times:
    """Several assignments, node by node: ``step`` places the next node of each."""

    def __init__(self, problem: PlacementProblem, rows: int):
        self.problem = problem
        count, k = problem.num_nodes, problem.num_devices
        self.rows = np.arange(rows)
        self.serial = np.zeros(rows, np.int64)
        lanes = 3 * k + problem.links.shape[-1]  # queues of compute, in, out; then links
        self.load = np.zeros((rows, lanes), np.int64)  # ns of work of each
        self.free = np.zeros((rows, lanes), np.int64)  # when each is free
        self.did = np.full((rows, count), -1, np.int16)
        self.over = np.zeros((rows, count), np.int64)  # when each node is over, and on which queue
        self.by = np.full((rows, count), -1, np.int16)
        self.arrive = np.full((rows, len(problem.eid), k), _NEVER, np.int64)
        self.awake = np.zeros((rows, k), np.int64)  # until when each device was at work
        self._queue = _copy_queues(problem.on_host)
        host = np.tile(problem.on_host, 3)  # of each queue
        hears = host[:, None] & host & ~np.eye(3 * k, dtype=bool)
        self._hears = np.vstack([hears, np.zeros((1, 3 * k), bool)])  # -1: no queue brought it
        self._ptr = np.searchsorted(problem.use_nid, np.arange(count + 1)).tolist()
        self._value, self._owner = problem.use_value.tolist(), problem.owner.tolist()
        self._ready, self._call = problem.ready.tolist(), (problem.graph.func_id >= 0).tolist()

    @property
    def makespan(self) -> np.ndarray:
        """int64 [rows]: when all queues are done."""
        return self.free[:, : 3 * self.problem.num_devices].max(1, initial=0)

    @property
    def bottleneck(self) -> np.ndarray:
        """int64 [rows]: ns of work of the busiest queue or link, which bounds how often runs can follow
        each other."""
        return self.load.max(1, initial=0)

    @property
    def period(self) -> np.ndarray:
        """int64 [rows]: ns by which a second run ends after the first, at least the bottleneck's. A queue
        takes runs one after another, so a device that is needed early and late in a run holds up the next.
        Of links only the load counts, so runs.periods may say more."""
        second = self.take(self.rows)
        second.follow()
        return np.maximum(self.bottleneck, second.makespan - self.makespan)

    def follow(self) -> None:
        """The next run of each, behind those before on all queues, but not on the links."""
        self.over[:], self.by[:], self.arrive[:] = 0, -1, _NEVER
        self.free[:, 3 * self.problem.num_devices :] = 0
        for nid in range(self.problem.num_nodes):
            self.step(nid, self.did[:, nid])

    def take(self, rows: np.ndarray) -> Times:
        """The assignments of those rows, which may come several times."""
        other = object.__new__(Times)
        other.__dict__.update(self.__dict__)
        other.rows = np.arange(len(rows))
        for name in ("serial", "load", "free", "awake", "did", "over", "by", "arrive"):
            setattr(other, name, getattr(self, name)[rows])
        return other

    def step(self, nid: int, did: np.ndarray) -> None:
        """Place node ``nid`` on devices ``did`` [rows]. What it reads has an owner whose device is known."""
        self.did[:, nid] = did
        if not self._call[nid]:
            return  # an input
        cost, free = self.problem.cost[nid][did], self.free[self.rows, did]
        begin, over = np.zeros((2, len(self.rows)), np.int64)
        by = np.where(cost > 0, did, -1)
        values = self._value[self._ptr[nid] : self._ptr[nid + 1]]
        for end, queue in [self._arrived(v, self.did[:, self._owner[v]], did) for v in values]:
            np.maximum(begin, self._heard(self.rows, end, queue, did, did), out=begin)
            np.maximum(over, end, out=over)
            by = np.where(cost > 0, by, queue)  # a reshape that moves nothing is no instruction
        end = np.where(cost > 0, np.maximum(begin, free) + cost, over)
        self.over[:, nid], self.by[:, nid] = end, by
        self.free[self.rows, did] = free = np.where(cost > 0, end, free)
        self.awake[self.rows, did] = np.maximum(self.awake[self.rows, did], free)
        self.load[self.rows, did] += cost
        self.serial += cost

    def _arrived(self, value: int, source: np.ndarray, did: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """When a value is on devices ``did``, and which queue brought it; copies it where it has to be."""
        ready, count = self._ready[value], len(self.rows)
        made = self.over[:, ready] if ready >= 0 else np.zeros(count, np.int64)
        maker = self.by[:, ready] if ready >= 0 else np.full(count, -1)
        here, k = source == did, self.problem.num_devices
        if here.all():
            return made, maker
        there, queue = self.arrive[:, value], self._queue[source, did]
        end = there[self.rows, did]
        rows = np.flatnonzero(~here & (end == _NEVER))
        if len(rows):
            q, d = queue[rows], did[rows]
            ns = self.problem.copy[value][source[rows], d]
            begin = np.maximum(self._heard(rows, made[rows], maker[rows], q, q % k), self.free[rows, q])
            begin = self._take_links(rows, source[rows], d, begin, ns)
            self.free[rows, q] = there[rows, d] = end[rows] = begin + ns
            self.awake[rows, q % k] = np.maximum(self.awake[rows, q % k], begin + ns)
            self.load[rows, q] += ns
            self.serial[rows] += ns
        return np.where(here, made, end), np.where(here, maker, queue)

    def _take_links(
        self, rows: np.ndarray, source: np.ndarray, target: np.ndarray, begin: np.ndarray, ns: np.ndarray
    ) -> np.ndarray:
        """int64 [rows]: when copies can begin, not before ``begin``, that hold their links for ``ns``."""
        if not self.problem.links.size:
            return begin
        held, first = self.problem.links[source, target], 3 * self.problem.num_devices
        free = self.free[rows, first:]
        begin = np.maximum(begin, np.where(held, free, 0).max(1))
        begin = self._beside_others(rows, source, target, begin, ns)
        self.free[rows, first:] = np.where(held, (begin + ns)[:, None], free)
        self.load[rows, first:] += held * ns[:, None]
        return begin

    def _beside_others(
        self, rows: np.ndarray, source: np.ndarray, target: np.ndarray, begin: np.ndarray, ns: np.ndarray
    ) -> np.ndarray:
        """int64 [rows]: when copies can begin, not before ``begin``, that find the links in use by other
        runs: here by none."""
        return begin

    def _heard(
        self, rows: np.ndarray, end: np.ndarray, by: np.ndarray, queue: np.ndarray, did: np.ndarray
    ) -> np.ndarray:
        """int64 [rows]: when ``queue``, one of ``did``'s, knows that a step on queue ``by`` was over at
        ``end``."""
        problem = self.problem
        late = np.where(end - self.awake[rows, did] > SPIN_NS, problem.wake, problem.handoff)
        return end + np.where(self._hears[by, queue], late, 0)


def _copy_queues(on_host: np.ndarray) -> np.ndarray:
    """int64 [k, k]: which queue copies from the first device to the second."""
    k = len(on_host)
    source, target = np.indices((k, k))
    return np.where(on_host[target] & ~on_host[source], 2 * k + source, k + target)
