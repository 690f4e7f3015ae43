"""The decisions of a policy and their cost: epochs run one after the other, the ops of an epoch side by side.

An epoch's ops form a pipeline over inputs, so an epoch takes as long for each input as its slowest op; the
chip then begins the next epoch. Data that crosses epochs waits in DRAM.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from .forks import Buffering, settle_forks
from .grid import FreeCores, Spot
from .limits import Loads
from .network import Network
from .types import OpModel


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The decisions of a policy. For each op they hold the index of its model (int64 [ops]), its epoch (int64
    [ops]) and its cores. ``cuts``: edges that go through DRAM although both ends are in one epoch."""

    model: np.ndarray
    epoch: np.ndarray
    spots: tuple[Spot, ...]
    cuts: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Balanced:
    """A choice and its cost. ``resident`` bool [edges]: whether the edge's data goes from core to core;
    ``limiter`` int64 [ops]: the op's cycles for one input; ``epoch_cycles`` int64 [epochs]: cycles of the
    epoch's slowest op; ``extra`` int64 [ops]: bytes of L1 added on each core to prevent a deadlock;
    ``queued``: edges that go through DRAM to prevent a deadlock."""

    policy: str
    network: Network
    choice: Choice
    resident: np.ndarray
    limiter: np.ndarray
    epoch_cycles: np.ndarray
    extra: np.ndarray
    queued: frozenset[int] = frozenset()

    @property
    def total(self) -> int:
        """Cycles for one input: the sum over all epochs."""
        return int(self.epoch_cycles.sum())

    def model(self, op: int) -> OpModel:
        return self.network.columns[op].models[self.choice.model[op]]

    @property
    def utilisation(self) -> np.ndarray:
        """float64 [epochs]: the share of the whole grid's core cycles that kernels use."""
        rows, cols = self.network.chip.grid
        busy = np.zeros(len(self.epoch_cycles))
        for op, epoch in enumerate(self.choice.epoch.tolist()):
            m = self.model(op)
            busy[epoch] += m.cycles * m.cores
        return busy / np.maximum(self.epoch_cycles * rows * cols, 1)


def pack(network: Network, model: np.ndarray, cuts: Collection[int] = (), transpose: bool = True) -> Choice:
    """The choice that gives each op its ``model`` and fills epochs in schedule order: an op that finds no
    free cores begins the next epoch."""
    free, epoch, epochs, spots = FreeCores(network.chip.grid), 0, [], list[Spot]()
    for op, m in enumerate(model.tolist()):
        grid = network.columns[op].models[m].grid
        spot = free.take_first(grid.r, grid.c, transpose)
        if spot is None:
            free, epoch = FreeCores(network.chip.grid), epoch + 1
            spot = free.take_first(grid.r, grid.c, transpose)
            assert spot is not None  # no model is larger than the chip
        epochs.append(epoch)
        spots.append(spot)
    return Choice(np.array(model, np.int64), np.array(epochs, np.int64), tuple(spots), frozenset(cuts))


def judge(policy: str, loads: Loads, choice: Choice, buffering: Buffering | None = None) -> Balanced:
    """The cost of a choice, with larger buffers where a fork and its join would block each other. Raises
    PlanError for a deadlock that the remedies in ``buffering`` do not remove."""
    network = loads.network
    resident = np.array(
        [
            choice.epoch[p] == choice.epoch[c] and e not in choice.cuts
            for e, (p, c, _) in enumerate(network.edges)
        ],
        bool,
    )
    extra, queued = settle_forks(network, choice.model, resident, buffering or Buffering())
    resident[list(queued)] = False
    limiter, epoch_cycles = epoch_times(loads, choice, resident)
    return Balanced(policy, network, choice, resident, limiter, epoch_cycles, extra, queued)


def epoch_times(loads: Loads, choice: Choice, resident: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair (limiter of each op, cycles of each epoch)."""
    network = loads.network
    count = int(choice.epoch.max()) + 1 if len(choice.epoch) else 0
    touching = np.zeros(count, np.int64)
    found = []
    for op, m in enumerate(choice.model.tolist()):
        load = loads.of(op, resident.__getitem__)
        cores = int(network.columns[op].cores[m])
        touching[choice.epoch[op]] += cores * load.touches
        found.append((load.base[m], load.dram[m]))
    fork = np.array([loads.rates.fork(n) for n in touching.tolist()], float)
    base, dram = np.array(found, float).reshape(-1, 2).T
    limiter = np.ceil(np.maximum(base, dram * fork[choice.epoch] / loads.rates.dram)).astype(np.int64)
    cycles = np.zeros(count, np.int64)
    np.maximum.at(cycles, choice.epoch, limiter)
    return limiter, cycles
