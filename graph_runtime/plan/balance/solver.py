"""The graph solver: the models of each op that are still possible, kept consistent along every edge.

A model without a partner on one of its op's edges can be in no solution and is dropped. The models of the
neighbouring ops are then examined again, until nothing changes (arc consistency). If an op has no model left,
the edge that dropped the last one is cut: its data goes through a queue in DRAM, and the edge has no
constraint any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...base.errors import InputError, PlanError
from .network import Columns, Network
from .op import BalanceOp

# Verdicts of pairs, by code; 0 is legal. The code of a pair names the first rule that the pair breaks.
EDGE_REASONS = (
    "legal",
    "BlocksNotReblockable",
    "StreamingOrderMismatch",
    "TooManyPhases",
    "TooManyForkStreams",
)
_PHASE_BYTES, _OVERLAY_BYTES = 38, 65_536
MOST_PHASES = _OVERLAY_BYTES // _PHASE_BYTES // 2  # half of a core's overlay code, with 38 bytes per phase
MOST_FORKS = 16  # most streams that leave one core


def pair_verdicts(made: Columns, read: Columns, consumer: BalanceOp, port: int, users: int) -> np.ndarray:
    """int8 [models of the producer, models of the consumer]: index into EDGE_REASONS of each pair of models.
    ``users``: number of ops that read the producer's result.

    There are three kinds of rules. A producer that streams makes each block once, so the consumer must read
    each block once, in the same order. The borders of the producer's blocks must fall on those of the
    consumer's blocks, or the other way round. The data movement of a core has limits. Buda has the same kinds
    of rules (its exact thresholds for each address pattern are not published). No rule holds for an edge that
    is cut, because its data goes through a queue in DRAM.
    """
    p, c = _Side.made(made, consumer, port), _Side.read(read, consumer, port)
    verdict = np.zeros((len(made), len(read)), np.int8)
    broken = (
        _off_borders(p, c),
        _out_of_order(p, c, consumer, port, read),
        _phases(p, c) > MOST_PHASES,
        _streams(p, c) + users - 1 > MOST_FORKS,
    )
    for code, bad in reversed(list(enumerate(broken, 1))):
        verdict[bad] = code
    return verdict


class _Side:
    """One side of an edge: pieces of rows and columns, and streaming. The arrays are shaped so that producers
    (down) broadcast against consumers (across). Pieces that are None: the consumer takes the data in any
    order."""

    def __init__(
        self,
        par_r: np.ndarray | None,
        par_c: np.ndarray | None,
        pieces: np.ndarray,
        by_rows: np.ndarray,
        grid_r: np.ndarray,
        grid_c: np.ndarray,
        one_row: np.ndarray | bool,
        down: bool,
    ):
        def shaped(a: np.ndarray) -> np.ndarray:
            return a[:, None] if down else a[None, :]

        self.par_r = None if par_r is None else shaped(par_r)
        self.par_c = None if par_c is None else shaped(par_c)
        self.pieces = shaped(pieces)
        self.by_rows, self.grid_r, self.grid_c = shaped(by_rows), shaped(grid_r), shaped(grid_c)
        self.one_row = one_row if isinstance(one_row, bool) else shaped(one_row)

    @classmethod
    def made(cls, m: Columns, consumer: BalanceOp, port: int) -> _Side:
        """The producer's side as the consumer sees it: a transpose on the way turns rows into columns."""
        if any(tm.kind == "transpose" for tm in consumer.operands[port].tms):
            return cls(m.par_c, m.par_r, m.pieces, ~m.by_rows, m.grid_c, m.grid_r, False, True)
        return cls(m.par_r, m.par_c, m.pieces, m.by_rows, m.grid_r, m.grid_c, False, True)

    @classmethod
    def read(cls, m: Columns, consumer: BalanceOp, port: int) -> _Side:
        """The consumer's side for this operand. A matmul cuts K (the columns of its left and the rows of its
        right operand) into m_k pieces."""
        par_r: np.ndarray | None = m.par_r
        par_c: np.ndarray | None = m.par_c
        grid_r, grid_c = m.grid_r, m.grid_c
        one = np.ones_like(m.par_r)
        shape = consumer.operands[port].source_shape
        if consumer.kind == "matmul" and port == 0:
            par_c, grid_c = m.m_k, one  # the operand is sent to all cores of a row at once
        elif consumer.kind == "matmul" and port == 1:
            par_r, grid_r = m.m_k, one
        elif consumer.kind == "sparse_matmul":
            par_r, grid_r = None, one  # an index says which rows are read
        elif consumer.kind == "embedding":
            par_r, par_c = None, None
        elif consumer.kind == "reduce":
            par_r = m.m_k if consumer.dim == "r" else par_r
            par_c = m.m_k if consumer.dim == "c" else par_c
        if shape.rt == 1:
            par_r, grid_r = one, one  # there is only one row, and it goes to all readers
        if shape.ct == 1:
            par_c, grid_c = one, one
        return cls(par_r, par_c, m.pieces, m.by_rows, grid_r, grid_c, m.mblock_m == 1, False)


