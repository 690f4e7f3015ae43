"""The graph solver: which models of each op are still possible, kept consistent along every edge.

A model that has no partner on one of its op's edges can be in no solution and goes; what is left of its
neighbours is looked at again, until nothing changes (arc consistency). Where that empties an op, the edge is
cut: its data goes through a queue in DRAM, and its constraint is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...base.errors import InputError, PlanError
from .edges import EDGE_REASONS, pair_verdicts
from .network import Network

__all__ = ["GraphSolver"]


class GraphSolver:
    """``live`` bool [models] of each op; ``cuts`` the edges through DRAM. Copies are cheap."""

    cuts: set[int]

    def __init__(self, network: Network, cuts: Iterable[int] = ()):
        self.network = network
        self.cuts = set(cuts)
        self.live = [np.ones(len(c), bool) for c in network.columns]
        self._verdicts = _verdicts(network)
        self._pairs = [v == 0 for v in self._verdicts]
        self.resolve()

    def copy(self) -> GraphSolver:
        other = object.__new__(GraphSolver)
        other.network, other.cuts, other.live = self.network, set(self.cuts), list(self.live)
        other._verdicts, other._pairs = self._verdicts, self._pairs
        return other

    # **************** reading ****************

    def at(self, op: int) -> np.ndarray:
        """int64: indices of the models that an op may still have, ascending; never empty."""
        return np.flatnonzero(self.live[op])

    def pairs(self, edge: int) -> np.ndarray:
        """bool [producer's models, consumer's models]: legal pairs, as if both were alive."""
        return self._pairs[edge]

    def reasons(self, edge: int) -> dict[str, int]:
        """How many pairs of an edge fall to each rule."""
        counts = Counter(self._verdicts[edge].ravel().tolist())
        return {EDGE_REASONS[code]: n for code, n in sorted(counts.items()) if code}

    # **************** deciding ****************

    def resolve(self) -> None:
        """Make all consistent, cutting an edge wherever no pair of it is left."""
        self.resolve_from(0)

    def resolve_from(self, first: int) -> None:
        """The same for ops ``first`` and later, whose models are all alive again; edges from earlier ops must
        have been cut."""
        edges = [e for e, edge in enumerate(self.network.edges) if edge.producer >= first]
        self.cuts.update(e for e in edges if not self._pairs[e].any())  # whatever is left of its ends
        while (empty := self.propagate(edges)) is not None:
            self.cut(empty)
            self.live[first:] = [np.ones(len(c), bool) for c in self.network.columns[first:]]

    def set(self, op: int, model: int) -> None:
        """Leave one model to an op. Where that empties a neighbour, because consistent pairs need not make a
        consistent whole, the edge is cut.

        Raises InputError for a model that is not live.
        """
        if not self.live[op][model]:
            raise InputError(f"model {model} of {self.network.name(op)} is not live", got=model)
        before = list(self.live)
        while True:
            self.live = list(before)
            self.live[op] = np.zeros_like(before[op])
            self.live[op][model] = True
            empty = self.propagate(self._around(op))
            if empty is None:
                return
            self.cut(empty)

    def keep(self, op: int, wanted: np.ndarray) -> bool:
        """Drop the models that are not wanted (bool [models]); False, and nothing changed, where that would
        leave some op none."""
        before = list(self.live)
        self.live[op] = self.live[op] & wanted
        if self.live[op].any() and self.propagate(self._around(op)) is None:
            return True
        self.live = before
        return False

    def narrow(self, edge: int, wanted: np.ndarray) -> bool:
        """The same for pairs of an edge, bool [producer's models, consumer's models]."""
        before, pairs = list(self.live), self._pairs
        self._pairs = list(pairs)
        self._pairs[edge] = pairs[edge] & wanted
        if edge in self.cuts or (self._pairs[edge].any() and self.propagate([edge]) is None):
            return True
        self.live, self._pairs = before, pairs
        return False

    def cut(self, edge: int) -> None:
        """Send an edge through DRAM."""
        self.cuts.add(edge)

    def require_uncut(self) -> None:
        """Raises PlanError, with the reasons of the first edge, if some edge had to be cut."""
        for edge in sorted(self.cuts):
            reasons = self.reasons(edge)
            told = ", ".join(f"{n} {name}" for name, n in reasons.items()) or "none by itself"
            raise PlanError(
                f"edge {self.network.edge_name(edge)}: no pair of op models goes from core to "
                f"core: {told}; let it go through DRAM, or store and cut what "
                "it joins in ways that divide each other",
                reasons=reasons,
                node=self.network.ops[self.network.edges[edge].consumer].node,
            )

    def _around(self, op: int) -> tuple[int, ...]:
        return self.network.into[op] + self.network.out_of[op]

    def propagate(self, edges: Iterable[int]) -> int | None:
        """Arc consistency, from these edges on; the edge that emptied an op, None if none did. ``live``
        arrays are replaced, never written to."""
        todo = dict.fromkeys(edges)
        while todo:
            edge = next(iter(todo))
            del todo[edge]
            if edge in self.cuts:
                continue
            producer, consumer, _ = self.network.edges[edge]
            pairs, made, read = self._pairs[edge], self.live[producer], self.live[consumer]
            left = read & pairs[made].any(axis=0)
            if not left.any():
                return edge
            kept = made & pairs[:, left].any(axis=1)
            for op, now, before in ((consumer, left, read), (producer, kept, made)):
                if now.sum() != before.sum():
                    self.live[op] = now
                    todo.update(dict.fromkeys(self._around(op)))
        return None


def _verdicts(network: Network) -> list[np.ndarray]:
    """Of each edge; equal ops share them."""
    known: dict[tuple[Any, ...], np.ndarray] = {}
    found = []
    for producer, consumer, port in network.edges:
        made, read = network.columns[producer], network.columns[consumer]
        users = len(network.out_of[producer])
        key = (id(made), id(read), port, users)
        if key not in known:
            known[key] = pair_verdicts(made, read, network.ops[consumer].op, port, users)
        found.append(known[key])
    return found
