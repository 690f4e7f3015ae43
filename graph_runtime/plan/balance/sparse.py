"""The left operand of a sparse matmul: the non-empty 32x32 tiles of a 0/1 matrix that picks pixels.

A window of a convolution or a pool picks, for each of its taps, one input pixel for each output pixel. Buda
writes this as a product with a matrix of ones and zeros. The cost of the product depends on the number of
tiles that hold a one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ...base.errors import PlanError
from ...costs import NonZero
from .grid import Grid, Stream

_MOST_PICKS = 1 << 24  # finding the tiles takes some hundred bytes of memory for each pick
MOST_BITS = 16  # bits of one index: tile pointer, row and depth within the ublock
_TILE = 32
_STRIP_BYTES, _UBLOCK_BYTES, _INDEX_BYTES = 4, 4, 2


@dataclass(frozen=True, slots=True)
class Window:
    """One row of taps, or all taps: ``image`` and ``out`` (rows, columns) in pixels; ``taps``: (row, column)
    of each tap in the window, with dilation; ``strides``; ``begin``: the padding at top and left."""

    image: tuple[int, int]
    out: tuple[int, int]
    taps: tuple[tuple[int, int], ...]
    strides: tuple[int, int]
    begin: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """Nonzero tiles: ``rows`` and ``cols`` int64 [n], sorted, in tiles; rows of tap i begin at i * ``each``.
    ``distinct``: number of different tiles; each of these is stored once."""

    rows: np.ndarray
    cols: np.ndarray
    distinct: int
    taps: int
    each: int

    def share(self, shares: int, z_major: bool) -> np.ndarray:
        """int64 [n]: for each tile the number of its share, if the rows are divided into ``shares`` shares.
        In depth-major order the rows of each tap are divided."""
        if z_major:
            return self.rows % self.each * shares // self.each
        return self.rows * shares // (self.each * self.taps)

    def worst_core(self, grid: Grid, stream: Stream, u_rt: int, u_kt: int) -> NonZero:
        """Counts of tiles, of ublocks and of strips, each taken from the core row with the largest count."""
        return _worst_core(self, grid.r, stream.r, stream.z_major, u_rt, u_kt)

    def index_bytes(self, grid: Grid, stream: Stream, u_rt: int) -> int:
        """Bytes of one core's list of strips, ublocks and tiles, if each strip is one tile. No other choice
        of strips makes a longer list."""
        found = self.worst_core(grid, stream, u_rt, 1)
        return _STRIP_BYTES * found.strips + _UBLOCK_BYTES * found.ublocks + _INDEX_BYTES * found.tiles

    def bits(self, u_rt: int, u_kt: int) -> int:
        """Bits needed for one index."""
        return sum((n - 1).bit_length() for n in (max(self.distinct, 1), u_rt, u_kt))

    def most_deep(self, u_rt: int) -> int:
        """The largest u_kt for which MOST_BITS suffice for an index; 1 if there is no such u_kt."""
        return 1 << max(MOST_BITS - self.bits(u_rt, 1), 0)


@cache
def _worst_core(found: Encoding, cores: int, pieces: int, z_major: bool, u_rt: int, u_kt: int) -> NonZero:
    core, piece = found.share(cores, z_major), found.share(cores * pieces, z_major)
    wide = int(found.cols.max()) // u_kt + 1 if len(found.cols) else 1
    deep, span = found.cols // u_kt, found.each * found.taps * wide
    return NonZero(
        _most(core),
        _most_of(core, found.rows // u_rt * wide + deep, span),
        _most_of(core, piece * wide + deep, span),
    )


def _most(core: np.ndarray) -> int:
    return int(np.bincount(core).max()) if len(core) else 0


def _most_of(core: np.ndarray, key: np.ndarray, span: int) -> int:
    """The largest number of different keys (below ``span``) that one core has."""
    found = np.sort(core * span + key)
    return _most(found[np.diff(found, prepend=-1) > 0] // span)


@cache
def encoding(window: Window) -> Encoding:
    """The Encoding of a window over one image, rows of each tap padded to whole tiles. Raises PlanError for
    an encoding that would take gigabytes."""
    (h, w), (oh, ow) = window.image, window.out
    if oh * ow * len(window.taps) > _MOST_PICKS:
        picks = oh * ow * len(window.taps)
        raise PlanError(
            f"{len(window.taps)} taps over {oh}x{ow} pixels pick {picks:,} pixels; the balancer takes "
            f"sparse matmuls of at most {_MOST_PICKS:,}: cut the image, or place the node on cpu",
            got=picks,
            wanted=_MOST_PICKS,
        )
    each = -(-oh * ow // _TILE)
    parts = []
    for tap, (p, q) in enumerate(window.taps):
        y = np.arange(oh)[:, None] * window.strides[0] - window.begin[0] + p
        x = np.arange(ow)[None, :] * window.strides[1] - window.begin[1] + q
        inside = ((y >= 0) & (y < h) & (x >= 0) & (x < w)).ravel()
        pixel = np.arange(oh * ow)[inside]
        source = (y * w + x).ravel()[inside]
        parts.append(np.stack([pixel + tap * each * _TILE, source]))
    row, col = np.concatenate(parts, axis=1)
    tile = np.stack([row // _TILE, col // _TILE])
    key = tile[0] * -(-h * w // _TILE) + tile[1]
    new = np.diff(key, prepend=-1) > 0  # keys ascend for both kinds of pixels
    first = np.flatnonzero(new)
    pattern = np.full((len(first), _TILE), -1, np.int8)
    pattern[np.cumsum(new) - 1, row % _TILE] = col % _TILE
    return Encoding(tile[0][first], tile[1][first], _distinct(pattern), len(window.taps), each)


def _distinct(pattern: np.ndarray) -> int:
    """Number of different rows of an int8 array [n, 32]. For speed each row is sorted as four numbers, not as
    bytes."""
    words = pattern.view(np.int64)
    words = words[np.lexsort(words.T)]
    return int((words[1:] != words[:-1]).any(axis=1).sum()) + bool(len(words))
