"""Physical layout of a tensor: its memory, row-major or 32x32 tiles, element format, interleaved or sharded,
and the resulting pages.

Page rules are tt-metal's (tech_reports/tensor_layouts): a row-major page is one row of the last dimension, a
tile page one 32x32 tile. Interleaved pages go round-robin over the banks. The pages of a shard (in a
row-major shard: its part of each row) lie one after another in its core's bank. Each page is padded to the
memory's alignment, and comes after the stack's tile header."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..dtypes import FORMATS, ROWS, format_of
from ..errors import PlanError, did_you_mean
from .descriptors import DRAM as DRAM
from .descriptors import HOST as HOST
from .descriptors import L1 as L1
from .descriptors import ROW_MAJOR as ROW_MAJOR
from .descriptors import TILE as TILE
from .descriptors import Memory
from .nd_shards import NdShard, nd_cut, nd_fault, nd_places, nd_rounds
from .shards import Shard, fault

TILE_DIM = 32
LAYOUT_CODES = {ROW_MAJOR: 0, TILE: 1}
MEMORY_CODES = {HOST: 0, DRAM: 1, L1: 2}


@dataclass(frozen=True, slots=True)
class Layout:
    """memory "host" | "dram" | "l1"; layout "row_major" | "tile"; format: a name of dtypes.FORMATS (or the
    dtype itself for opaque host types). ``shard``: the tensor is cut over a rectangle of cores, one shard a
    core; ``nd``: the tensor is cut in any other way, which only callers ask for. With neither, it is
    interleaved over all banks of the memory.
    """

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
    """``count`` pages, each of ``nbytes`` payload."""

    count: int
    nbytes: int


def host_layout(dtype: str) -> Layout:
    """The layout of a tensor of a dtype in host memory: row-major, in the dtype's own format."""
    stored = format_of(dtype)
    return Layout(HOST, ROW_MAJOR, stored.name if stored else dtype)


