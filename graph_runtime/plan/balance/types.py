"""The values of the balancer: what an op asks for, how one model would cut it onto the cores, and what came
of every model that was tried.

Shapes are counted in tiles of 32x32 unless a name says otherwise; rows (r) and columns (c) of cores as the
chip has them.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "DIRECTIONS",
    "LEGAL",
    "POLICIES",
    "REASONS",
    "BalanceOp",
    "BlockShape",
    "Buffer",
    "Candidate",
    "Candidates",
    "Grid",
    "OpModel",
    "Operand",
    "Overrides",
    "Stream",
    "Tiles",
    "Tm",
    "User",
]

DIRECTIONS = ("R", "C", "RZ", "CZ")
LEGAL = "legal"
POLICIES = ("nlp", "ribbon", "cnn", "minimize_grid", "maximize_t_minimize_grid", "single_op_per_epoch",
            "random", "optimal")
# Names of verdicts, in the order in which the rules are met, and what each means.
REASONS = {
    "IllegalStackForGrid": "the stack factor of an operand and the grid do not divide each other",
    "OperandAccessPreventsStreaming": "an operand is not read in the order in which blocks are streamed",
    "UserAccessPreventsStreaming": "a user does not read the result in the order in which it is streamed",
    "OperandAndUserAccessPreventsStreaming": "neither operands nor users allow blocks to be streamed",
    "IllegalStreaming": "the order of ublocks does not allow to stream in this direction",
    "PaddingConstraintsNotSatisfied": "padding fills a whole macro block",
    "InputBufferAllocationFailure": "the output leaves no L1 for any input buffer",
    "L1UsageOverMaxLimit": "the smallest input buffers do not fit beside the output",
    "ExceededDramChannelCapacity": "a parameter streamed from DRAM is larger than one channel",
    "IllegalSparseMatmul": "tile pointer, u_rt and u_kt of the sparse encoding need more than 16 bits",
}


class Tiles(NamedTuple):
    """A tensor's shape in tiles: depth, rows, columns."""

    z: int
    rt: int
    ct: int


class Grid(NamedTuple):
    """Cores: rows, columns."""

    r: int
    c: int


class Stream(NamedTuple):
    """Blocks streamed in time: direction (one of DIRECTIONS), pieces of the rows, pieces of the columns."""

    dir: str
    r: int
    c: int

    @property
    def count(self) -> int:
        return self.r * self.c

    @property
    def by_rows(self) -> bool:
        return self.dir[0] == "R"

    @property
    def z_major(self) -> bool:
        return self.dir.endswith("Z")


class Tm(NamedTuple):
    """A tensor manipulation on an edge: done by the reader's address pattern, no core works for it.

    ``kind``: "vslice", "hslice", "vstack", "hstack" (``r`` = factor), "transpose", "broadcast" (``dim`` "r",
    "c" or "z", ``r`` = factor), "pad", "unpad" (``r`` and ``c`` tiles).
    """

    kind: str
    r: int = 1
    c: int = 1
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
    encoding: object = None

    @property
    def is_matmul(self) -> bool:
        return self.kind in ("matmul", "sparse_matmul", "depthwise")


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What one core holds or makes of a tensor: ``t`` macro blocks one after the other, each ``mblock``
    (m, n) ublocks of ``ublock`` (rt, ct) tiles."""

    t: int
    mblock: tuple[int, int]
    ublock: tuple[int, int]

    @property
    def tiles(self) -> int:
        """Tiles of one macro block."""
        return self.mblock[0] * self.mblock[1] * self.ublock[0] * self.ublock[1]


@dataclass(frozen=True, slots=True)
class Buffer:
    """An L1 buffer of one core: ``factor`` macro blocks of ``block``. ``minimized``: one row of ublocks of a
    larger block is held at a time."""

    operand: int
    block: BlockShape
    factor: int
    format: str
    tile_bytes: int
    minimized: bool = False

    @property
    def tiles(self) -> int:
        return self.factor * self.block.tiles

    @property
    def bytes(self) -> int:
        return self.tiles * self.tile_bytes

    @property
    def streamed_bytes(self) -> int:
        """Bytes of all ``t`` blocks."""
        return self.bytes * self.block.t


@dataclass(frozen=True, slots=True)
class OpModel:
    """One way to cut an op onto the cores, legal or not: see ``Candidate.verdict``.

    ``block``: the output's block of one core. ``inputs``, ``outputs``, ``parameters``, ``intermediates``: L1
    buffers of the worst core; ``dram``: parameters that are streamed from DRAM, and take no L1. ``m_k`` x
    ``u_kt`` tiles of the inner dimension. ``cycles``: of one core for one input.
    """

    grid: Grid
    stream: Stream
    block: BlockShape
    m_k: int = 1
    u_kt: int = 1
    fidelity: str = "HiFi4"
    inputs: tuple[Buffer, ...] = ()
    outputs: tuple[Buffer, ...] = ()
    parameters: tuple[Buffer, ...] = ()
    intermediates: tuple[Buffer, ...] = ()
    dram: tuple[Buffer, ...] = ()
    overlay_bytes: int = 0
    l1_bytes: int = 0
    cycles: int = 0

    @property
    def cores(self) -> int:
        return self.grid.r * self.grid.c

    @property
    def t(self) -> int:
        return self.block.t

    @property
    def dir(self) -> str:
        return self.stream.dir

    @property
    def mblock(self) -> tuple[int, int]:
        return self.block.mblock

    @property
    def ublock(self) -> tuple[int, int]:
        return self.block.ublock


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that was tried. ``verdict``: LEGAL or a name of REASONS; ``short``: bytes that it lacked, 0
    where memory was not the reason; ``variant``: the same blocks as a legal model before it, smaller u_kt;
    ``retries``: how often Dst was halved to make it fit."""

    model: OpModel
    verdict: str
    short: int = 0
    variant: bool = False
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the user fixed; None leaves it to the enumeration. ``stream`` is (pieces of rows, of columns)."""

    grid: tuple[int, int] | None = None
    dirs: tuple[str, ...] | None = None
    stream: tuple[int, int] | None = None
    u_kt: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Every model that was tried for one op, in the order tried. ``part``: which op of the node this is
    ("matmul", "row 0: sparse", ...); ``principal``: the one that the node is judged by; ``budget``: bytes of
    L1; ``models``: the legal ones; ``path``: where the document has the node."""

    nid: int
    node: str
    part: str
    op: BalanceOp
    tried: tuple[Candidate, ...]
    principal: bool
    budget: int
    models: tuple[OpModel, ...]
    path: str | None = None

    @property
    def counts(self) -> dict[str, object]:
        """``tried``: models built, u_kt variants too; ``legal``: those that are legal; ``base_tried`` and
        ``base_legal``: the same without the variants; ``reasons``: how many fell to each rule."""
        base = [c for c in self.tried if not c.variant]
        reasons = Counter(c.verdict for c in self.tried if c.verdict != LEGAL)
        return {
            "tried": len(self.tried),
            "legal": len(self.models),
            "base_tried": len(base),
            "base_legal": sum(c.verdict == LEGAL for c in base),
            "variants": len(self.tried) - len(base),
            "dst_retries": sum(c.retries for c in self.tried),
            "reasons": {name: reasons[name] for name in REASONS if reasons[name]},
        }

    @property
    def closest_miss(self) -> Candidate | None:
        """The candidate that lacks fewest bytes, the first of equals; None where memory was no reason."""
        return min((c for c in self.tried if c.short), key=lambda c: c.short, default=None)
