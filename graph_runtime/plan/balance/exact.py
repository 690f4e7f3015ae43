"""The best epoch of a few ops, by mixed-integer programming (HiGHS, through scipy): one model per op, so that
the slowest op is as fast as possible and all rectangles find cores.

The divisor of DRAM's speed depends on the number of cores that use DRAM, so each divisor has a problem of its
own. A problem knows only the areas of rectangles. If the rectangles of an answer do not fit the grid, they
and all larger ones are forbidden together, and the problem is solved again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.absent import installing, load_fault
from ...base.errors import PlanError
from .grid import FreeCores, Spot
from .limits import Loads
from .solver import GraphSolver

_STEPS = 20_000  # tries to place a set of rectangles before the set counts as not fitting


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch: the model and the cores of each op, and the epoch's cycles for one input."""

    models: tuple[int, ...]
    spots: tuple[Spot, ...]
    cycles: int


def require_library() -> Any:
    """The module scipy.optimize. Raises PlanError if scipy is not installed."""
    try:
        from scipy import optimize, sparse  # noqa: F401 - both are needed
    except ImportError as error:
        raise PlanError(
            "policy 'optimal' solves small graphs exactly with scipy, "
            f"{load_fault(error).removeprefix(', ') or 'which is not installed'}: "
            f"{installing('solver')}, or take policy 'ribbon' or 'nlp'",
            got="optimal",
        ) from None
    return optimize


def best_epoch(loads: Loads, solver: GraphSolver, first: int, end: int, below: float) -> Epoch | None:
    """The fastest epoch of ops ``first`` .. end - 1, if it takes less than ``below`` cycles. ``solver`` has
    the legal pairs."""
    network = loads.network
    ops = range(first, end)
    inside = [e for op in ops for e in network.into[op] if network.edges[e].producer >= first]
    here = frozenset(inside)
    load = [loads.of(op, here.__contains__) for op in ops]
    area = network.chip.grid[0] * network.chip.grid[1]
    best: Epoch | None = None
    for fork in range(2, loads.rates.fork(area) + 1):
        limit = [one.limiter(fork, loads.rates) for one in load]
        while True:
            live = _consistent(network, solver, ops, inside, [x < below for x in limit])
            if live is None:
                break
            found = _Problem(
                network,
                solver,
                ops,
                inside,
                live,
                limit,
                [one.touches for one in load],
                int(loads.rates.streams * fork),
            ).solve(below)
            if found is None:
                break
            best, below = found, found.cycles
    return best


def _consistent(
    network, solver: GraphSolver, ops: range, edges: Sequence[int], live: list[np.ndarray]
) -> list[np.ndarray] | None:
    """The live models after arc consistency over the epoch's own edges; None if an op has no model left."""
    changed = True
    while changed:
        changed = False
        for e in edges:
            p, c = (x - ops.start for x in network.edges[e][:2])
            pairs = solver.pairs(e)
            for at, left in (
                (c, live[c] & pairs[live[p]].any(axis=0)),
                (p, live[p] & pairs[:, live[c]].any(axis=1)),
            ):
                if left.sum() != live[at].sum():
                    live[at], changed = left, True
    return live if all(x.any() for x in live) else None


