"""Epochs by dynamic programming over the schedule: the part of policy `optimal` for graphs of any size.

For a target of cycles, ops are taken from a first one on, each with the fewest cores that meet the target and
go with its producers, until one finds no room: so every prefix of that run is an epoch that could be. The
best chain of such epochs from the first op to the last is found exactly; targets become finer by rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .epochs import Choice
from .grid import FreeCores, Spot
from .limits import Load, Loads

__all__ = ["Chain", "best_chain"]

_FORKS = (2, 6, 11, 16, 22)  # how much DRAM's speed is divided, supposed while models are picked
_LEVELS = 7  # targets of the first round; each round halves their distance
_MOST_RUNS = 12_000
_MOST_OPS = 60  # of one epoch: half of the cores of the largest grid


@dataclass(slots=True)
class _Run:
    """Ops ``first`` .. as an epoch: model and spot of each, and ``cycles`` of the epoch that ends after
    each."""

    first: int
    models: list[int]
    spots: list[Spot]
    cycles: np.ndarray


class Chain:
    """The best way from op 0 to each op: ``cost`` float64 [ops + 1], ``before`` the run of its last epoch."""

    def __init__(self, count: int):
        self.cost = np.full(count + 1, np.inf)
        self.cost[0] = 0.0
        self.runs: list[list[_Run]] = [[] for _ in range(count)]

    def add(self, run: _Run) -> None:
        """Keep a run if it makes some epoch that starts there faster than those kept."""
        if run.models:
            self.runs[run.first].append(run)

    def solve(self) -> list[tuple[_Run, int]]:
        """The epochs (run, ops of it) of the cheapest chain."""
        count = len(self.runs)
        self.cost[1:] = np.inf
        before: list[tuple[_Run, int] | None] = [None] * (count + 1)
        for first, runs in enumerate(self.runs):
            for run in runs:
                ends = slice(first + 1, first + 1 + len(run.cycles))
                offered = self.cost[first] + run.cycles
                for k in np.flatnonzero(offered < self.cost[ends]).tolist():
                    before[first + 1 + k] = (run, k + 1)
                self.cost[ends] = np.minimum(self.cost[ends], offered)
        found, at = [], count
        while (step := before[at]) is not None:  # before[0] is None
            found.append(step)
            at = step[0].first
        return found[::-1]


def best_chain(loads: Loads, pairs: list[np.ndarray], rounds: int = 2) -> Choice:
    """The best chain of epochs found in so many rounds. ``pairs``: legal pairs of each edge."""
    search = _Search(loads, pairs)
    count = len(loads.network.ops)
    chain = Chain(count)
    low, high = search.span()
    aims = [
        (level, fork) for round_ in range(rounds) for level in _targets(low, high, round_) for fork in _FORKS
    ]
    # of very many ops each is looked at fewer times: every n-th aim, n no multiple of the forks
    step = -(-len(aims) * count // _MOST_RUNS)
    step += step % len(_FORKS) == 0
    for level, fork in aims[:: min(step, len(aims) // _LEVELS)]:
        search.aim(level, fork)
        for first in range(count):
            chain.add(search.run(first))
    if not all(chain.runs):  # an op that DRAM holds back more than the slowest kernel meets no target
        search.aim(np.inf, _FORKS[0])
        for first in range(count):
            chain.add(search.run(first))
    return _as_choice(chain.solve())


def _targets(low: float, high: float, round_: int) -> list[float]:
    """Geometric steps in the first round, then the middles between those there were."""
    steps = _LEVELS << round_
    at = range(1, steps, 2) if round_ else range(steps + 1)
    return [low * (high / low) ** (i / steps) for i in at]


def _as_choice(epochs: list[tuple[_Run, int]]) -> Choice:
    models = [m for run, n in epochs for m in run.models[:n]]
    spots = [s for run, n in epochs for s in run.spots[:n]]
    epoch = np.repeat(np.arange(len(epochs)), [n for _, n in epochs])
    return Choice(np.array(models, np.int64), epoch, tuple(spots))


class _Search:
    def __init__(self, loads: Loads, pairs: list[np.ndarray]):
        self.loads, self.pairs, self.network = loads, pairs, loads.network
        self._known: dict[tuple[Any, ...], Load] = {}
        edges, leaves, never = self.network.edges, self.network.leaves, len(self.network.ops) + 1
        self.last_reader = np.array(  # the epoch must reach it for the result to stay
            [
                never if leaves[op] else max((edges[e].consumer for e in out), default=never)
                for op, out in enumerate(self.network.out_of)
            ],
            np.int64,
        )
        # a fork that streams blocks one of its branches until the other holds enough: better it does not
        self._whole = [
            (m.pieces == 1) | (len(out) < 2)
            for m, out in zip(self.network.columns, self.network.out_of, strict=True)
        ]
        self._order = [np.lexsort((m.cycles, m.cores)) for m in self.network.columns]

    def span(self) -> tuple[float, float]:
        """Targets worth trying: from the fastest that the slowest op can be to the slowest that an op would
        be on few cores."""
        kernel = [m.cycles for m in self.network.columns]
        low = max(max(int(c.min()) for c in kernel) / 16, 1.0)
        return low, max(float(max(int(c[c.argmin()]) * 8 for c in kernel)), low * 2)

    def aim(self, target: float, fork: int) -> None:
        self.target, self.fork = target, fork
        self._meets: dict[tuple[Any, ...], np.ndarray] = {}
        self._supported: dict[int, np.ndarray] = {}

    def load(self, op: int, first: int) -> tuple[tuple[Any, ...], Load]:
        """The load of an op whose epoch begins with op ``first``, all its readers in the epoch."""
        edges = self.network.edges
        here = tuple(edges[e].producer >= first for e in self.network.into[op])
        key = (op, here)
        if key not in self._known:
            inside = dict(zip(self.network.into[op], here, strict=True))
            self._known[key] = self.loads.of(op, lambda e: inside.get(e, True))
        return key, self._known[key]

    def meets(self, op: int, first: int) -> np.ndarray:
        """bool [models]: those that keep to the target."""
        key, load = self.load(op, first)
        if key not in self._meets:
            self._meets[key] = load.limiter(self.fork, self.loads.rates) <= self.target
        return self._meets[key]

    def supported(self, edge: int) -> np.ndarray:
        """bool [models of the producer]: some model of the consumer goes with it and keeps to the target."""
        if edge not in self._supported:
            good = self.meets(self.network.edges[edge].consumer, 0)
            found = np.asarray(self.pairs[edge][:, good].any(axis=1))
            self._supported[edge] = found if found.any() else np.ones_like(found)
        return self._supported[edge]

    def run(self, first: int) -> _Run:
        network, free = self.network, FreeCores(self.network.chip.grid)
        models: list[int] = []
        spots: list[Spot] = []
        for op in range(first, min(len(network.ops), first + _MOST_OPS)):
            model = self._pick(op, first, models)
            if model is None:
                break
            spot = free.take_first(*network.columns[op].models[model].grid)
            if spot is None:
                break
            models.append(model)
            spots.append(spot)
        return _Run(first, models, spots, self._cycles(first, models))

    def _pick(self, op: int, first: int, models: list[int]) -> int | None:
        """The model of fewest cores that keeps to the target and goes with the producers' models, if there is
        one also with some of its readers'."""
        good = self.meets(op, first)
        for e in self.network.into[op]:
            producer = self.network.edges[e].producer
            if producer >= first:
                good = good & self.pairs[e][models[producer - first]]
        ahead = good
        for e in self.network.out_of[op]:
            ahead = ahead & self.supported(e)
        whole = ahead & self._whole[op]
        for wanted in (whole, ahead, good):
            order = self._order[op]
            found = order[wanted[order]]
            if len(found):
                return int(found[0])
        return None

    def _cycles(self, first: int, models: list[int]) -> np.ndarray:
        """int64 [ops of the run]: cycles of the epoch that ends after each."""
        ops = range(first, first + len(models))
        loads = [self.load(op, first)[1] for op in ops]
        picked = list(zip(loads, models, strict=True))
        base = np.array([load.base[m] for load, m in picked])
        inward = np.array([load.dram[m] for load, m in picked])
        touches = np.array([load.touches for load in loads], bool)
        cores = np.array([self.network.columns[op].cores[m] for op, m in zip(ops, models, strict=True)])
        out = np.array([self.loads.out_bytes(op)[m] for op, m in zip(ops, models, strict=True)])
        last = self.last_reader[first : first + len(models)]
        found = np.zeros(len(models), np.int64)
        for n in range(1, len(models) + 1):
            outward = last[:n] >= first + n
            touching = int(cores[:n][touches[:n] | outward].sum())
            fork = self.loads.rates.fork(touching)
            most = max(inward[:n].max(), out[:n][outward].max(initial=0.0))
            found[n - 1] = np.ceil(max(base[:n].max(), most * fork / self.loads.rates.dram))
        return found
