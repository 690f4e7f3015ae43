"""Epochs by dynamic programming over the schedule: the part of policy `optimal` for graphs of any size.

For a target of cycles, ops are taken one after another from a first op on. Each op gets the model with the
fewest cores that meets the target and is legal with the models of the op's producers; the run ends at an op
that finds no free cores. Every prefix of a run is a possible epoch. The best chain of such epochs from the
first op to the last is found exactly. Each round tries targets between those of the rounds before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .epochs import Choice
from .grid import FreeCores, Spot
from .limits import Load, Loads

_FORKS = (2, 6, 11, 16, 22)  # divisors of DRAM's speed that are assumed while models are picked
_LEVELS = 7  # targets of the first round; each further round halves the distance between targets
_ROUNDS, _MOST_RUNS = 2, 12_000
_MOST_OPS = 60  # most ops of an epoch: half of the cores of the largest grid


@dataclass(slots=True)
class _Run:
    """The ops from ``first`` on as an epoch: the model and the cores of each op, and for each op ``cycles``,
    the epoch's cycles if the epoch ends after this op."""

    first: int
    models: list[int]
    spots: list[Spot]
    cycles: np.ndarray


class Chain:
    """The best way from op 0 to each op: ``cost`` float64 [ops + 1] and ``before``, the run that gives the
    last epoch of this way."""

    def __init__(self, count: int):
        self.cost = np.full(count + 1, np.inf)
        self.cost[0] = 0.0
        self.runs: list[list[_Run]] = [[] for _ in range(count)]

    def add(self, run: _Run) -> None:
        """Keep a run if one of the epochs that it offers is faster than the same epoch of all runs kept so
        far."""
        if run.models:
            self.runs[run.first].append(run)

    def solve(self) -> list[tuple[_Run, int]]:
        """The cheapest chain: for each epoch a pair (run, number of the run's ops that are in the epoch)."""
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
        while (step := before[at]) is not None:  # the loop ends at before[0], which is None
            found.append(step)
            at = step[0].first
        return found[::-1]


def best_chain(loads: Loads, pairs: list[np.ndarray]) -> Choice:
    """The best chain of epochs found in _ROUNDS rounds. ``pairs``: legal pairs of each edge."""
    search = _Search(loads, pairs)
    count = len(loads.network.ops)
    chain = Chain(count)
    low, high = search.span()
    aims = [
        (level, fork) for round_ in range(_ROUNDS) for level in _targets(low, high, round_) for fork in _FORKS
    ]
    # if there are very many ops, only every n-th pair of target and divisor is tried; n is no multiple of the
    # number of forks
    step = -(-len(aims) * count // _MOST_RUNS)
    step += step % len(_FORKS) == 0
    for level, fork in aims[:: min(step, len(aims) // _LEVELS)]:
        search.aim(level, fork)
        for first in range(count):
            chain.add(search.run(first))
    if not all(chain.runs):  # no target is met by an op that DRAM slows more than any kernel
        search.aim(np.inf, _FORKS[0])
        for first in range(count):
            chain.add(search.run(first))
    return _as_choice(chain.solve())


def _targets(low: float, high: float, round_: int) -> list[float]:
    """Geometric steps in the first round; in later rounds the middles between the targets of earlier
    rounds."""
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
        self.last_reader = np.array(  # an op's result stays on the cores if the epoch reaches this reader
            [
                never if leaves[op] else max((edges[e].consumer for e in out), default=never)
                for op, out in enumerate(self.network.out_of)
            ],
            np.int64,
        )
        # after a fork that streams, one branch is blocked until the other branch holds enough data; so models
        # that do not stream are preferred for a fork
        self._whole = [
            (m.pieces == 1) | (len(out) < 2)
            for m, out in zip(self.network.columns, self.network.out_of, strict=True)
        ]
        self._order = [np.lexsort((m.cycles, m.cores)) for m in self.network.columns]

    def span(self) -> tuple[float, float]:
        """The least and the largest target worth trying: the fastest model of the slowest op, and the slowest
        that an op would be on few cores."""
        kernel = [m.cycles for m in self.network.columns]
        low = max(max(int(c.min()) for c in kernel) / 16, 1.0)
        return low, max(float(max(int(c[c.argmin()]) * 8 for c in kernel)), low * 2)

    def aim(self, target: float, fork: int) -> None:
        self.target, self.fork = target, fork
        self._meets: dict[tuple[Any, ...], np.ndarray] = {}
        self._supported: dict[int, np.ndarray] = {}

    def load(self, op: int, first: int) -> tuple[tuple[Any, ...], Load]:
        """Pair (key, load) of an op in an epoch that begins with op ``first`` and has all readers of the
        op."""
        edges = self.network.edges
        here = tuple(edges[e].producer >= first for e in self.network.into[op])
        key = (op, here)
        if key not in self._known:
            inside = dict(zip(self.network.into[op], here, strict=True))
            self._known[key] = self.loads.of(op, lambda e: inside.get(e, True))
        return key, self._known[key]

    def meets(self, op: int, first: int) -> np.ndarray:
        """bool [models]: whether the model meets the target."""
        key, load = self.load(op, first)
        if key not in self._meets:
            self._meets[key] = load.limiter(self.fork, self.loads.rates) <= self.target
        return self._meets[key]

    def supported(self, edge: int) -> np.ndarray:
        """bool [models of the producer]: whether the model is legal with some model of the consumer that
        meets the target."""
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
        """The model with the fewest cores that meets the target and is legal with the producers' models,
        preferably also with a model of each reader; None if there is no such model."""
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
        """int64 [ops of the run]: cycles of the epoch that ends after each op."""
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