def _off_borders(p: _Side, c: _Side) -> np.ndarray:
    bad = np.zeros(np.broadcast_shapes(p.pieces.shape, c.pieces.shape), bool)
    for made, read in ((p.par_r, c.par_r), (p.par_c, c.par_c)):
        if read is not None:
            bad |= (made % read != 0) & (read % made != 0)
    return bad


def _out_of_order(p: _Side, c: _Side, consumer: BalanceOp, port: int, read: Columns) -> np.ndarray:
    """bool [producer's models, consumer's models]: pairs whose streaming producer makes blocks in another
    order than the consumer reads. A product reads the rows of its left operand (the columns of its right one)
    once and in order, if it streams by rows (by columns) or not at all. Other ops read blocks in the order of
    their results."""
    streams, reads = p.pieces > 1, c.pieces > 1
    if consumer.kind in ("embedding",):
        return np.broadcast_to(streams, np.broadcast_shapes(streams.shape, reads.shape))
    if consumer.kind in ("matmul", "sparse_matmul"):
        wanted = port != 1  # whether the product reads this operand by rows
        return streams & ((p.by_rows != wanted) | (reads & (c.by_rows != wanted)))
    whole = ~reads & (p.by_rows | c.one_row)
    same = reads & (p.by_rows == c.by_rows) & ((p.pieces % c.pieces == 0) | (c.pieces % p.pieces == 0))
    return streams & ~(whole | same)


def _phases(p: _Side, c: _Side) -> np.ndarray:
    """Number of pieces that a core of the consumer takes in for one input: the producer's blocks in each of
    the consumer's blocks, summed over the consumer's blocks."""
    gathered = np.ones(np.broadcast_shapes(p.pieces.shape, c.pieces.shape), np.int64)
    for made, read in ((p.par_r, c.par_r), (p.par_c, c.par_c)):
        assert made is not None  # only a consumer takes pieces in any order
        gathered = gathered * (made if read is None else np.maximum(made // read, 1))
    return gathered * np.maximum(c.pieces // p.pieces, 1)


def _streams(p: _Side, c: _Side) -> np.ndarray:
    """Streams that leave a core of the producer: one to each core (or row or column of cores) that reads a
    part of its blocks."""
    return np.maximum(c.grid_r // p.grid_r, 1) * np.maximum(c.grid_c // p.grid_c, 1)


class GraphSolver:
    """The models still possible: ``live`` bool [models] of each op; ``cuts``: the edges whose data goes
    through DRAM. Copies are cheap."""

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

    def at(self, op: int) -> np.ndarray:
        """int64 array: indices of the models that an op may still have, ascending; never empty."""
        return np.flatnonzero(self.live[op])

    def pairs(self, edge: int) -> np.ndarray:
        """bool [producer's models, consumer's models]: the legal pairs, whether or not their models are
        live."""
        return self._pairs[edge]

    def reasons(self, edge: int) -> dict[str, int]:
        """Number of an edge's pairs that break each rule."""
        counts = Counter(self._verdicts[edge].ravel().tolist())
        return {EDGE_REASONS[code]: n for code, n in sorted(counts.items()) if code}

    def resolve(self) -> None:
        """Make all ops consistent, and cut each edge that has no pair left."""
        self.resolve_from(0)

    def resolve_from(self, first: int) -> None:
        """Make ops ``first`` and later consistent. All their models must be live again, and edges from
        earlier ops must be cut."""
        edges = [e for e, edge in enumerate(self.network.edges) if edge.producer >= first]
        self.cuts.update(e for e in edges if not self._pairs[e].any())  # no legal pair, whatever is live
        while (empty := self.propagate(edges)) is not None:
            self.cut(empty)
            self.live[first:] = [np.ones(len(c), bool) for c in self.network.columns[first:]]

    def set(self, op: int, model: int) -> None:
        """Make ``model`` the only live model of an op. If an edge would then leave a neighbour without a
        model, the edge is cut. Cuts can be needed because pairs that are consistent one by one may not be
        consistent all together.

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
        """Drop the models of an op that are not ``wanted`` (bool [models]). If that would leave some op no
        model, nothing changes and the result is False."""
        before = list(self.live)
        self.live[op] = self.live[op] & wanted
        if self.live[op].any() and self.propagate(self._around(op)) is None:
            return True
        self.live = before
        return False

    def narrow(self, edge: int, wanted: np.ndarray) -> bool:
        """Drop the pairs of an edge that are not ``wanted`` (bool [producer's models, consumer's models]);
        the result is False, as in ``keep``, if some op would have no model left."""
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
                f"edge {self.network.edge_name(edge)}: no pair of op models lets the data go from core to "
                f"core: {told}; let the edge go through DRAM, or store and cut the two "
                "ops in ways that divide each other",
                reasons=reasons,
                node=self.network.ops[self.network.edges[edge].consumer].node,
            )

    def _around(self, op: int) -> tuple[int, ...]:
        return self.network.into[op] + self.network.out_of[op]

    def propagate(self, edges: Iterable[int]) -> int | None:
        """Make ops consistent (arc consistency), beginning at ``edges``. The result is the edge that left an
        op without a model, or None if all ops keep a model. ``live`` arrays are replaced, never written to.
        """
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
    """The verdicts of each edge; edges between equal ops share an array."""
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
