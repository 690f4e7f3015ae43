"""Placement policies of the literature, as baselines: list schedules that respect memory, and annealing.

ETF (Hwang, Chow, Anger and Lee, 1989) considers all pairs of a ready node and a device, and takes the pair
that can start first. SCT (Hanen and Munier, 1995) first solves a linear program for each node's favourite
child, the reader that should run on the node's device; the device is reserved for that child as long as a
copy would take, except from nodes that could run anywhere. m-ETF and m-SCT add the devices' memory (Baechi:
Jeon et al., 2020, section 3): a device without room for the parameters is not chosen. m-TOPO cuts the order
of nodes into one part per device. All of these assume equally fast devices. Annealing (Kirkpatrick, Gelatt
and Vecchi, 1983) moves single nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..base.absent import installing
from ..base.errors import PlanError
from ..plan.placing import UNSUPPORTED, PlacementProblem, evaluate
from ..plan.placing.search import fill, singles

_ROUNDS = 400  # rounds of annealing
_TRIED = 16  # moves per round
_HOT, _COLD = 0.05, 0.0005  # first and last temperature, divided by the time of the first assignment
_FAVOURITE = 0.5  # a reader whose relaxed variable is less is the favourite child


def annealing(problem: PlacementProblem, seed: int = 0) -> np.ndarray:
    """Simulated annealing from the best single device: a move of one node that increases the objective by d
    is accepted with probability exp(-d / T). T falls geometrically."""
    rng, allowed = np.random.default_rng(seed), problem.allowed
    starts = singles(problem)
    if problem.room.binds:
        starts = np.stack([*starts, fill(problem, starts)])
    times = evaluate(problem, starts)
    did, now = starts[times.argmin()].astype(np.int16), int(times.min())
    best, free = now, np.flatnonzero(allowed.sum(1) > 1)
    kept, heat = did.copy(), _HOT * max(now, 1)
    cooling = (_COLD / _HOT) ** (1 / _ROUNDS)
    for _ in range(_ROUNDS if len(free) else 0):
        rows = np.repeat(did[None], _TRIED, 0)
        for row in rows:
            node = int(rng.choice(free))
            row[node] = rng.choice(np.flatnonzero(allowed[node]))
        for row, ns in zip(rows, evaluate(problem, rows).tolist(), strict=True):
            if ns <= now or rng.random() < math.exp((now - ns) / heat):
                did, now = row, ns
                if now < best:
                    best, kept = now, did.copy()
                break
        heat *= cooling
    return kept


def m_etf(problem: PlacementProblem) -> np.ndarray:
    """The list schedule that always takes the pair of a ready node and a device with enough memory that can
    start first."""
    return _List(problem, {}).schedule()


def m_sct(problem: PlacementProblem) -> np.ndarray:
    """The schedule of m_etf with devices reserved for favourite children. Raises PlanError without scipy
    (extra "solver")."""
    return _List(problem, _favourites(problem)).schedule()


def m_topo(problem: PlacementProblem) -> np.ndarray:
    """The order of nodes cut into parts of about equal bytes, one part per device. A device takes nodes up to
    its share of the bytes plus the bytes of the largest node (Baechi, section 3.1)."""
    running = problem.running.tolist()
    size, did = _bytes(problem)[:, running[-1]], np.zeros(problem.num_nodes, np.int16)
    share = size.sum() / max(len(running), 1) + size.max(initial=0)
    held, at = 0, 0
    for nid in range(problem.num_nodes):
        if held + size[nid] > share and at + 1 < len(running):
            held, at = 0, at + 1
        held += int(size[nid])
        options = np.flatnonzero(problem.allowed[nid])
        did[nid] = running[at] if running[at] in options else options[0]
    return did


BASELINES: dict[str, Callable[..., np.ndarray]] = {
    "annealing": annealing,
    "m-topo": m_topo,
    "m-etf": m_etf,
    "m-sct": m_sct,
}


# **************** list schedules ****************


@dataclass
class _List:
    """A list schedule. ``favourite``: {node: favourite child}, the reader that should run on the same
    device."""

    problem: PlacementProblem
    favourite: dict[int, int]
    did: list[int] = field(init=False)

    def __post_init__(self) -> None:
        problem, count = self.problem, self.problem.num_nodes
        self.reads: list[list[int]] = [[] for _ in range(count)]
        self.readers: list[list[int]] = [[] for _ in range(count)]
        for nid, value in zip(problem.use_nid.tolist(), problem.use_value.tolist(), strict=True):
            self.reads[nid].append(value)
            maker = int(problem.ready[value])
            if maker >= 0:
                self.readers[maker].append(nid)
        self.makers = [{int(problem.ready[v]) for v in row} - {-1} for row in self.reads]
        self.did, self.over = [-1] * count, [0] * count
        self.free, self.last = [0] * problem.num_devices, [-1] * problem.num_devices
        self.bytes, self.left = _bytes(problem), _capacities(problem)
        self.opened = np.zeros_like(self.left)  # bytes of circular buffers of the nodes placed so far
        self.stores = [problem.room.stores(device) for device in range(problem.num_devices)]

    def schedule(self) -> np.ndarray:
        """The device of each node, as int16 [nodes]."""
        waiting = [len(makers) for makers in self.makers]
        ready = [n for n, count in enumerate(waiting) if not count]
        options = [np.flatnonzero(row).tolist() for row in self.problem.allowed]
        while ready:
            pairs = ((n, d) for n in ready for d in self._fitting(n, options[n]))
            start, _, nid, device = min((self._start(n, d), self._rank(n, d), n, d) for n, d in pairs)
            ready.remove(nid)
            self.did[nid], self.over[nid] = device, start + int(self.problem.cost[nid, device])
            if self.problem.graph.func_id[nid] >= 0:
                self.free[device], self.last[device] = self.over[nid], nid
            mine = self.stores[device]
            self.left[mine] -= self.bytes[nid, mine]
            self.opened[mine] = np.maximum(self.opened[mine], self.problem.room.circular[nid, mine])
            for reader in sorted(set(self.readers[nid])):
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
        return np.array(self.did, np.int16)

    def _fitting(self, nid: int, options: list[int]) -> list[int]:
        """The devices with enough memory for a node. If no device has enough, the device with the most memory
        left."""
        opened = np.maximum(self.opened, self.problem.room.circular[nid])
        left = self.left - self.bytes[nid] - opened
        least = {d: int(left[self.stores[d]].min()) for d in options}
        fitting = [d for d in options if least[d] >= 0]
        return fitting or [max(options, key=lambda d: least[d])]

    def _start(self, nid: int, device: int) -> int:
        problem, begin = self.problem, self.free[device]
        if problem.graph.func_id[nid] < 0:
            return 0
        for value in self.reads[nid]:
            maker, owner = int(problem.ready[value]), int(problem.owner[value])
            source = self.did[owner]
            way = int(problem.copy[value, source, device]) if source >= 0 else 0
            begin = max(begin, way + (self.over[maker] if maker >= 0 else 0))
        return max(begin, self._kept(nid, device, begin))

    def _kept(self, nid: int, device: int, begin: int) -> int:
        """Time until which a device is reserved for the favourite child of the node that ran there last."""
        last = self.last[device]
        wanted = self.favourite.get(last, -1)
        if wanted in (-1, nid) or self.did[wanted] >= 0:
            return 0
        made = [v for v in self.reads[nid] if self._made(v) >= 0]
        anywhere = max((self.over[self._made(v)] + self._way(v) for v in made), default=0)
        if anywhere <= begin:  # the inputs are available on every device
            return 0
        return self.over[last] + max(self._way(v) for v in self.reads[wanted] if self._made(v) == last)

    def _made(self, value: int) -> int:
        return int(self.problem.ready[value])

    def _way(self, value: int) -> int:
        """Time in ns of the longest copy of a value from the value's device to another."""
        source = self.did[int(self.problem.owner[value])]
        return int(self.problem.copy[value, source].max()) if source >= 0 else 0

    def _rank(self, nid: int, device: int) -> tuple[int, int]:
        """Rank among pairs (node, device) that start at the same time. A favourite child on its parent's
        device comes first, then the pair with the least time."""
        wanted = any(
            self.favourite.get(maker) == nid and self.did[maker] == device for maker in self.makers[nid]
        )
        return 0 if wanted else 1, int(self.problem.cost[nid, device])


