"""The policy `optimal`: fewest cycles for one input over all epochs.

Small graphs are solved exactly, over all ways to cut the schedule into epochs. Larger ones by dynamic
programming over epochs that a search offers, which is never worse than any other policy, as their answers are
looked at, too.
"""

from __future__ import annotations

import numpy as np

from .epochs import Balanced, Choice, judge
from .exact import Epoch, best_epoch, require_library
from .forks import Buffering
from .limits import Loads
from .picks import SIMPLE
from .ribbon import ribbon
from .search import best_chain
from .solver import GraphSolver

__all__ = ["MOST_EXACT", "exact_chain", "optimal"]

MOST_EXACT = 6  # ops of a graph that is solved exactly


def optimal(loads: Loads, seed: int, buffering: Buffering) -> Balanced:
    """Raises PlanError where a small graph is to be solved and scipy is not installed."""
    small = len(loads.network.ops) <= MOST_EXACT
    if small:
        require_library()
    solver = GraphSolver(loads.network)
    pairs = [solver.pairs(e) for e in range(len(loads.network.edges))]
    choices = [rule(loads, seed) for rule in SIMPLE.values()]
    choices += [ribbon(loads, seed), best_chain(loads, pairs)]
    found = [judge("optimal", loads, choice, buffering) for choice in choices]
    best = min(found, key=lambda b: b.total)
    if small:
        exact = exact_chain(loads, solver, best.total + 1)
        if exact is not None:
            best = min(best, judge("optimal", loads, exact, buffering), key=lambda b: b.total)
    return best


def exact_chain(loads: Loads, solver: GraphSolver, below: float) -> Choice | None:
    """The cheapest way to cut the schedule into epochs, each the best that there is; None if none takes less
    than ``below`` cycles."""
    count = len(loads.network.ops)
    cost = np.full(count + 1, float(below))
    cost[0] = 0.0
    last: list[tuple[int, Epoch] | None] = [None] * (count + 1)
    for end in range(1, count + 1):
        for first in range(end - 1, -1, -1):
            if first and last[first] is None:
                continue
            epoch = best_epoch(loads, solver, first, end, cost[end] - cost[first])
            if epoch is not None:
                cost[end], last[end] = cost[first] + epoch.cycles, (first, epoch)
    if last[count] is None:
        return None
    epochs: list[Epoch] = []
    at = count
    while (step := last[at]) is not None:  # last[0] is None
        at, epoch = step
        epochs.append(epoch)
    epochs.reverse()
    return Choice(
        np.array([m for e in epochs for m in e.models], np.int64),
        np.repeat(np.arange(len(epochs)), [len(e.models) for e in epochs]),
        tuple(s for e in epochs for s in e.spots),
    )
