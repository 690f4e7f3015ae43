"""The description of an op for the balancer: its shapes in tiles, the sources of its operands, and the
readers of its result.

Shapes are counted in tiles of 32x32 elements. Rows (r) and columns (c) of cores are rows and columns of the
chip's grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .sparse import Encoding

DIRECTIONS = ("R", "C", "RZ", "CZ")


class Tiles(NamedTuple):
    """A tensor's shape in tiles: depth, rows, columns."""

    z: int
    rt: int
    ct: int


class Tm(NamedTuple):
    """A tensor manipulation on an edge: the reader's address pattern does the work, no core does.

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
    ``source``: "op" (made by an op that may be resident at the same time), "queue" (in DRAM), "parameter" or
    "constant". ``sparse``: made by a sparse matmul."""

    shape: Tiles
    source_shape: Tiles
    format: str
    source: str = "queue"
    tms: tuple[Tm, ...] = ()
    sparse: bool = False

    @property
    def fixed(self) -> bool:
        """Whether the operand has the same values for every input, as a weight has."""
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
    """An op as the balancer sees it: only what decides which models are legal.

    ``kind``: "matmul", "sparse_matmul", "depthwise", "eltwise", "reduce", "splice" or "embedding".
    ``cycles_op``: the op's name in graph_runtime.costs. ``out``: the result's shape in tiles. ``k``: tiles of
    the inner dimension of a matmul, or of the dimension that a reduce reduces. ``dst_bits``: bits of an
    element in Dst, 16 or 32. ``dim``: the dimension of a reduce, "r", "c" or "z". ``encoding``: the nonzero
    tiles of a sparse matmul (sparse.Encoding).
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
