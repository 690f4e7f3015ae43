"""What an op asks of the balancer: its shapes in tiles, where its operands come from, and how its result is
read.

Shapes are counted in tiles of 32x32; rows (r) and columns (c) of cores as the chip has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .sparse import Encoding

__all__ = ["DIRECTIONS", "BalanceOp", "Operand", "Tiles", "Tm", "User"]

DIRECTIONS = ("R", "C", "RZ", "CZ")


class Tiles(NamedTuple):
    """A tensor's shape in tiles: depth, rows, columns."""

    z: int
    rt: int
    ct: int


class Tm(NamedTuple):
    """A tensor manipulation on an edge: done by the reader's address pattern, no core works for it.

    ``kind``: "vslice", "hslice", "vstack", "hstack" (``r`` = factor), "transpose", "broadcast" (``dim`` "r",
    "c" or "z", ``r`` = factor), "pad", "unpad" (``r`` and ``c`` tiles).
    """

    kind: str
    r: int = 1
    c: int = 0
    dim: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """One input: ``shape`` as the op reads it (after ``tms``), ``source_shape`` as its producer made it.

    ``source``: "op" (resident at the same time), "queue" (in DRAM), "parameter" or "constant". ``sparse``:
    made by a sparse matmul.
    """

    shape: Tiles
    source_shape: Tiles
    format: str
    source: str = "queue"
    tms: tuple[Tm, ...] = ()
    sparse: bool = False

    @property
    def fixed(self) -> bool:
        """Whether its values are the same for every input: a weight."""
        return self.source in ("parameter", "constant")


@dataclass(frozen=True, slots=True)
class User:
    """One reader of the result. ``kind``: "op", "output" (of the graph) or "loopback" (written into an
    input)."""

    kind: str = "op"
    tms: tuple[Tm, ...] = ()
    padding_nop: bool = False


@dataclass(frozen=True, slots=True)
class BalanceOp:
    """An op as the balancer sees it: everything that decides which models are legal, and nothing more.

    ``kind``: "matmul", "sparse_matmul", "depthwise", "eltwise", "reduce", "splice" or "embedding".
    ``cycles_op``: its name in graph_runtime.costs. ``out``: the result in tiles. ``k``: inner dimension of a
    matmul, reduced tiles of a reduce. ``dst_bits``: 16 or 32, of an element in Dst. ``dim``: of a reduce,
    "r", "c" or "z". ``encoding``: of a sparse matmul, its nonzero tiles (sparse.Encoding).
    """

    kind: str
    cycles_op: str
    out: Tiles
    operands: tuple[Operand, ...]
    users: tuple[User, ...]
    format: str
    k: int = 1
    dst_bits: int = 16
    fidelity: str = "HiFi4"
    dim: str = ""
    ublock_order: str = "R"
    gradient: bool = False
    approx: bool = False
    splice_edges: tuple[int, ...] = ()
    encoding: Encoding | None = None

    @property
    def is_matmul(self) -> bool:
        return self.kind in ("matmul", "sparse_matmul", "depthwise")
