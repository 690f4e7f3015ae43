"""Circular buffers, the card programs that own them, and the L1 of a core that an operation takes while it
runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ...base.dtypes import FORMATS
from ...base.machine.layout import DRAM, L1, TILE, TILE_DIM

BF16, F32, BFP8, BFP4 = "bf16", "f32", "bfp8_b", "bfp4_b"
BLOCKS = (BFP8, BFP4)


def ceil_div(size: int, by: int) -> int:
    return -(-size // by)


def round_up(size: int, by: int) -> int:
    """The least multiple of ``by`` that is not below ``size``."""
    return ceil_div(size, by) * by


def tile_bytes(format: str) -> int:
    """Bytes of a tile of a data format."""
    return FORMATS[format].tile_bytes


def tiles(size: int) -> int:
    """Number of tiles that cover ``size`` elements along a dimension."""
    return ceil_div(size, TILE_DIM)


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """A circular buffer: ``pages`` pages of ``page_bytes`` bytes on each core of its card program.
    ``borrowed``: whether the buffer is a view of a tensor's memory, so that it takes no memory of its own."""

    name: str
    pages: int
    page_bytes: int
    borrowed: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of a core's L1 that the buffer takes in addition to tensors."""
        return 0 if self.borrowed else self.pages * self.page_bytes


@dataclass(frozen=True, slots=True)
class CardProgram:
    """A card program and its circular buffers. ``name``: name of its factory. ``cores``: number of cores that
    it uses; 0: all cores of the device."""

    name: str
    buffers: tuple[CircularBuffer, ...]
    cores: int = 0

    @classmethod
    def of(cls, name: str, buffers: Iterable[CircularBuffer], cores: int = 0) -> CardProgram:
        """A card program with those of the given buffers that have at least one page."""
        return cls(name, tuple(buffer for buffer in buffers if buffer.pages), cores)

    @property
    def nbytes(self) -> int:
        """Bytes of the card program's circular buffers on a core."""
        return sum(buffer.nbytes for buffer in self.buffers)


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor in L1 that an operation makes for itself. ``nbytes``: its bytes on each core that holds it."""

    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class CardStage:
    """One of several card programs of an operation. ``held``: the operation's own tensors that are in L1
    while the card program runs. ``frees``: whether the operation's first operand was freed before this stage.
    ``last``: whether the result is already in L1."""

    program: CardProgram
    held: tuple[HeldTensor, ...] = ()
    frees: bool = False
    last: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes of a core that circular buffers and the operation's own tensors take."""
        return self.program.nbytes + sum(held.nbytes for held in self.held)


def peak(stages: Iterable[CardStage], tensors: int, first: int, result: int) -> tuple[int, CardStage | None]:
    """(the most bytes that a core holds while an operation runs, the stage at which it holds them or None if
    there are no stages). ``tensors``: bytes of tensors on the core before the operation, of which ``first``
    belong to its first operand. ``result``: bytes that the operation's result adds."""
    worst, found = tensors + result, None
    for stage in stages:
        taken = tensors + stage.nbytes + stage.last * result - stage.frees * first
        if found is None or taken > worst:
            worst, found = taken, stage
    return worst, found


@dataclass(frozen=True, slots=True)
class CardOperand:
    """A tensor as a factory sees it: ``shape``, ``format`` (a name of base.dtypes.FORMATS), ``layout`` and
    ``memory`` (of base.machine.layout). ``scheme``: "" for an interleaved tensor; "height", "width" or
    "block" for a tensor cut into shards of ``shard`` (rows, columns) elements, on ``cores`` (down, across)
    cores."""

    shape: tuple[int, ...]
    format: str = BF16
    layout: str = TILE
    memory: str = DRAM
    scheme: str = ""
    shard: tuple[int, int] = (0, 0)
    cores: tuple[int, int] = (0, 0)
    turned: bool = False  # whether shards fill a column of cores before the next column

    @property
    def sharded(self) -> bool:
        return bool(self.scheme)

    @property
    def tile(self) -> int:
        """Bytes of a tile."""
        return tile_bytes(self.format)

    @property
    def element(self) -> int:
        """Bytes of an element; for a block format, whose elements have no size of their own, the bytes of a
        bf16 element."""
        return FORMATS[self.format].itemsize or 2

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of tiles, with all dimensions before the last two counted as rows."""
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
        """Bytes of a page, which is a tile, or the part of a row in a shard."""
        if self.layout == TILE:
            return self.tile
        width = self.shard[1] if self.sharded else (self.shape[-1] if self.shape else 1)
        return width * self.element