def _ceil(n: int, step: int = TILE_DIM) -> int:
    return -(-n // step)


def pages(layout: Layout, shape: tuple[int, ...]) -> Pages:
    """Pages of a device tensor with the logical shape ``shape``, as kernels count pages. A scalar is a row of
    one element. Raises PlanError for an unknown format and for a block format that is not tiled."""
    fmt = FORMATS.get(layout.format)
    if fmt is None:
        text = f"unknown format {layout.format!r}{did_you_mean(layout.format, FORMATS)}"
        raise PlanError(text, got=layout.format)
    if layout.layout == TILE:
        rows, cols = (1, *shape)[-2:] if shape else (1, 1)
        outer = math.prod(shape[:-2])
        return Pages(outer * _ceil(rows) * _ceil(cols), fmt.tile_bytes)
    if fmt.itemsize is None:
        text = f"format {layout.format} exists in tile layout only; use layout tile or format {ROWS}"
        raise PlanError(text, got=str(layout))
    cols = shape[-1] if shape else 1
    return Pages(math.prod(shape[:-1]), cols * fmt.itemsize)


def matrix(layout: Layout, shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns), in elements, of the matrix that stands for a tensor when it is cut into shards. All
    dimensions but the last become the rows. If the layout is tiled, the last two dimensions are padded to
    whole tiles first."""
    rows, cols = (1, 1, *shape)[-2:]
    if layout.layout == TILE:
        rows, cols = _ceil(rows) * TILE_DIM, _ceil(cols) * TILE_DIM
    return math.prod(shape[:-2]) * rows, cols


def footprint(layout: Layout, shape: tuple[int, ...], memory: Memory) -> tuple[int, int]:
    """(bytes in each bank, padded bytes over all banks) of a device tensor. An interleaved tensor takes
    ceil(pages / banks) pages in each bank, a sharded one a whole shard in each bank. Raises PlanError as
    ``pages`` does."""
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
    """Payload bytes of a contiguous unit in a bank of a sharded tensor: a tile, or a shard's part of a
    row."""
    fmt = FORMATS[layout.format]
    cut = layout.shard or layout.nd
    if layout.layout == TILE or cut is None:
        return fmt.tile_bytes
    return cut.shape[-1] * (fmt.itemsize or 0)


def _units(layout: Layout, shard: Shard, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(units across the matrix, units down a shard, units across a shard, payload bytes of a unit)."""
    cols = matrix(layout, shape)[1]
    height, width = shard.shape
    if layout.layout == TILE:
        return cols // TILE_DIM, height // TILE_DIM, width // TILE_DIM, unit_bytes(layout)
    return _ceil(cols, width), height, 1, unit_bytes(layout)


def shard_words(layout: Layout, shape: tuple[int, ...], grid_cols: int) -> tuple[int, ...]:
    """The values of the fields of struct gr_shard (native/include/gr_core.h) before its table, for a tensor
    whose shards take a rectangle of a grid of ``grid_cols`` columns. For all other shards: the values that
    the table needs."""
    if layout.nd is not None:
        return nd_cut(layout.nd, shape, layout.layout == TILE)[0][-1], 1, 1, unit_bytes(layout), 1, 0, 1, 1, 1
    shard = layout.shard
    if shard is None:
        raise PlanError(f"{layout} is not sharded", got=str(layout))
    first, line, outer, inner = shard.walk(grid_cols)
    across = shard.count(*matrix(layout, shape))[1]
    return *_units(layout, shard, shape), line if shard.kind == "block" else across, first, line, outer, inner


def unit_places(layout: Layout, shape: tuple[int, ...], grid_cols: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(bank of each unit, place of each unit in its bank, number of units for which a bank has room) of a
    sharded tensor. The two arrays are int64 [units], row by row, as in native/ttsim/sharded.c."""
    if layout.nd is not None:
        return nd_places(layout.nd, shape, layout.layout == TILE)
    across, rows, cols, nbytes, split, first, line, outer, inner = shard_words(layout, shape, grid_cols)
    page = pages(layout, shape)
    unit = np.arange(page.count * _ceil(page.nbytes, nbytes))
    down, right = unit // across, unit % across
    k = down // rows * split + right // cols
    return first + k // line * outer + k % line * inner, down % rows * cols + right % cols, rows * cols


def shard_fault(layout: Layout, shape: tuple[int, ...], memory: Memory, grid: tuple[int, int]) -> str | None:
    """Text: why a tensor cannot be sharded as ``layout`` says, in ``memory`` of a device whose cores are a
    ``grid`` (rows, columns); None if it can."""
    if layout.nd is not None:
        return nd_fault(layout.nd, shape, layout.layout == TILE, memory.banks)
    if layout.shard is None:
        return None
    if memory.name != L1:
        return f"shards on cores lie in l1, not in {memory.name}"
    return fault(layout.shard, *matrix(layout, shape), layout.layout == TILE, grid)


def same_image(a: Layout, a_shape: tuple[int, ...], b: Layout, b_shape: tuple[int, ...]) -> bool:
    """Whether the bytes of a tensor of a_shape in layout a are, page by page, those of the tensor reshaped to
    b_shape in layout b. Only then a reshape on a device is a __nop. Host tensors are contiguous, so any
    reshape on the host is a __nop."""
    if a.memory == HOST and b.memory == HOST:
        return a.format == b.format
    if a != b:
        return False
    if a_shape == b_shape:
        return True
    if a.layout == ROW_MAJOR:
        return a_shape[-1:] == b_shape[-1:] and pages(a, a_shape) == pages(b, b_shape)
    # tiled: both tensors have equal columns, and either equal numbers of row tiles in each plane, or no
    # padded rows
    (ar, ac), (br, bc) = ((1, 1, *s)[-2:] for s in (a_shape, b_shape))
    if ac != bc:
        return False
    return ar == br or (ar % TILE_DIM == 0 and br % TILE_DIM == 0)
