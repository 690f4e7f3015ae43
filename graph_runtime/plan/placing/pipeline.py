"""Pipelines: contiguous cuts of the node order, one stage per device, with the least work of the busiest
queue; and seats, the choice of the devices of equal kind that take the stages.

For one order of the devices, dynamic programming finds the cuts: the table entry ``least[j][b]``, for the
first b nodes on the first j devices, is the minimum over a of the larger of ``least[j - 1][a]`` and the time
of stage [a, b) on device j. Copies into a stage count, once per value. Copies out of a stage to a host do not
count; the local search that follows includes them. A stage must fit its device's memory.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .problem import UNSUPPORTED, PlacementProblem
from .schedule import measure

_CUTS = 400  # most positions at which a long graph may be cut
_NEVER = np.int64(1) << 58


def contiguous(problem: PlacementProblem) -> list[np.ndarray]:
    """Assignments (int16 [nodes] each) by the best cuts, one for each of several orders of the devices."""
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
    """The devices of an order, its first one first, each followed by the remaining device to which copies are
    cheapest: a neighbour in a mesh of chips."""
    far = problem.copy.sum(0, dtype=np.float64)
    found, rest = order[:1].tolist(), order[1:].tolist()
    while rest:
        found.append(min(rest, key=lambda device: (far[found[-1], device], device)))
        rest.remove(found[-1])
    return np.array(found, order.dtype)


class _Stages:
    """Times of stages, from any cut to any later one, on each device of one order."""

    def __init__(self, problem: PlacementProblem, order: np.ndarray, calls: np.ndarray):
        self.problem, self.order = problem, order
        allowed = problem.allowed
        self.rest = problem.elsewhere
        count = problem.num_nodes
        if len(calls) <= _CUTS:
            self.at = np.append(calls, count)
        else:  # cuts at equal shares of the work, if nodes are small enough
            work = np.cumsum(np.where(allowed, problem.cost, UNSUPPORTED).min(1)).astype(np.float64)
            shares = np.searchsorted(work, work[-1] * np.arange(1, _CUTS) / _CUTS)
            self.at = np.unique(np.concatenate([calls[:1], shares, [count]]))
        self.at[0] = 0

    def cut(self) -> np.ndarray:
        """int16 [nodes]: the assignment by the best cuts."""
        order, cuts = self.order, len(self.at)
        least = np.full((len(order) + 1, cuts), _NEVER)
        least[0, 0] = 0
        source = np.zeros((len(order) + 1, cuts), np.int64)
        known: dict[tuple[bytes, ...], np.ndarray] = {}
        for j, device in enumerate(order.tolist()):
            before = int(order[j - 1]) if j else device
            key = self._key(device, before)
            if key not in known:  # equal devices have equal tables
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
        """int64 [values]: ns of the copy of each value to a device, from device ``before`` or from the
        value's pin."""
        problem = self.problem
        pin = problem.pin[problem.owner]
        return problem.copy[np.arange(len(pin)), np.where(pin >= 0, pin, before), device]

    def _table(self, device: int, before: int) -> np.ndarray:
        """int64 [cuts, cuts]: ns of the busiest queue for a stage from the first axis' cut to the second
        axis' cut, 0 for an empty stage."""
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
        """bool [cuts, cuts]: whether a stage, of which nodes ``mine`` run on the device, lacks room in some
        memory of the device."""
        room, cuts = self.problem.room, len(self.at)
        part, full = room.resident_uses, np.zeros((cuts, cuts), bool)
        nids, which = part[mine[part[:, 0]]].T
        for store in room.stores(device):
            held = self._read(nids, which, room.resident[which, store], np.full(len(nids), -1))
            held += self._most(room.most_live[:, store]) + self._most(room.circular[:, store])
            full |= held > room.available[store]
        return full

    def _most(self, column: np.ndarray) -> np.ndarray:
        """int64 [cuts, cuts]: the maximum of ``column`` over the nodes of each stage."""
        cuts = len(self.at)
        most, found = np.maximum.reduceat(np.append(column, 0), self.at), np.zeros((cuts, cuts), np.int64)
        for a in range(cuts - 1):
            found[a, a + 1 :] = np.maximum.accumulate(most[a:-1])
        return found

    def _read(self, nid: np.ndarray, value: np.ndarray, size: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """int64 [cuts, cuts]: total size of the distinct values that each stage reads but does not make."""
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


_SPANS = (0.0, 0.25)  # parts of the time between a link's first and last copy of a run that count as occupied
_ROUNDS = 60
_MOST_WAYS = 4  # most pairs of devices with traffic, per device: with more, this is no pipeline
_MOST_CELLS = 1 << 23  # most triples (exchange, way, link) that are evaluated together
_UNUSED = np.int64(1) << 60


def reseat(problem: PlacementProblem, did: np.ndarray) -> list[np.ndarray]:
    """Assignments (int16 [nodes] each) made from ``did`` int [nodes] by exchanging devices of equal kind, so
    that copies share few links; an empty list if no links are shared.

    The load of a link is the time of the copies that occupy it or, if longer, a part of the time from its
    first copy of a run to its last, because a queue takes runs one after another. Pairs of devices exchange
    seats as long as the sixth norm of all loads falls.
    """
    if problem.objective != "throughput" or not problem.links.size:
        return []
    pairs = [pair for group in _equal(problem) for pair in combinations(group, 2)]
    traffic = _Traffic(problem, did)
    if not pairs or not 0 < len(traffic.ns) <= _MOST_WAYS * problem.num_devices:
        return []
    calls, found = problem.graph.func_id >= 0, []
    for part in _SPANS:
        seat = traffic.settle(np.array(pairs), part)
        found.append(np.where(calls, seat[did], did).astype(np.int16))
    return found


def _equal(problem: PlacementProblem) -> list[list[int]]:
    """Groups of devices that differ only in their links."""
    groups: dict[tuple[bytes, ...], list[int]] = {}
    for device in problem.running.tolist():
        cost = np.where(problem.allowed[:, device], problem.cost[:, device], -1)
        key = cost.tobytes(), problem.on_host[device].tobytes(), problem.room.key(device)
        groups.setdefault(key, []).append(device)
    return list(groups.values())


class _Traffic:
    """Copies between devices, joined by way (source, target): ``source``, ``target`` int64 [ways]; ``ns``
    int64 [ways]: the sum over a way's copies; ``begin``, ``end`` int64 [ways]: time in a single run at which
    the first copy is ready and the last is over. ``fixed`` bool [ways]: whether the copies are of an input,
    which keeps its device."""

    def __init__(self, problem: PlacementProblem, did: np.ndarray):
        self.problem, k = problem, problem.num_devices
        over, home = measure(problem, did[None]).over[0], did[problem.owner]
        value, target = problem.use_value, did[problem.use_nid]
        rows = np.unique(np.stack([value, target], 1)[target != home[value]], axis=0).reshape(-1, 2)
        value, target = rows.T
        source, ns = home[value], problem.copy[value, home[value], target]
        ready = np.where(problem.ready[value] >= 0, over[problem.ready[value]], 0)
        given = problem.graph.func_id[problem.owner[value]] < 0
        keys, row = np.unique((given * k + source) * k + target, return_inverse=True)
        self.fixed, self.source, self.target = keys // (k * k) > 0, keys // k % k, keys % k
        self.ns, self.end = np.zeros((2, len(keys)), np.int64)
        self.begin = np.full(len(keys), _UNUSED)
        np.add.at(self.ns, row, ns)
        np.minimum.at(self.begin, row, ready)
        np.maximum.at(self.end, row, ready + ns)

    def settle(self, pairs: np.ndarray, part: float) -> np.ndarray:
        """int64 [k]: the device that takes over the nodes of each device. ``pairs`` int64 [pairs, 2]: devices
        that may exchange seats. ``part``: fraction of a link's time span that counts as occupied, one of
        _SPANS."""
        seat = np.arange(self.problem.num_devices)
        best = self._norm(seat[None], part)[0]
        for _ in range(_ROUNDS):
            seats = np.repeat(seat[None], len(pairs), 0)
            rows, (a, b) = np.arange(len(pairs)), pairs.T
            seats[rows, a], seats[rows, b] = seat[b], seat[a]
            norms = self._norm(seats, part)
            at = int(np.argmin(norms))
            if norms[at] >= best:
                break
            seat, best = seats[at], norms[at]
        return seat

    def _norm(self, seats: np.ndarray, part: float) -> np.ndarray:
        """float64 [rows]: the sixth norm of the loads of all links, for each row of ``seats`` int64 [rows,
        k]."""
        step = max(_MOST_CELLS // (len(self.ns) * self.problem.links.shape[-1]), 1)
        return np.concatenate([self._sixth(seats[i : i + step], part) for i in range(0, len(seats), step)])

    def _sixth(self, seats: np.ndarray, part: float) -> np.ndarray:
        source = np.where(self.fixed, self.source, seats[:, self.source])
        held = self.problem.links[source, seats[:, self.target]]  # bool [rows, ways, links]
        busy = np.einsum("rwl,w->rl", held, self.ns)
        first = np.where(held, self.begin[:, None], _UNUSED).min(1)
        last = np.where(held, self.end[:, None], 0).max(1)
        most = np.maximum(busy, part * np.maximum(last - first, 0))
        return ((most / max(int(self.ns.max()), 1)) ** 6).sum(1)
