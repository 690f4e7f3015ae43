"""How runs follow each other, many in flight: as simulation.simulate() of several runs.

A queue takes runs one after another. A link is free for whatever copy is ready, as long as no other holds it:
a copy may go before one of an earlier run that comes later.
"""

from __future__ import annotations

import numpy as np

from .problem import PlacementProblem
from .times import Times

__all__ = ["periods"]

_NONE = np.int64(-(1 << 60))  # there is no way
_RUNS = 4  # of which the last follow each other as all later ones do, nearly always


def periods(problem: PlacementProblem, did: np.ndarray) -> np.ndarray:
    """int64 [rows]: ns from the end of a run to that of the next; ``did`` int [rows, nodes]: assignments."""
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
    """int64 [rows]: ns of the longest way from the beginning of a node to the end of one that needs it, both
    on one device: its next run begins after that."""
    rows, k = np.arange(len(did)), problem.num_devices
    far = np.full((len(did), problem.num_nodes, k), _NONE)  # from a node of each device to each node's end
    span, uses = (
        np.zeros(len(did), np.int64),
        np.searchsorted(problem.use_nid, np.arange(problem.num_nodes + 1)),
    )
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
        runs = cost > 0  # a reshape that moves nothing is no instruction
        reach[rows, here] = np.maximum(reach[rows, here], np.where(runs, 0, _NONE))
        far[:, nid] = reach + cost[:, None]
        span = np.maximum(span, np.where(runs, far[rows, nid, here], 0))
    return span


class _Runs(Times):
    """Runs of the same assignments, one ``follow`` each, which leave each other's copies their links."""

    def __init__(self, problem: PlacementProblem, did: np.ndarray):
        super().__init__(problem, len(did))
        self.did[:] = did
        size = (len(did), 0)
        self.begun, self.ended = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.way = np.zeros(size, np.int64)  # source * k + target of each copy of earlier runs
        self.copies: list[tuple[np.ndarray, ...]] = []  # of this run: rows, way, begin, end
        k = problem.num_devices
        ways = problem.links.reshape(k * k, -1).astype(np.float32)
        self.meet = ways @ ways.T > 0  # bool [ways, ways]: they share a link

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
