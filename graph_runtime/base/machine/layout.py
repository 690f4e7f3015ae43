"""Physical layout of a tensor: which memory, row-major or 32x32 tiles, which element format, interleaved or
sharded, and the pages that gives.

Page rules are tt-metal's (tech_reports/tensor_layouts): a row-major page is one row of the last dimension, a
tile page one 32x32 tile. Interleaved pages go round-robin over the banks. A shard's pages (of a row-major
shard: its part of each row) stand one after another in its core's bank. Each page is padded to the memory's
alignment, and has the stack's tile header before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..dtypes import FORMATS, ROWS, format_of
from ..errors import PlanError, did_you_mean
from .nd_shards import NdShard, nd_cut, nd_fault, nd_places, nd_rounds
from .shards import Shard, fault

__all__ = [
    "DRAM",
    "HOST",
    "L1",
    "ROW_MAJOR",
    "TILE",
    "Layout",
    "Memory",
    "Pages",
    "footprint",
    "host_layout",
    "matrix",
    "pages",
    "same_image",
    "shard_fault",
    "shard_words",
    "unit_bytes",
    "unit_places",
]

HOST = "host"
DRAM = "dram"
L1 = "l1"
ROW_MAJOR = "row_major"
TILE = "tile"
TILE_DIM = 32
LAYOUT_CODES = {ROW_MAJOR: 0, TILE: 1}
MEMORY_CODES = {HOST: 0, DRAM: 1, L1: 2}


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory of a device. ``bank_bytes`` is a bank's capacity with the reserved part below ``base``;
    ``alignment`` (bytes) is that of pages and allocations; ``top_down`` allocations grow from the bank's
    end. ``budget``: bytes of a bank that tensors may take, 0: all that are usable. ``tile_header`` bytes
    stand before each tile."""

    name: str
    banks: int
    bank_bytes: int
    base: int
    alignment: int
    top_down: bool = False
    budget: int = 0
    tile_header: int = 0

    @property
    def usable(self) -> int:
        """Bytes one bank can hand out."""
        return self.bank_bytes - self.base

    @property
    def available(self) -> int:
        """Bytes of one bank that a plan's tensors may take."""
        return self.budget or self.usable

    @property
    def capacity(self) -> int:
        """Bytes all banks together can hand out."""
        return self.usable * self.banks


@dataclass(frozen=True, slots=True)
class Layout:
    """memory "host" | "dram" | "l1"; layout "row_major" | "tile"; format a name of dtypes.FORMATS (or the
    dtype itself for opaque host types). ``shard``: cut over a rectangle of cores, one shard a core; ``nd``:
    cut in any other way, as only tensors that a caller places are; neither: interleaved over all banks of the
    memory."""

    memory: str
    layout: str
    format: str
    shard: Shard | None = None
    nd: NdShard | None = None

    @property
    def is_sharded(self) -> bool:
        return self.shard is not None or self.nd is not None

    def __str__(self) -> str:
        return f"{self.memory}/{self.layout}/{self.format}" + (
            f"/{self.shard or self.nd}" if self.is_sharded else ""
        )


@dataclass(frozen=True, slots=True)
class Pages:
    """count pages of nbytes payload each."""

    count: int
    nbytes: int


def host_layout(dtype: str) -> Layout:
    """How a tensor of a dtype lies in host memory: rows of its own format."""
    stored = format_of(dtype)
    return Layout(HOST, ROW_MAJOR, stored.name if stored else dtype)


