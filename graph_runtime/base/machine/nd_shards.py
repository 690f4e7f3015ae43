"""Shards of any number of dimensions, of which a bank may have several: tt-metal's general cut of a tensor.

The tensor's leading dimensions are folded into the first one that a shard has (of tiles, after the last two
were padded to 32). Shards are numbered row by row and go round the banks in the order that the cut gives
them, or each line of shards has a line of banks of its own. In a bank one shard follows another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["NdShard", "nd_cut", "nd_fault", "nd_places", "nd_rounds"]

_TILE = 32


@dataclass(frozen=True, slots=True)
class NdShard:
    """``shape`` of a shard in elements, two dimensions or more, the last two multiples of 32 for tiles;
    ``banks`` in the order in which shards go round them; ``line``: 0, or of two dimensions: shard (i, j) is
    in the bank ``banks[i * line + j]``."""

    shape: tuple[int, ...]
    banks: tuple[int, ...]
    line: int = 0

    def __str__(self) -> str:
        lines = f"/{self.line}" if self.line else ""
        return f"nd[{len(self.banks)}{lines}:{'x'.join(map(str, self.shape))}]"


def _folded(shard: NdShard, shape: tuple[int, ...], tiled: bool) -> tuple[int, ...]:
    """The sizes of a tensor in as many dimensions as a shard has."""
    rank = len(shard.shape)
    sizes = [1] * max(0, rank - len(shape), 2 - len(shape)) + list(shape)
    if tiled:
        sizes[-2:] = (-(-size // _TILE) * _TILE for size in sizes[-2:])
    first = len(sizes) - rank + 1
    return (math.prod(sizes[:first]), *sizes[first:])


def nd_cut(
    shard: NdShard, shape: tuple[int, ...], tiled: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(units of the tensor, units of a shard, shards) along each dimension: a unit is a tile, or the part of
    a row that a shard has."""
    sizes = _folded(shard, shape, tiled)
    units, own = list(sizes), list(shard.shape)
    if tiled:
        for at in (-2, -1):
            units[at], own[at] = units[at] // _TILE, own[at] // _TILE
    else:
        units[-1], own[-1] = -(-sizes[-1] // shard.shape[-1]), 1
    counts = tuple(-(-size // part) for size, part in zip(units, own, strict=True))
    return tuple(units), tuple(own), counts


def nd_fault(shard: NdShard, shape: tuple[int, ...], tiled: bool, banks: int) -> str | None:
    """Why a tensor cannot be cut so over a memory's banks; None where it can."""
    if len(shard.shape) < 2 or min(shard.shape) < 1 or not math.prod(shape):
        return "a shard has two dimensions and an element at least, and so has a tensor that is sharded"
    if not shard.banks or not all(0 <= bank < banks for bank in shard.banks):
        return f"the banks of shards must be some of 0 to {banks - 1}"
    if len(set(shard.banks)) != len(shard.banks):
        return "a bank is named twice"
    if tiled and any(size % _TILE for size in shard.shape[-2:]):
        return f"a shard of tiles is a multiple of 32 both ways, not {shard.shape[-2]}x{shard.shape[-1]}"
    if len(shard.shape) > max(2, len(shape)):
        return f"shards of {len(shard.shape)} dimensions cannot cut a tensor of {len(shape)}"
    if shard.line:
        down, across = nd_cut(shard, shape, tiled)[2]
        if across > shard.line or down * shard.line > len(shard.banks):
            return f"{down}x{across} shards do not fit the {len(shard.banks)} banks: use larger ones"
    return None


def nd_rounds(shard: NdShard, counts: tuple[int, ...]) -> int:
    """How many shards a bank has room for."""
    return 1 if shard.line else -(-math.prod(counts) // len(shard.banks))


def nd_places(shard: NdShard, shape: tuple[int, ...], tiled: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """(bank, place in it: int64 [units, row by row], units that a bank has room for)."""
    units, own, counts = nd_cut(shard, shape, tiled)
    at = np.indices(units).reshape(len(units), -1)
    parts = np.array(own)[:, None]
    which, inside = at // parts, at % parts
    number, place = (np.ravel_multi_index(tuple(x), y) for x, y in ((which, counts), (inside, own)))
    size = math.prod(own)
    if shard.line:
        turn, round_ = which[0] * shard.line + which[1], 0
    else:
        turn, round_ = number % len(shard.banks), number // len(shard.banks)
    return np.array(shard.banks)[turn], round_ * size + place, nd_rounds(shard, counts) * size
