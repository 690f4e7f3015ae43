"""Which model of a producer goes with which model of its consumer, where data flows from core to core.

A producer that streams makes each block once, so the consumer must want the blocks in that order, once each;
blocks of the two must fall on each other's borders; and the data movement of a core has limits. Ours are
Buda's kinds of rules (which of its exact thresholds apply to which address pattern is not published); an edge
that is cut, into a queue in DRAM, has none of them.
"""

from __future__ import annotations

import numpy as np

from .network import Columns
from .op import BalanceOp

__all__ = ["EDGE_REASONS", "MOST_FORKS", "MOST_PHASES", "pair_verdicts"]

# Codes of verdicts, 0 legal; the first rule that is broken counts.
EDGE_REASONS = (
    "legal",
    "BlocksNotReblockable",
    "StreamingOrderMismatch",
    "TooManyPhases",
    "TooManyForkStreams",
)
_PHASE_BYTES, _OVERLAY_BYTES = 38, 65_536
MOST_PHASES = _OVERLAY_BYTES // _PHASE_BYTES // 2  # of a core's overlay program, 38 bytes an entry, half
MOST_FORKS = 16  # streams that leave one core


def pair_verdicts(made: Columns, read: Columns, consumer: BalanceOp, port: int, users: int) -> np.ndarray:
    """int8 [models of the producer, models of the consumer]: index into EDGE_REASONS. ``users``: how many
    ops read the producer's result."""
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
    """Pieces of rows and columns, and streaming, of one side of an edge, shaped to broadcast producers (down)
    against consumers (across). ``None`` pieces: the consumer takes them in any order."""

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
        """As the consumer sees it: a transpose on the way turns rows into columns."""
        if any(tm.kind == "transpose" for tm in consumer.operands[port].tms):
            return cls(m.par_c, m.par_r, m.pieces, ~m.by_rows, m.grid_c, m.grid_r, False, True)
        return cls(m.par_r, m.par_c, m.pieces, m.by_rows, m.grid_r, m.grid_c, False, True)

    @classmethod
    def read(cls, m: Columns, consumer: BalanceOp, port: int) -> _Side:
        """What it wants of this operand: a matmul cuts K, the columns of its left and rows of its right
        operand, in m_k."""
        par_r: np.ndarray | None = m.par_r
        par_c: np.ndarray | None = m.par_c
        grid_r, grid_c = m.grid_r, m.grid_c
        one = np.ones_like(m.par_r)
        shape = consumer.operands[port].source_shape
        if consumer.kind == "matmul" and port == 0:
            par_c, grid_c = m.m_k, one  # sent to all cores of a row at once
        elif consumer.kind == "matmul" and port == 1:
            par_r, grid_r = m.m_k, one
        elif consumer.kind == "sparse_matmul":
            par_r, grid_r = None, one  # an index says which rows
        elif consumer.kind == "embedding":
            par_r, par_c = None, None
        elif consumer.kind == "reduce":
            par_r = m.m_k if consumer.dim == "r" else par_r
            par_c = m.m_k if consumer.dim == "c" else par_c
        if shape.rt == 1:
            par_r, grid_r = one, one  # one row goes to all its readers
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
    """Of a producer that streams. A product reads rows of its left operand and columns of its right one in
    order, once, if it streams that way or not at all; others want what they make, in the same order."""
    streams, reads = p.pieces > 1, c.pieces > 1
    if consumer.kind in ("embedding",):
        return np.broadcast_to(streams, np.broadcast_shapes(streams.shape, reads.shape))
    if consumer.kind in ("matmul", "sparse_matmul"):
        wanted = port != 1  # by rows
        return streams & ((p.by_rows != wanted) | (reads & (c.by_rows != wanted)))
    whole = ~reads & (p.by_rows | c.one_row)
    same = reads & (p.by_rows == c.by_rows) & ((p.pieces % c.pieces == 0) | (c.pieces % p.pieces == 0))
    return streams & ~(whole | same)


def _phases(p: _Side, c: _Side) -> np.ndarray:
    """Pieces that a core of the consumer takes in for one input: for each of its blocks, those of the
    producer's that it is made of."""
    gathered = np.ones(np.broadcast_shapes(p.pieces.shape, c.pieces.shape), np.int64)
    for made, read in ((p.par_r, c.par_r), (p.par_c, c.par_c)):
        assert made is not None  # only a reader takes pieces in any order
        gathered = gathered * (made if read is None else np.maximum(made // read, 1))
    return gathered * np.maximum(c.pieces // p.pieces, 1)


def _streams(p: _Side, c: _Side) -> np.ndarray:
    """Streams that leave a core of the producer: one to each core, or row or column of cores, that shares its
    part."""
    return np.maximum(c.grid_r // p.grid_r, 1) * np.maximum(c.grid_c // p.grid_c, 1)
