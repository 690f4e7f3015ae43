"""Times of assignments of nodes to devices, many assignments at a time. The times equal the results of
simulation.simulate() for the assignments' plans.

Each device has three queues, for compute, copies in and copies out, which run in node order, run after run. A
copy runs before its first reader, on the copy_out queue of a device that sends to a host, else on the copy_in
queue of the receiver. No other copy uses its links meanwhile. If many runs are in flight, a free link takes
any copy that is ready, so a copy may overtake a later copy of an earlier run.
"""

from __future__ import annotations

import numpy as np

from ...costs import SPIN_NS
from .problem import PlacementProblem

_NEVER = -1


class Times:
    """Times of several assignments, which grow node by node: ``step`` places the next node of each
    assignment."""

    def __init__(self, problem: PlacementProblem, rows: int):
        self.problem = problem
        count, k = problem.num_nodes, problem.num_devices
        self.rows = np.arange(rows)
        self.serial = np.zeros(rows, np.int64)
        lanes = 3 * k + problem.links.shape[-1]  # queues (compute, copy_in, copy_out), then links
        self.load = np.zeros((rows, lanes), np.int64)  # ns of work of each lane
        self.free = np.zeros((rows, lanes), np.int64)  # time at which each lane is free
        self.did = np.full((rows, count), -1, np.int16)
        self.over = np.zeros((rows, count), np.int64)  # when each node is over, and (``by``) on which queue
        self.by = np.full((rows, count), -1, np.int16)
        self.arrive = np.full((rows, len(problem.eid), k), _NEVER, np.int64)
        self.awake = np.zeros((rows, k), np.int64)  # time until which each device was at work
        self._queue = _copy_queues(problem.on_host)
        host = np.tile(problem.on_host, 3)  # whether each queue is on a host
        hears = host[:, None] & host & ~np.eye(3 * k, dtype=bool)
        self._hears = np.vstack([hears, np.zeros((1, 3 * k), bool)])  # row -1: no queue brought the value
        self._ptr = np.searchsorted(problem.use_nid, np.arange(count + 1)).tolist()
        self._value, self._owner = problem.use_value.tolist(), problem.owner.tolist()
        self._ready, self._call = problem.ready.tolist(), (problem.graph.func_id >= 0).tolist()

    @property
    def makespan(self) -> np.ndarray:
        """int64 [rows]: time at which all queues are done."""
        return self.free[:, : 3 * self.problem.num_devices].max(1, initial=0)

    @property
    def bottleneck(self) -> np.ndarray:
        """int64 [rows]: ns of work of the busiest queue or link: runs cannot follow each other faster."""
        return self.load.max(1, initial=0)

    @property
    def period(self) -> np.ndarray:
        """int64 [rows]: ns from the end of a first run to the end of a second, at least ``bottleneck``. A
        queue takes runs one after another, so a device that is needed early and late in a run delays the next
        run. Links count only by their load, so the result of ``periods`` may be larger."""
        second = self.take(self.rows)
        second.follow()
        return np.maximum(self.bottleneck, second.makespan - self.makespan)

    def follow(self) -> None:
        """Run each assignment once more: on all queues after the earlier runs, on links as if there were no
        earlier runs."""
        self.over[:], self.by[:], self.arrive[:] = 0, -1, _NEVER
        self.free[:, 3 * self.problem.num_devices :] = 0
        for nid in range(self.problem.num_nodes):
            self.step(nid, self.did[:, nid])

    def take(self, rows: np.ndarray) -> Times:
        """The Times of the assignments ``rows``, which may have repeats."""
        other = object.__new__(Times)
        other.__dict__.update(self.__dict__)
        other.rows = np.arange(len(rows))
        for name in ("serial", "load", "free", "awake", "did", "over", "by", "arrive"):
            setattr(other, name, getattr(self, name)[rows])
        return other

    def step(self, nid: int, did: np.ndarray) -> None:
        """Place node ``nid`` on devices ``did`` [rows]. The devices of the nodes that own its inputs must be
        known."""
        self.did[:, nid] = did
        if not self._call[nid]:
            return  # inputs take no time
        cost, free = self.problem.cost[nid][did], self.free[self.rows, did]
        begin, over = np.zeros((2, len(self.rows)), np.int64)
        by = np.where(cost > 0, did, -1)
        values = self._value[self._ptr[nid] : self._ptr[nid + 1]]
        for end, queue in [self._arrived(v, self.did[:, self._owner[v]], did) for v in values]:
            np.maximum(begin, self._heard(self.rows, end, queue, did, did), out=begin)
            np.maximum(over, end, out=over)
            by = np.where(cost > 0, by, queue)  # a node of cost 0 is a reshape, which is no instruction
        end = np.where(cost > 0, np.maximum(begin, free) + cost, over)
        self.over[:, nid], self.by[:, nid] = end, by
        self.free[self.rows, did] = free = np.where(cost > 0, end, free)
        self.awake[self.rows, did] = np.maximum(self.awake[self.rows, did], free)
        self.load[self.rows, did] += cost
        self.serial += cost

    def _arrived(self, value: int, source: np.ndarray, did: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pair of the time at which a value is on devices ``did`` and the queue that brought the value. The
        value is copied if it is not there yet."""
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
        """int64 [rows]: earliest times, from ``begin`` on, at which copies can occupy their links for
        ``ns``."""
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
        """int64 [rows]: earliest times, from ``begin`` on, at which no other run uses the links. In this
        class there are no other runs."""
        return begin

    def _heard(
        self, rows: np.ndarray, end: np.ndarray, by: np.ndarray, queue: np.ndarray, did: np.ndarray
    ) -> np.ndarray:
        """int64 [rows]: time at which ``queue`` of device ``did`` learns that a step on queue ``by`` ended at
        ``end``."""
        problem = self.problem
        late = np.where(end - self.awake[rows, did] > SPIN_NS, problem.wake, problem.handoff)
        return end + np.where(self._hears[by, queue], late, 0)


def _copy_queues(on_host: np.ndarray) -> np.ndarray:
    """int64 [k, k]: the queue for copies from the first axis' device to the second's."""
    k = len(on_host)
    source, target = np.indices((k, k))
    return np.where(on_host[target] & ~on_host[source], 2 * k + source, k + target)


_NONE = np.int64(-(1 << 60))  # ns that means: there is no way
_RUNS = 4  # after so many runs the interval between runs has settled, nearly always


def periods(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [rows]: ns from the end of a run to the end of the next, for assignments ``did`` int [rows,
    nodes]."""
    times = _Runs(problem, did)
    ends = []
    for _ in range(_RUNS if len(did) else 0):
        times.follow()
        ends.append(times.makespan)
    if not ends:
        return np.zeros(0, np.int64)
    half = _RUNS // 2
    slope = -((ends[half - 1] - ends[-1]) // (_RUNS - half))
    least = np.maximum(times.load.max(1, initial=0) // _RUNS, _spans(problem, did))
    return np.maximum(least, slope)


def _spans(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [rows]: ns of the longest way from the beginning of a node to the end of a dependent node on the
    same device. The first node's next run can begin only after that end."""
    rows, k = np.arange(len(did)), problem.num_devices
    far = np.full((len(did), problem.num_nodes, k), _NONE)  # ns of the longest way to a node's end, by device
    span = np.zeros(len(did), np.int64)
    uses = np.searchsorted(problem.use_nid, np.arange(problem.num_nodes + 1))
    for nid in range(problem.num_nodes):
        here, cost = did[:, nid], problem.cost[nid][did[:, nid]]
        if problem.graph.func_id[nid] < 0:
            continue
        reach = np.full((len(did), k), _NONE)
        for value in problem.use_value[uses[nid] : uses[nid + 1]].tolist():
            maker = int(problem.ready[value])
            if maker >= 0:
                way = problem.copy[value][did[:, problem.owner[value]], here]
                np.maximum(reach, far[:, maker] + way[:, None], out=reach)
        runs = cost > 0  # a node of cost 0 is a reshape, which is no instruction
        reach[rows, here] = np.maximum(reach[rows, here], np.where(runs, 0, _NONE))
        far[:, nid] = reach + cost[:, None]
        span = np.maximum(span, np.where(runs, far[rows, nid, here], 0))
    return span


class _Runs(Times):
    """Runs of the same assignments, one for each call of ``follow``; a copy waits while earlier runs occupy
    its links."""

    def __init__(self, problem: PlacementProblem, did: np.ndarray):
        super().__init__(problem, len(did))
        self.did[:] = did
        size = (len(did), 0)
        self.begun, self.ended = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.way = np.zeros(size, np.int64)  # source * k + target of each copy of earlier runs
        self.copies: list[tuple[np.ndarray, ...]] = []  # copies of this run: rows, way, begin, end
        k = problem.num_devices
        ways = problem.links.reshape(k * k, -1).astype(np.float32)
        self.meet = ways @ ways.T > 0  # bool [ways, ways]: whether two ways share a link

    def follow(self) -> None:
        super().follow()
        before = self.begun, self.ended, self.way
        found = [np.zeros((len(self.rows), len(self.copies)), np.int64) for _ in before]
        for at, (rows, way, begin, end) in enumerate(self.copies):
            for table, column in zip(found, (begin, end, way), strict=True):
                table[rows, at] = column
        self.begun, self.ended, self.way = (
            np.concatenate(pair, 1) for pair in zip(before, found, strict=True)
        )
        self.copies = []

    def _beside_others(
        self, rows: np.ndarray, source: np.ndarray, target: np.ndarray, begin: np.ndarray, ns: np.ndarray
    ) -> np.ndarray:
        way = source.astype(np.int64) * self.problem.num_devices + target
        begun, ended = self.begun[rows], self.ended[rows]
        meets = self.meet[way[:, None], self.way[rows]] & (ended > begin[:, None])
        busy = meets.any(1)
        while busy.any():
            held = meets & (begun < (begin + ns)[:, None]) & (ended > begin[:, None])
            busy = held.any(1)
            begin = np.where(busy, np.where(held, ended, 0).max(1, initial=0), begin)
        self.copies.append((rows, way, begin, begin + ns))
        return begin
