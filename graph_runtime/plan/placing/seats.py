"""Seats: which of equal devices takes which share of the work, so that copies between them share few links.

A share stays as it is and changes its device. What counts is the busiest link: the copies that hold it, or a
part of the time from its first copy of a run to its last, as a queue takes runs one after another. Two
devices change seats as long as the sixth norm of all links falls.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .problem import PlacementProblem
from .schedule import measure

__all__ = ["reseat"]

_SPANS = (0.0, 0.25)  # parts of the time from first to last copy that are tried
_ROUNDS = 60
_MOST_WAYS = 4  # pairs of devices with traffic, a device: more is no pipeline
_MOST_CELLS = 1 << 23  # (change, way, link) that are looked at together
_NEVER = np.int64(1) << 60


def reseat(problem: PlacementProblem, did: np.ndarray) -> list[np.ndarray]:
    """int16 [nodes] each: ``did`` int [nodes] with its shares on other devices that are equal to theirs; none
    where links are not shared."""
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
    """The devices that differ in their links only."""
    groups: dict[tuple[bytes, ...], list[int]] = {}
    for device in problem.running.tolist():
        cost = np.where(problem.allowed[:, device], problem.cost[:, device], -1)
        key = cost.tobytes(), problem.on_host[device].tobytes(), problem.room.key(device)
        groups.setdefault(key, []).append(device)
    return list(groups.values())


class _Traffic:
    """What goes from share to share: ``source``, ``target`` int64 [ways]; ``ns`` int64 [ways] of all its
    copies; ``begin``, ``end`` int64 [ways]: when the first is ready, and the last over, in a run alone.
    ``fixed`` bool [ways]: it comes from an input, which stays where it is."""

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
        self.begin = np.full(len(keys), _NEVER)
        np.add.at(self.ns, row, ns)
        np.minimum.at(self.begin, row, ready)
        np.maximum.at(self.end, row, ready + ns)

    def settle(self, pairs: np.ndarray, part: float) -> np.ndarray:
        """int64 [k]: the device of each device's share. ``pairs`` int64 [pairs, 2]: devices that may change
        seats."""
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
        """float64 [rows]: of seats int64 [rows, k]."""
        step = max(_MOST_CELLS // (len(self.ns) * self.problem.links.shape[-1]), 1)
        return np.concatenate([self._sixth(seats[i : i + step], part) for i in range(0, len(seats), step)])

    def _sixth(self, seats: np.ndarray, part: float) -> np.ndarray:
        source = np.where(self.fixed, self.source, seats[:, self.source])
        held = self.problem.links[source, seats[:, self.target]]  # [rows, ways, links]
        busy = np.einsum("rwl,w->rl", held, self.ns)
        first = np.where(held, self.begin[:, None], _NEVER).min(1)
        last = np.where(held, self.end[:, None], 0).max(1)
        most = np.maximum(busy, part * np.maximum(last - first, 0))
        return ((most / max(int(self.ns.max()), 1)) ** 6).sum(1)
