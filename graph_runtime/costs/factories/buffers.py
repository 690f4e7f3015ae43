"""Circular buffers, the programs that have them, and what an operation takes of a core while it runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ...base.dtypes import FORMATS
from ...base.machine.layout import DRAM, L1, TILE, TILE_DIM

__all__ = [
    "BF16",
    "F32",
    "CardOperand",
    "CardProgram",
    "CardStage",
    "CircularBuffer",
    "HeldTensor",
    "ceil_div",
    "peak",
    "round_up",
    "tile_bytes",
    "tiles",
]

BF16, F32 = "bf16", "f32"


def ceil_div(size: int, by: int) -> int:
    return -(-size // by)


def round_up(size: int, by: int) -> int:
    """A multiple of ``by``, not below."""
    return ceil_div(size, by) * by


def tile_bytes(format: str) -> int:
    """Bytes of a tile of a data format."""
    return FORMATS[format].tile_bytes


def tiles(size: int) -> int:
    """How many tiles cover so many elements."""
    return ceil_div(size, TILE_DIM)


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """``pages`` pages of ``page_bytes`` bytes on each core of its program. ``borrowed``: it is a view of a
    tensor's memory, and takes none of its own."""

    name: str
    pages: int
    page_bytes: int
    borrowed: bool = False

    @property
    def nbytes(self) -> int:
        """What it takes of a core beside tensors."""
        return 0 if self.borrowed else self.pages * self.page_bytes


@dataclass(frozen=True, slots=True)
class CardProgram:
    """``name`` of the factory; its circular buffers. ``cores``: on how many, 0: on all of the device."""

    name: str
    buffers: tuple[CircularBuffer, ...]
    cores: int = 0

    @classmethod
    def of(cls, name: str, buffers: Iterable[CircularBuffer], cores: int = 0) -> CardProgram:
        """One with those of the buffers that have pages."""
        return cls(name, tuple(buffer for buffer in buffers if buffer.pages), cores)

    @property
    def nbytes(self) -> int:
        """Bytes of circular buffers on a core."""
        return sum(buffer.nbytes for buffer in self.buffers)


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor in L1 that an operation makes for itself: ``nbytes`` of each core that it lies on."""

    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class CardStage:
    """A program of an operation that has several. ``held``: tensors of the operation's own that lie in L1
    while it runs. ``frees``: whether the operation's first operand has been freed before. ``last``: whether
    the result lies there already."""

    program: CardProgram
    held: tuple[HeldTensor, ...] = ()
    frees: bool = False
    last: bool = True

    @property
    def nbytes(self) -> int:
        """Circular buffers and the operation's own tensors, bytes of a core."""
        return self.program.nbytes + sum(held.nbytes for held in self.held)


def peak(stages: Iterable[CardStage], tensors: int, first: int, result: int) -> tuple[int, CardStage | None]:
    """(the most bytes that a core holds while an operation runs, the stage of that; None: it has none).
    ``tensors``: what lies on the core before it, ``first`` of them its first operand's, and ``result``: what
    its result adds."""
    worst, found = tensors + result, None
    for stage in stages:
        taken = tensors + stage.nbytes + stage.last * result - stage.frees * first
        if found is None or taken > worst:
            worst, found = taken, stage
    return worst, found


@dataclass(frozen=True, slots=True)
class CardOperand:
    """A tensor as a factory sees it: ``shape``, ``format`` (a name of base.dtypes.FORMATS), ``layout`` and
    ``memory`` of base.machine.layout. ``scheme``: "" interleaved, or "height", "width", "block", cut into
    shards of ``shard`` (rows, columns) elements on ``cores`` (down, across) cores, or on ``count`` cores."""

    shape: tuple[int, ...]
    format: str = BF16
    layout: str = TILE
    memory: str = DRAM
    scheme: str = ""
    shard: tuple[int, int] = (0, 0)
    cores: tuple[int, int] = (0, 0)
    turned: bool = False  # shards go down the columns of cores first

    @property
    def sharded(self) -> bool:
        return bool(self.scheme)

    @property
    def tile(self) -> int:
        """Bytes of a tile."""
        return tile_bytes(self.format)

    @property
    def element(self) -> int:
        """Bytes of an element; of a block format, which has none alone, those of bf16."""
        return FORMATS[self.format].itemsize or 2

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of tiles, all dimensions before the last two in the rows."""
        rows, cols = (1, 1, *self.shape)[-2:]
        return math.prod(self.shape[:-2]) * tiles(rows), tiles(cols)

    @property
    def batch(self) -> int:
        """The product of the dimensions before the last two."""
        return math.prod(self.shape[:-2])

    @property
    def shard_tiles(self) -> int:
        """Tiles of a shard."""
        return ceil_div(self.shard[0] * self.shard[1], TILE_DIM * TILE_DIM)

    @property
    def on_l1(self) -> bool:
        return self.memory == L1

    @property
    def page(self) -> int:
        """Bytes of a page: a tile, or a row's part."""
        if self.layout == TILE:
            return self.tile
        width = self.shard[1] if self.sharded else (self.shape[-1] if self.shape else 1)
        return width * self.element