def _bytes(problem: PlacementProblem) -> np.ndarray:
    """Bytes of the parameters that each node is the first to read, as int64 [nodes, stores]. Parameters stay
    in memory; results are freed during a run, and _capacities reserves room for their peak."""
    room = problem.room
    found = np.zeros((problem.num_nodes, len(room.available)), np.int64)
    seen: set[int] = set()
    for nid, which in room.resident_uses.tolist():
        if which not in seen:
            seen.add(which)
            found[nid] += room.resident[which]
    return found


def _capacities(problem: PlacementProblem) -> np.ndarray:
    """Bytes of each memory that are available to parameters and circular buffers, as int64 [stores]."""
    room = problem.room
    return room.available - room.most_live.max(0, initial=0)


# **************** favourite children ****************


def _favourites(problem: PlacementProblem) -> dict[int, int]:
    """{node: its favourite child} by SCT's relaxed linear program. Its variables are the start time s of each
    node, and a number x in 0 .. 1 of each edge, which is 0 if the reader is the favourite child. The linear
    program minimises the end of the run, subject to s_j >= s_i + p_i + c_ij x_ij; at most one edge to a
    node's readers has x = 0, and at most one edge from a node's makers."""
    try:
        from scipy.optimize import linprog
        from scipy.sparse import coo_array
    except ImportError as error:
        raise PlanError(f"m-sct solves a linear program: {installing('solver')}") from error
    count, able = problem.num_nodes, problem.cost < UNSUPPORTED
    took = np.where(able, problem.cost, 0).sum(1) / np.maximum(able.sum(1), 1)
    k = max(problem.num_devices, 2)
    ways = problem.copy.sum((1, 2)) / (k * (k - 1))
    edges: dict[tuple[int, int], float] = {}
    for nid, value in zip(problem.use_nid.tolist(), problem.use_value.tolist(), strict=True):
        maker = int(problem.ready[value])
        if maker >= 0:
            edges[maker, nid] = edges.get((maker, nid), 0.0) + float(ways[value])
    if not edges:
        return {}
    unit = max(float(took.sum()), 1.0)
    rows: list[tuple[int, int, float]] = []  # (row, column, factor); in each row the sum is at most the bound
    bound: list[float] = []
    for at, ((a, b), way) in enumerate(edges.items()):
        rows += [(len(bound), a, 1.0), (len(bound), b, -1.0), (len(bound), count + at, way / unit)]
        bound.append(-took[a] / unit)
    end = count + len(edges)
    for nid in range(count):
        rows += [(len(bound), nid, 1.0), (len(bound), end, -1.0)]
        bound.append(-took[nid] / unit)
    for side in (0, 1):
        groups: dict[int, list[int]] = {}
        for at, edge in enumerate(edges):
            groups.setdefault(edge[side], []).append(count + at)
        for columns in groups.values():
            rows += [(len(bound), column, -1.0) for column in columns]
            bound.append(1.0 - len(columns))
    at_row, column, factor = map(np.array, zip(*rows, strict=True))
    matrix = coo_array((factor, (at_row, column)), shape=(len(bound), end + 1)).tocsr()
    aim = np.zeros(end + 1)
    aim[end] = 1.0
    limits = [(0, None)] * count + [(0, 1)] * len(edges) + [(0, None)]
    solved = linprog(aim, A_ub=matrix, b_ub=bound, bounds=limits, method="highs")
    if solved.x is None:
        raise PlanError(f"m-sct found no solution of its linear program: {solved.message}")
    chosen = zip(edges, solved.x[count:end].tolist(), strict=True)
    return {a: b for (a, b), x in sorted(chosen, key=lambda row: -row[1]) if x < _FAVOURITE}
