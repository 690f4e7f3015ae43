"""Physical layout of a tensor: which memory, row-major or 32x32 tiles, which element format, and the pages
that gives.

Page rules are tt-metal's (tech_reports/tensor_layouts): a row-major page is one row of the last dimension, a
tile page one 32x32 tile; interleaved pages go round-robin over the banks, each padded to the memory's
alignment.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from .dtypes import FORMATS
from .errors import PlanError, did_you_mean

__all__ = ["HOST", "ROW_MAJOR", "TILE", "Layout", "Pages", "pages", "same_image"]

HOST = "host"
ROW_MAJOR = "row_major"
TILE = "tile"
TILE_DIM = 32
LAYOUT_CODES = {ROW_MAJOR: 0, TILE: 1}
MEMORY_CODES = {HOST: 0, "dram": 1, "l1": 2}


@dataclass(frozen=True, slots=True)
class Layout:
    """memory "host" | "dram" | "l1"; layout "row_major" | "tile"; format a name of dtypes.FORMATS (or the
    dtype itself for opaque host types); shard is reserved for sharded tensors and None here."""

    memory: str
    layout: str
    format: str
    shard: str | None = None

    def __str__(self) -> str:
        return f"{self.memory}/{self.layout}/{self.format}"


@dataclass(frozen=True, slots=True)
class Pages:
    """count pages of nbytes payload each."""

    count: int
    nbytes: int

    def extent(self, banks: int, alignment: int) -> int:
        """Bytes taken in each bank: ceil(count / banks) pages, each rounded up to alignment."""
        return -(-self.count // banks) * self.stride(alignment)

    def padded(self, alignment: int) -> int:
        """Padded page bytes of all pages together."""
        return self.count * self.stride(alignment)

    def stride(self, alignment: int) -> int:
        return -(-self.nbytes // alignment) * alignment


def _ceil(n: int) -> int:
    return -(-n // TILE_DIM)


def pages(layout: Layout, shape: tuple[int, ...]) -> Pages:
    """Pages of a device tensor of a logical shape. A scalar is a row of one element.

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
        raise PlanError(f"format {layout.format} exists in tile layout only; use layout tile or format bf16",
                        got=str(layout))
    cols = shape[-1] if shape else 1
    return Pages(math.prod(shape[:-1]), cols * fmt.itemsize)


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
