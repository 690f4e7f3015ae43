"""What a policy decides, and what that comes to: epochs one after the other, ops of an epoch side by side.

An epoch's ops form a pipeline over inputs, so for each input it takes as long as its slowest op; the chip
then takes up the next epoch. What crosses epochs waits in DRAM.
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

__all__ = ["Balanced", "Choice", "judge", "pack"]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Of each op: index of its model and epoch, int64 [ops], and its cores; ``cuts``: edges that go through
    DRAM though both sides are in one epoch."""

    model: np.ndarray
    epoch: np.ndarray
    spots: tuple[Spot, ...]
    cuts: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Balanced:
    """A choice, judged. ``resident`` bool [edges]: data goes from core to core; ``limiter`` int64 [ops]:
    cycles for one input; ``epoch_cycles`` int64 [epochs]: of the slowest; ``extra`` int64 [ops]: bytes of L1
    added on each core against deadlock; ``queued``: edges that go through DRAM for the same reason."""

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
        """Cycles for one input, of all epochs after each other."""
        return int(self.epoch_cycles.sum())

    def model(self, op: int) -> OpModel:
        return self.network.columns[op].models[self.choice.model[op]]

    @property
    def utilisation(self) -> np.ndarray:
        """float64 [epochs]: core cycles in kernels over those of the whole grid."""
        rows, cols = self.network.chip.grid
        busy = np.zeros(len(self.epoch_cycles))
        for op, epoch in enumerate(self.choice.epoch.tolist()):
            m = self.model(op)
            busy[epoch] += m.cycles * m.cores
        return busy / np.maximum(self.epoch_cycles * rows * cols, 1)


def pack(network: Network, model: np.ndarray, cuts: Collection[int] = (), transpose: bool = True) -> Choice:
    """Epochs in schedule order: an op that finds no room begins the next one."""
    free, epoch, epochs, spots = FreeCores(network.chip.grid), 0, [], list[Spot]()
    for op, m in enumerate(model.tolist()):
        grid = network.columns[op].models[m].grid
        spot = free.take_first(grid.r, grid.c, transpose)
        if spot is None:
            free, epoch = FreeCores(network.chip.grid), epoch + 1
            spot = free.take_first(grid.r, grid.c, transpose)
            assert spot is not None  # a model is no larger than the chip
        epochs.append(epoch)
        spots.append(spot)
    return Choice(np.array(model, np.int64), np.array(epochs, np.int64), tuple(spots), frozenset(cuts))


def judge(policy: str, loads: Loads, choice: Choice, buffering: Buffering | None = None) -> Balanced:
    """What a choice comes to, with buffers added where a fork and its join would block each other.

    Raises PlanError for such a deadlock that ``buffering`` does not allow to remove.
    """
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
    """(limiter of each op, cycles of each epoch)."""
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
