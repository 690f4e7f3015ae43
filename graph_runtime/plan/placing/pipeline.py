"""Pipelines: contiguous cuts of the node order, one stage a device, so that the busiest queue does least.

For one order of the devices a dynamic program finds the cuts: ``least[j][b]``, the first b nodes on the first
j devices, is the smallest over a of the larger of ``least[j - 1][a]`` and what stage [a, b) takes of device
j. Copies into a stage count, each value once; copies out of a stage to a host do not, which is what the
search that follows is for. A stage whose bytes do not fit its device is no stage.
"""

from __future__ import annotations

import numpy as np

from .problem import UNSUPPORTED, PlacementProblem

__all__ = ["contiguous"]

_CUTS = 400  # places of a long graph where it may be cut
_NEVER = np.int64(1) << 58


def contiguous(problem: PlacementProblem) -> list[np.ndarray]:
    """int16 [nodes] each: the best cut for some orders of the devices."""
    running = problem.running
    calls = np.flatnonzero(problem.graph.func_id >= 0)
    if len(running) < 2 or len(calls) < 2:
        return []
    cost = np.where(problem.allowed, problem.cost, 0).sum(0) / np.maximum(problem.allowed.sum(0), 1)
    away = running[~problem.on_host[running]]
    orders = [running, running[np.argsort(problem.on_host[running], kind="stable")], away, running[::-1]]
    orders.append(running[np.argsort(cost[running], kind="stable")])
    orders += [_by_nearness(problem, one) for one in (away, running)]
    seen: dict[tuple[int, ...], np.ndarray] = {}
    for order in orders:
        if len(order) and tuple(order.tolist()) not in seen:
            seen[tuple(order.tolist())] = _Stages(problem, order, calls).cut()
    return list(seen.values())


def _by_nearness(problem: PlacementProblem, order: np.ndarray) -> np.ndarray:
    """The devices of an order, from its first on, each followed by that of the rest to which copies are
    cheapest: in a mesh of chips a neighbour."""
    far = problem.copy.sum(0, dtype=np.float64)
    found, rest = order[:1].tolist(), order[1:].tolist()
    while rest:
        found.append(min(rest, key=lambda device: (far[found[-1], device], device)))
        rest.remove(found[-1])
    return np.array(found, order.dtype)


