"""The policy Ribbon: all ops of an epoch take the same number of rows of cores, so that their rectangles
leave no gaps.

For each epoch, each number of rows is tried: ops are taken in schedule order until one finds no free cores.
The trial with the best score is kept. Its slowest ops then get faster models, as long as all ops still fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .epochs import Choice
from .grid import FreeCores, Spot
from .limits import Loads
from .network import Network
from .op import BalanceOp
from .picks import pruned
from .solver import GraphSolver

_TARGET = 95_000
_ROUNDS, _PATIENCE, _SLOW = 10, 3, 0.9
_LEAST_DEPTH, _LEAST_BLOCK = 4, 8
_PENALTY = {"matmul": 1, "sparse_matmul": 128}  # divisors of core cycles in the score; 8 for other kinds


@dataclass(slots=True)
class _Trial:
    """An epoch on trial: the ops from ``first`` on, with a model and cores each, and the solver after these
    choices."""

    first: int
    solver: GraphSolver
    models: list[int]
    spots: list[Spot]
    limiter: list[int]
    score: float = 0.0

    @property
    def end(self) -> int:
        return self.first + len(self.models)


def ribbon(loads: Loads, seed: int) -> Choice:
    network = loads.network
    solver = pruned(network)
    models: list[int] = []
    epochs: list[int] = []
    spots: list[Spot] = []
    while len(models) < len(network.ops):
        trials = [_try(loads, solver, len(models), rows, {}) for rows in range(1, network.chip.grid[0] + 1)]
        best = max((t for t in trials if t.models), key=lambda t: t.score)
        best = _faster(loads, solver, best)
        epoch = epochs[-1] + 1 if epochs else 0
        models += best.models
        spots += best.spots
        epochs += [epoch] * len(best.models)
        solver = best.solver
        for e in range(len(network.edges)):
            if network.edges[e].producer < best.end <= network.edges[e].consumer:
                solver.cut(e)
        _revive(solver, best.end)
    return Choice(
        np.array(models, np.int64), np.array(epochs, np.int64), tuple(spots), frozenset(solver.cuts)
    )


def _revive(solver: GraphSolver, end: int) -> None:
    """Make all models of later epochs possible again, because the ops of earlier epochs do not restrict
    them."""
    solver.live[end:] = [np.ones(len(c), bool) for c in solver.network.columns[end:]]
    solver.resolve_from(end)


def _try(loads: Loads, solver: GraphSolver, first: int, rows: int, caps: dict[int, int]) -> _Trial:
    """The trial of ops from ``first`` on, on ``rows`` rows, until an op finds no free cores; ``caps``: {op:
    cycles that the op's limiter must stay below}."""
    network = loads.network
    trial, free = _Trial(first, solver.copy(), [], [], []), FreeCores(network.chip.grid)
    for op in range(first, len(network.ops)):
        if not _add(loads, trial, free, op, rows, caps):
            break
    if trial.models and _half_pair(network, trial.end):
        last = trial.end - 1
        if last > first:  # a sparse matmul moves to the next epoch together with its reader
            return _try_until(loads, solver, first, rows, caps, last)
    trial.score = _score(loads, trial)
    return trial


def _try_until(
    loads: Loads, solver: GraphSolver, first: int, rows: int, caps: dict[int, int], end: int
) -> _Trial:
    trial, free = _Trial(first, solver.copy(), [], [], []), FreeCores(loads.network.chip.grid)
    for op in range(first, end):
        _add(loads, trial, free, op, rows, caps)
    trial.score = _score(loads, trial)
    return trial


def _half_pair(network: Network, end: int) -> bool:
    return end < len(network.ops) and network.ops[end - 1].op.kind == "sparse_matmul"


def _add(loads: Loads, trial: _Trial, free: FreeCores, op: int, rows: int, caps: dict[int, int]) -> bool:
    """Add an op to the trial, if it finds a model and cores; return whether it did."""
    network = loads.network
    m, what = network.columns[op], network.ops[op].op
    load = loads.of(op, lambda e: network.edges[e].producer >= trial.first)
    limiter = load.limiter(2, loads.rates)
    live = trial.solver.at(op)
    live = live[limiter[live] < caps[op]] if op in caps else live
    if not len(live):
        return False
    keys = _keys(m, what, limiter, rows)
    model = int(live[np.lexsort([k[live] for k in reversed(keys)])[0]])
    spot = free.take_first(*m.models[model].grid)
    if spot is None:
        return False
    trial.solver.set(op, model)
    trial.models.append(model)
    trial.spots.append(spot)
    trial.limiter.append(int(limiter[model]))
    return True


def _keys(m, what: BalanceOp, limiter: np.ndarray, rows: int) -> tuple[np.ndarray, ...]:
    """The keys that rank models, most important first; smaller is better."""
    ratio = limiter / _TARGET
    over = ratio > 1
    near = np.searchsorted([2, 5, 10, 20], np.maximum(ratio, 1 / np.maximum(ratio, 1e-9)), side="right")
    close = np.searchsorted([0.8, 1.0, 1.2], ratio, side="right")
    shallow = (m.u_kt < _LEAST_DEPTH) & what.is_matmul
    block = m.rows * m.cols
    small = (m.t > 1) & (block < _LEAST_BLOCK)
    columns = np.where(over, np.iinfo(np.int64).max, m.grid_c)
    return (
        np.abs(m.grid_r - rows),
        m.grid_r,
        columns,
        near,
        shallow,
        small,
        close,
        np.where(over, limiter, -block),
        -(m.cycles / np.maximum(limiter, 1)),
    )


def _score(loads: Loads, trial: _Trial) -> float:
    """Useful core cycles of the trial, divided by the cycles that it takes."""
    network, useful = loads.network, 0.0
    for op, model in zip(range(trial.first, trial.end), trial.models, strict=True):
        m = network.columns[op].models[model]
        useful += m.cycles * m.cores / _PENALTY.get(network.ops[op].op.kind, 8)
    return useful / max(trial.limiter, default=1)


def _faster(loads: Loads, solver: GraphSolver, best: _Trial) -> _Trial:
    """The trial after its slowest ops have got more cores, if no op drops out and the score grows."""
    caps: dict[int, int] = {}
    failed, current = 0, best
    for _ in range(_ROUNDS):
        slowest = max(current.limiter)
        caps = dict(caps)
        for i, cycles in enumerate(current.limiter):
            if cycles > _SLOW * slowest:
                caps[current.first + i] = cycles
        rows = [loads.network.columns[best.first + i].models[m].grid.r for i, m in enumerate(best.models)]
        trial = _try(loads, solver, best.first, max(set(rows), key=rows.count), caps)
        if trial.end < best.end:
            break
        current = trial
        if trial.end == best.end and trial.score > best.score:
            best, failed = trial, 0
        else:
            failed += 1
            if failed == _PATIENCE:
                break
    return best