class _Problem:
    """The mixed-integer problem of one epoch: minimise T, the cycles of the slowest op. Each op has one
    model, no model is slower than T, all models fit the grid together, and every pair along an edge is legal.
    Columns: a binary variable for each live model, then T as a share of ``below``."""

    def __init__(self, network, solver, ops, edges, live, limit, touches, most_touching):
        self.network, self.ops = network, ops
        self.index = [np.flatnonzero(x) for x in live]
        self.begin = np.cumsum([0, *map(len, self.index)])
        self.limit = [x[i] for x, i in zip(limit, self.index, strict=True)]
        self.cores = [network.columns[op].cores[i] for op, i in zip(ops, self.index, strict=True)]
        self.rows: list[
            tuple[np.ndarray, np.ndarray, float, float]
        ] = []  # columns, values, least and most of a row
        for k in range(len(ops)):
            self._row(self._of(k), np.ones(len(self.index[k])), 1, 1)
        area = network.chip.grid[0] * network.chip.grid[1]
        everyone = np.arange(self.begin[-1])
        self._row(everyone, np.concatenate(self.cores), 0, area)
        weight = np.concatenate([c * t for c, t in zip(self.cores, touches, strict=True)])
        self._row(everyone, weight, 0, most_touching)
        for e in edges:
            self._pairs(e, solver.pairs(e))

    def _of(self, k: int) -> np.ndarray:
        return np.arange(self.begin[k], self.begin[k + 1])

    def _row(self, columns: np.ndarray, values: np.ndarray, least: float, most: float) -> None:
        self.rows.append((columns, np.asarray(values, float), least, most))

    def _pairs(self, edge: int, pairs: np.ndarray) -> None:
        """Add the rule that a model is taken only together with a partner at the other end of the edge: x[m]
        <= sum of x[n] over the partners n of m, in both directions."""
        p, c = (x - self.ops.start for x in self.network.edges[edge][:2])
        table = pairs[np.ix_(self.index[p], self.index[c])]
        for one, other, partners in ((p, c, table), (c, p, table.T)):
            for i, row in enumerate(partners):
                if not row.all():
                    columns = np.concatenate([[self.begin[one] + i], self._of(other)[row]])
                    self._row(columns, np.array([1.0, *([-1.0] * int(row.sum()))]), -np.inf, 0)

    def solve(self, below: float) -> Epoch | None:
        """The best answer that fits the grid, or None if no answer takes less than ``below`` cycles."""
        optimize = require_library()
        from scipy import sparse

        last = int(self.begin[-1])
        for k in range(len(self.ops)):
            self._row(np.append(self._of(k), last), np.append(self.limit[k] / below, -1.0), -np.inf, 0)
        goal = np.zeros(last + 1)
        goal[last] = 1.0
        goal[:last] = 1e-7 * np.concatenate(self.cores)  # among equal answers, prefer the fewest cores
        while True:
            counts = [len(r[0]) for r in self.rows]
            matrix = sparse.csr_array(
                (
                    np.concatenate([r[1] for r in self.rows]),
                    np.concatenate([r[0] for r in self.rows]),
                    np.cumsum([0, *counts]),
                ),
                shape=(len(self.rows), last + 1),
            )
            bounds = optimize.LinearConstraint(matrix, [r[2] for r in self.rows], [r[3] for r in self.rows])
            made = optimize.milp(
                goal,
                constraints=bounds,
                integrality=np.append(np.ones(last), 0),
                bounds=optimize.Bounds(0, 1),
            )
            if made.x is None:
                return None
            picked = [int(np.argmax(made.x[self._of(k)])) for k in range(len(self.ops))]
            models = [int(self.index[k][i]) for k, i in enumerate(picked)]
            grids = [self.network.columns[op].models[m].grid for op, m in zip(self.ops, models, strict=True)]
            spots = fit(grids, self.network.chip.grid)
            if spots is not None:
                return Epoch(
                    tuple(models),
                    tuple(spots),
                    int(max(x[i] for x, i in zip(self.limit, picked, strict=True))),
                )
            self._forbid(grids)

    def _forbid(self, grids) -> None:
        """Add the rule that these rectangles, or larger rectangles, are not taken together."""
        columns = []
        for k, (r, c) in enumerate(grids):
            m = self.network.columns[self.ops[k]]
            at = self.index[k]
            columns.append(self._of(k)[(m.grid_r[at] >= r) & (m.grid_c[at] >= c)])
        together = np.concatenate(columns)
        self._row(together, np.ones(len(together)), 0, len(grids) - 1)


def fit(grids: Sequence[tuple[int, int]], chip: tuple[int, int]) -> list[Spot] | None:
    """Cores for each rectangle, turned or not, without overlap; None if no placement exists, or none was
    found in _STEPS tries."""
    order = sorted(range(len(grids)), key=lambda i: (-grids[i][0] * grids[i][1], grids[i]))
    free, steps = FreeCores(chip), [0]
    spots: dict[int, Spot] = {}  # where each rectangle lies

    def rest(at: int) -> bool:
        if at == len(order):
            return True
        r, c = grids[order[at]]
        for rows, cols in dict.fromkeys(((r, c), (c, r))):
            for spot in free.spots(rows, cols):
                steps[0] += 1
                if steps[0] > _STEPS:
                    return False
                free.take(spot)
                spots[order[at]] = spot
                if rest(at + 1):
                    return True
                free.give_back(spot)
        return False

    return [spots[at] for at in range(len(grids))] if rest(0) else None