class _Stages:
    """What the nodes between two cuts take of each device of one order."""

    def __init__(self, problem: PlacementProblem, order: np.ndarray, calls: np.ndarray):
        self.problem, self.order = problem, order
        allowed = problem.allowed
        self.rest = _elsewhere(problem)
        count = problem.num_nodes
        if len(calls) <= _CUTS:
            self.at = np.append(calls, count)
        else:  # equal shares of the work, as far as nodes are that small
            work = np.cumsum(np.where(allowed, problem.cost, UNSUPPORTED).min(1)).astype(np.float64)
            shares = np.searchsorted(work, work[-1] * np.arange(1, _CUTS) / _CUTS)
            self.at = np.unique(np.concatenate([calls[:1], shares, [count]]))
        self.at[0] = 0

    def cut(self) -> np.ndarray:
        """int16 [nodes]"""
        order, cuts = self.order, len(self.at)
        least = np.full((len(order) + 1, cuts), _NEVER)
        least[0, 0] = 0
        source = np.zeros((len(order) + 1, cuts), np.int64)
        known: dict[tuple[bytes, ...], np.ndarray] = {}
        for j, device in enumerate(order.tolist()):
            before = int(order[j - 1]) if j else device
            key = self._key(device, before)
            if key not in known:  # equal devices have equal stages
                known[key] = self._table(device, before)
            table = np.maximum(known[key], least[j][:, None])
            source[j + 1] = np.argmin(table, 0)
            least[j + 1] = table[source[j + 1], np.arange(cuts)]
        ends, b = [0] * len(order), cuts - 1
        for j in range(len(order), 0, -1):
            ends[j - 1] = int(self.at[b])
            b = int(source[j, b])
        stage = np.searchsorted(np.array(ends), np.arange(self.problem.num_nodes), side="right")
        did = order[np.minimum(stage, len(order) - 1)]
        problem = self.problem
        return np.where(problem.allowed[np.arange(len(did)), did], did, self.rest).astype(np.int16)

    def _key(self, device: int, before: int) -> tuple[bytes, ...]:
        problem = self.problem
        column = np.where(problem.allowed[:, device], problem.cost[:, device], -1)
        return column.tobytes(), self._ways(device, before).tobytes(), problem.room.key(device)

    def _ways(self, device: int, before: int) -> np.ndarray:
        """int64 [values]: ns of the copy of each value to a device, from the stage before or where it is
        pinned."""
        problem = self.problem
        pin = problem.pin[problem.owner]
        return problem.copy[np.arange(len(pin)), np.where(pin >= 0, pin, before), device]

    def _table(self, device: int, before: int) -> np.ndarray:
        """int64 [cuts, cuts]: the busiest queue's ns for a stage from the first axis' cut to the second's;
        0 where it is empty."""
        problem, at, cuts = self.problem, self.at, len(self.at)
        mine = problem.allowed[:, device]
        work = np.concatenate([[0], np.cumsum(np.where(mine, problem.cost[:, device], 0))])[at]
        table = work[None] - work[:, None]
        owner, nid, value = problem.owner, problem.use_nid, problem.use_value
        reads = mine[nid]
        nid, value = nid[reads], value[reads]
        table = np.maximum(table, self._read(nid, value, self._ways(device, before)[value], owner[value]))
        if problem.room.binds:
            table = np.where(self._too_full(device, mine), _NEVER, table)
        later = np.arange(cuts)[:, None] < np.arange(cuts)
        table = np.where(later, table, _NEVER)
        table[np.arange(cuts), np.arange(cuts)] = 0
        return table

    def _too_full(self, device: int, mine: np.ndarray) -> np.ndarray:
        """bool [cuts, cuts]: the stages that have no room in some memory of a device, of whose nodes those
        of ``mine`` run there."""
        room, cuts = self.problem.room, len(self.at)
        part, full = room.resident_uses, np.zeros((cuts, cuts), bool)
        nids, which = part[mine[part[:, 0]]].T
        for store in room.stores(device):
            held = self._read(nids, which, room.resident[which, store], np.full(len(nids), -1))
            held += self._most(room.most_live[:, store]) + self._most(room.circular[:, store])
            full |= held > room.available[store]
        return full

    def _most(self, column: np.ndarray) -> np.ndarray:
        """int64 [cuts, cuts]: the most that a node of each stage has."""
        cuts = len(self.at)
        most, found = np.maximum.reduceat(np.append(column, 0), self.at), np.zeros((cuts, cuts), np.int64)
        for a in range(cuts - 1):
            found[a, a + 1 :] = np.maximum.accumulate(most[a:-1])
        return found

    def _read(self, nid: np.ndarray, value: np.ndarray, size: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """int64 [cuts, cuts]: the sum of the sizes of the distinct values that each stage reads and does not
        make."""
        cuts = len(self.at)
        found = np.zeros((cuts, cuts), np.int64)
        order = np.lexsort((nid, value))
        nid, value, size, owner = nid[order], value[order], size[order], owner[order]
        stage = np.searchsorted(self.at, nid, side="right") - 1
        for a in range(cuts - 1):
            kept = np.flatnonzero((nid >= self.at[a]) & (owner < self.at[a]))
            first = kept[np.append(True, value[kept][1:] != value[kept][:-1])[: len(kept)]]
            ends = np.zeros(cuts, np.int64)
            np.add.at(ends, stage[first], size[first])
            found[a, 1:] = np.cumsum(ends[:-1])
        return found


def _elsewhere(problem: PlacementProblem) -> np.ndarray:
    """int64 [nodes]: where each goes that cannot run in its stage: the first host that can, else where it is
    fastest."""
    allowed = problem.allowed
    hosts = allowed & problem.on_host
    fastest = np.argmin(np.where(allowed, problem.cost, UNSUPPORTED), 1)
    return np.where(hosts.any(1), np.argmax(hosts, 1), fastest)
