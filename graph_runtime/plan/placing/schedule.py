"""What assignments of nodes to devices would take, many at a time: as simulation.simulate() of their plans.

Each device has three queues, of compute, of copies in and of copies out, which run in node order. A copy runs
before its first reader, in copy_out of a device that sends to a host, else in copy_in of the one that
receives.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import InputError, did_you_mean
from .problem import PlacementProblem

__all__ = ["OBJECTIVES", "Times", "evaluate", "measure", "require_objective"]

OBJECTIVES = ("serial", "makespan", "throughput")
_MOST_CELLS = 1 << 22           # int64 of arrival times that are held at once
_NEVER = -1


class Times:
    """Several assignments, node by node: ``step`` places the next node of each."""

    def __init__(self, problem: PlacementProblem, rows: int):
        self.problem = problem
        count, k = problem.num_nodes, problem.num_devices
        self.rows = np.arange(rows)
        self.serial = np.zeros(rows, np.int64)
        self.load = np.zeros((rows, 3 * k), np.int64)       # ns of each queue's work: compute, in, out
        self.free = np.zeros((rows, 3 * k), np.int64)       # when each queue is free
        self.did = np.full((rows, count), -1, np.int16)
        self.over = np.zeros((rows, count), np.int64)       # when each node is over
        self.arrive = np.full((rows, len(problem.eid), k), _NEVER, np.int64)
        self._queue = _copy_queues(problem.on_host)
        self._ptr = np.searchsorted(problem.use_nid, np.arange(count + 1)).tolist()
        self._value, self._owner = problem.use_value.tolist(), problem.owner.tolist()
        self._ready, self._call = problem.ready.tolist(), (problem.graph.func_id >= 0).tolist()
        self._nothing = ~problem.cost.any(1)

    @property
    def makespan(self) -> np.ndarray:
        """int64 [rows]"""
        return self.free.max(1, initial=0)

    @property
    def bottleneck(self) -> np.ndarray:
        """int64 [rows]: ns of work of the busiest queue, which bounds how often runs can follow each
        other."""
        return self.load.max(1, initial=0)

    @property
    def objective(self) -> np.ndarray:
        """int64 [rows]: the time that the problem asks for."""
        kind = self.problem.objective
        return {"serial": self.serial, "makespan": self.makespan, "throughput": self.bottleneck}[kind]

    def take(self, rows: np.ndarray) -> Times:
        """The assignments of those rows, which may come several times."""
        other = object.__new__(Times)
        other.__dict__.update(self.__dict__)
        other.rows = np.arange(len(rows))
        for name in ("serial", "load", "free", "did", "over", "arrive"):
            setattr(other, name, getattr(self, name)[rows])
        return other

    def step(self, nid: int, did: np.ndarray) -> None:
        """Place node ``nid`` on devices ``did`` [rows]. What it reads has an owner whose device is known."""
        self.did[:, nid] = did
        if not self._call[nid]:
            return                                   # an input
        begin = np.zeros(len(self.rows), np.int64)
        for at in range(self._ptr[nid], self._ptr[nid + 1]):
            value = self._value[at]
            source = self.did[:, self._owner[value]]
            np.maximum(begin, self._at(value, source, did), out=begin)
        if self._nothing[nid]:                       # a reshape is no instruction
            self.over[:, nid] = begin
            return
        cost = self.problem.cost[nid][did]
        end = np.maximum(begin, self.free[self.rows, did]) + cost
        self.over[:, nid] = self.free[self.rows, did] = end
        self.load[self.rows, did] += cost
        self.serial += cost

    def _at(self, value: int, source: np.ndarray, did: np.ndarray) -> np.ndarray:
        """When a value has arrived on devices ``did``, from where it lies; copies it where it has to be."""
        ready = self._ready[value]
        made = self.over[:, ready] if ready >= 0 else np.zeros(len(self.rows), np.int64)
        here = source == did
        if here.all():
            return made
        there = self.arrive[:, value]
        arrived = there[self.rows, did]
        rows = np.flatnonzero(~here & (arrived == _NEVER))
        if len(rows):
            s, d = source[rows], did[rows]
            queue, ns = self._queue[s, d], self.problem.copy[value][s, d]
            end = np.maximum(made[rows], self.free[rows, queue]) + ns
            self.free[rows, queue] = there[rows, d] = arrived[rows] = end
            self.load[rows, queue] += ns
            self.serial[rows] += ns
        return np.where(here, made, arrived)


def _copy_queues(on_host: np.ndarray) -> np.ndarray:
    """int64 [k, k]: which queue copies from the first device to the second."""
    k = len(on_host)
    source, target = np.indices((k, k))
    return np.where(on_host[target] & ~on_host[source], 2 * k + source, k + target)


def measure(problem: PlacementProblem, did: np.ndarray) -> Times:
    """The times of assignments ``did`` int [rows, nodes]."""
    times = Times(problem, len(did))
    times.did[:] = did
    for nid in range(problem.num_nodes):
        times.step(nid, did[:, nid])
    return times


def evaluate(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [rows]: ns of each assignment of ``did`` int [rows, nodes] in the problem's objective."""
    cells = max(problem.num_nodes, len(problem.eid) * problem.num_devices, 1)
    step = max(_MOST_CELLS // cells, 1)
    parts = [measure(problem, did[at:at + step]).objective for at in range(0, len(did), step)]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def require_objective(objective: str, known: Sequence[str] = OBJECTIVES) -> None:
    """Raises InputError for what is no objective."""
    if objective not in known:
        raise InputError(f"unknown objective {objective!r}{did_you_mean(objective, known)}", got=objective,
                         wanted=list(known))
