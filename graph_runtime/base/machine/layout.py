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

from ..dtypes import FORMATS, ROWS, format_of
from ..errors import PlanError, did_you_mean
from .shards import Shard

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
    "shard_words",
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
    dtype itself for opaque host types); ``shard`` None: interleaved over all banks of the memory."""

    memory: str
    layout: str
    format: str
    shard: Shard | None = None

    def __str__(self) -> str:
        return f"{self.memory}/{self.layout}/{self.format}" + (f"/{self.shard}" if self.shard else "")


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
    if layout.shard is None:
        stride = _ceil(page.nbytes + header, memory.alignment) * memory.alignment
        return _ceil(page.count, memory.banks) * stride, page.count * stride
    _, rows, cols, nbytes = _units(layout, layout.shard, shape)
    extent = rows * cols * _ceil(nbytes + header, memory.alignment) * memory.alignment
    return extent, math.prod(layout.shard.count(*matrix(layout, shape))) * extent


def _units(layout: Layout, shard: Shard, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(units across the matrix, units down and across a shard, payload bytes of a unit): the unit is what
    lies in one piece in a bank, a tile or a shard's part of a row."""
    fmt, cols = FORMATS[layout.format], matrix(layout, shape)[1]
    height, width = shard.shape
    if layout.layout == TILE:
        return cols // TILE_DIM, height // TILE_DIM, width // TILE_DIM, fmt.tile_bytes
    return _ceil(cols, width), height, 1, width * (fmt.itemsize or 0)


def shard_words(layout: Layout, shape: tuple[int, ...], grid_cols: int) -> tuple[int, ...]:
    """struct gr_shard (native/include/gr_core.h) of a sharded tensor on a device whose grid has ``grid_cols``
    columns: int64 words."""
    shard = layout.shard
    if shard is None:
        raise PlanError(f"{layout} is not sharded", got=str(layout))
    first, line, outer, inner = shard.walk(grid_cols)
    across = shard.count(*matrix(layout, shape))[1]
    return *_units(layout, shard, shape), line if shard.kind == "block" else across, first, line, outer, inner


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