def _ceil(n: int, step: int = TILE_DIM) -> int:
    return -(-n // step)


def pages(layout: Layout, shape: tuple[int, ...]) -> Pages:
    """Pages of a device tensor of a logical shape, as kernels count them. A scalar is a row of one element.

    Raises PlanError for an unknown format and for a block format that is not tiled.
    """
    fmt = FORMATS.get(layout.format)
    if fmt is None:
        raise PlanError(
            f"unknown format {layout.format!r}{did_you_mean(layout.format, FORMATS)}", got=layout.format
        )
    if layout.layout == TILE:
        rows, cols = (1, *shape)[-2:] if shape else (1, 1)
        outer = math.prod(shape[:-2])
        return Pages(outer * _ceil(rows) * _ceil(cols), fmt.tile_bytes)
    if fmt.itemsize is None:
        raise PlanError(
            f"format {layout.format} exists in tile layout only; use layout tile or format {ROWS}",
            got=str(layout),
        )
    cols = shape[-1] if shape else 1
    return Pages(math.prod(shape[:-1]), cols * fmt.itemsize)


def matrix(layout: Layout, shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of the matrix that a tensor is cut as, in elements: all dimensions but the last are
    one, after the last two were padded to whole tiles where it is tiled."""
    rows, cols = (1, 1, *shape)[-2:]
    if layout.layout == TILE:
        rows, cols = _ceil(rows) * TILE_DIM, _ceil(cols) * TILE_DIM
    return math.prod(shape[:-2]) * rows, cols


def footprint(layout: Layout, shape: tuple[int, ...], memory: Memory) -> tuple[int, int]:
    """(bytes taken in each bank, padded bytes over all banks) of a device tensor. Interleaved: ceil(pages /
    banks) pages in each bank; sharded: one whole shard in each. Raises PlanError as ``pages``."""
    page = pages(layout, shape)
    header = memory.tile_header if layout.layout == TILE else 0
    if not layout.is_sharded:
        stride = _ceil(page.nbytes + header, memory.alignment) * memory.alignment
        return _ceil(page.count, memory.banks) * stride, page.count * stride
    stride = _ceil(unit_bytes(layout) + header, memory.alignment) * memory.alignment
    if layout.nd is not None:
        _, own, counts = nd_cut(layout.nd, shape, layout.layout == TILE)
        size = math.prod(own) * stride
        return size * nd_rounds(layout.nd, counts), size * math.prod(counts)
    assert layout.shard is not None
    _, rows, cols, _ = _units(layout, layout.shard, shape)
    return rows * cols * stride, math.prod(layout.shard.count(*matrix(layout, shape))) * rows * cols * stride


def unit_bytes(layout: Layout) -> int:
    """Payload of what lies in one piece in a bank of a sharded tensor: a tile, or a shard's part of a row."""
    fmt = FORMATS[layout.format]
    cut = layout.shard or layout.nd
    if layout.layout == TILE or cut is None:
        return fmt.tile_bytes
    return cut.shape[-1] * (fmt.itemsize or 0)


def _units(layout: Layout, shard: Shard, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(units across the matrix, units down and across a shard, payload bytes of a unit)."""
    cols = matrix(layout, shape)[1]
    height, width = shard.shape
    if layout.layout == TILE:
        return cols // TILE_DIM, height // TILE_DIM, width // TILE_DIM, unit_bytes(layout)
    return _ceil(cols, width), height, 1, unit_bytes(layout)


def shard_words(layout: Layout, shape: tuple[int, ...], grid_cols: int) -> tuple[int, ...]:
    """The words of struct gr_shard (native/include/gr_core.h) before its table, of a tensor whose shards take
    a rectangle of a device whose grid has ``grid_cols`` columns; of other shards those that a table needs."""
    if layout.nd is not None:
        return nd_cut(layout.nd, shape, layout.layout == TILE)[0][-1], 1, 1, unit_bytes(layout), 1, 0, 1, 1, 1
    shard = layout.shard
    if shard is None:
        raise PlanError(f"{layout} is not sharded", got=str(layout))
    first, line, outer, inner = shard.walk(grid_cols)
    across = shard.count(*matrix(layout, shape))[1]
    return *_units(layout, shard, shape), line if shard.kind == "block" else across, first, line, outer, inner


def unit_places(layout: Layout, shape: tuple[int, ...], grid_cols: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(bank, place in it: int64 [units, row by row], units that a bank has room for) of a sharded tensor, as
    native/ttsim/sharded.c has them."""
    if layout.nd is not None:
        return nd_places(layout.nd, shape, layout.layout == TILE)
    across, rows, cols, nbytes, split, first, line, outer, inner = shard_words(layout, shape, grid_cols)
    page = pages(layout, shape)
    unit = np.arange(page.count * _ceil(page.nbytes, nbytes))
    down, right = unit // across, unit % across
    k = down // rows * split + right // cols
    return first + k // line * outer + k % line * inner, down % rows * cols + right % cols, rows * cols


def shard_fault(layout: Layout, shape: tuple[int, ...], memory: Memory, grid: tuple[int, int]) -> str | None:
    """Why a tensor cannot be sharded so in a memory of a device of ``grid`` cores; None where it can."""
    if layout.nd is not None:
        return nd_fault(layout.nd, shape, layout.layout == TILE, memory.banks)
    if layout.shard is None:
        return None
    if memory.name != L1:
        return f"shards on cores lie in l1, not in {memory.name}"
    return fault(layout.shard, *matrix(layout, shape), layout.layout == TILE, grid)


def same_image(a: Layout, a_shape: tuple[int, ...], b: Layout, b_shape: tuple[int, ...]) -> bool:
    """True where the bytes of a tensor of a_shape in layout a are, page by page, those of the reshaped tensor
    in layout b: only then a reshape on a device is a __nop. Host tensors are contiguous, so there any reshape
    is."""
    if a.memory == HOST and b.memory == HOST:
        return a.format == b.format
    if a != b:
        return False
    if a_shape == b_shape:
        return True
    if a.layout == ROW_MAJOR:
        return a_shape[-1:] == b_shape[-1:] and pages(a, a_shape) == pages(b, b_shape)
    # tiled: equal columns, and either equal row tiles per plane, or no row padding on both sides
    (ar, ac), (br, bc) = ((1, 1, *s)[-2:] for s in (a_shape, b_shape))
    if ac != bc:
        return False
    return ar == br or (ar % TILE_DIM == 0 and br % TILE_DIM == 0)
