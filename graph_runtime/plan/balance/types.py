"""The values of the balancer: the cuts of an op onto the cores, and the result for every model that was
tried."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypedDict

from .grid import Grid, Stream
from .op import BalanceOp

LEGAL = "legal"
BALANCER_POLICIES = (
    "nlp",
    "ribbon",
    "cnn",
    "minimize_grid",
    "maximize_t_minimize_grid",
    "single_op_per_epoch",
    "random",
    "optimal",
)
# {name of a verdict: its meaning}, in the order in which the rules are applied
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


@dataclass(frozen=True, slots=True)
class BlockShape:
    """One core's part of a tensor: ``t`` macro blocks in time, one after the other; each macro block has
    ``mblock`` (m, n) ublocks of ``ublock`` (rt, ct) tiles."""

    t: int
    mblock: tuple[int, int]
    ublock: tuple[int, int]

    @property
    def tiles(self) -> int:
        """Tiles of one macro block."""
        return self.mblock[0] * self.mblock[1] * self.ublock[0] * self.ublock[1]


@dataclass(frozen=True, slots=True)
class L1Buffer:
    """An L1 buffer of one core: ``factor`` macro blocks of ``block``. ``minimized``: whether only one row of
    ublocks of a larger block is held at a time."""

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

    ``block``: the output block of one core. ``inputs``, ``outputs``, ``parameters``, ``intermediates``: L1
    buffers of the core that needs most; ``dram``: parameters that are streamed from DRAM and take no L1. The
    inner dimension has ``m_k`` x ``u_kt`` tiles. ``cycles``: cycles of one core for one input.
    """

    grid: Grid
    stream: Stream
    block: BlockShape
    m_k: int = 1
    u_kt: int = 1
    fidelity: str = "HiFi4"
    inputs: tuple[L1Buffer, ...] = ()
    outputs: tuple[L1Buffer, ...] = ()
    parameters: tuple[L1Buffer, ...] = ()
    intermediates: tuple[L1Buffer, ...] = ()
    dram: tuple[L1Buffer, ...] = ()
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
    """A tried model. ``verdict``: LEGAL or a name of REASONS; ``short``: missing bytes, 0 if memory was not
    the reason; ``variant``: whether the model has the blocks of an earlier legal model, with a smaller u_kt;
    ``retries``: number of times that Dst was halved to make it fit."""

    model: OpModel
    verdict: str
    short: int = 0
    variant: bool = False
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Overrides:
    """The user's fixed choices; None leaves the choice to the enumeration. ``stream``: (pieces of rows, of
    columns)."""

    grid: tuple[int, int] | None = None
    dirs: tuple[str, ...] | None = None
    stream: tuple[int, int] | None = None
    u_kt: int | None = None


class Counts(TypedDict):
    """Numbers of models: see Candidates.counts."""

    tried: int
    legal: int
    base_tried: int
    base_legal: int
    variants: int
    dst_retries: int
    reasons: dict[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Every model tried for one op, in the order tried. ``part``: name of the op within the node ("matmul",
    "row 0: sparse", ...); ``principal``: whether the node is judged by this op; ``budget``: bytes of L1;
    ``models``: the legal models; ``path``: path of the node in the document; ``reads``: sources of the op's
    operands, as in parts.Part."""

    nid: int
    node: str
    part: str
    op: BalanceOp
    tried: tuple[Candidate, ...]
    principal: bool
    budget: int
    models: tuple[OpModel, ...]
    path: str | None = None
    reads: tuple[int | None, ...] = ()

    @property
    def counts(self) -> Counts:
        """Numbers of models: ``tried`` and ``legal`` count u_kt variants, ``base_tried`` and ``base_legal``
        do not; ``reasons``: {rule: number of models that broke it}."""
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
        """The candidate that lacks the fewest bytes (of equal candidates the first); None if no candidate
        lacked memory."""
        return min((c for c in self.tried if c.short), key=lambda c: c.short, default=None)
