"""Shards of any number of dimensions, several of which may lie in one bank: tt-metal's general cut of a
tensor.

The tensor's leading dimensions are folded into the first dimension that a shard has; if tiled, the last two
are padded to multiples of 32 first. Shards are numbered row by row. Either they are dealt to the banks in
turn, in the cut's order of banks; or each line of shards has its own line of banks. The shards in one bank
lie one after another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_TILE = 32


@dataclass(frozen=True, slots=True)
class NdShard:
    """A cut of a tensor into shards. ``shape``: shape of a shard in elements, of two dimensions or more; for
    tiles the last two are multiples of 32. ``banks``: numbers of banks, in the order in which shards are
    dealt to them. ``line``: 0, or for shards of two dimensions the number of banks in a line: shard (i, j) is
    in the bank ``banks[i * line + j]``."""

    shape: tuple[int, ...]
    banks: tuple[int, ...]
    line: int = 0

    def __str__(self) -> str:
        lines = f"/{self.line}" if self.line else ""
        return f"nd[{len(self.banks)}{lines}:{'x'.join(map(str, self.shape))}]"


def _folded(shard: NdShard, shape: tuple[int, ...], tiled: bool) -> tuple[int, ...]:
    """The shape of a tensor, folded to the number of dimensions that a shard has."""
    rank = len(shard.shape)
    sizes = [1] * max(0, rank - len(shape), 2 - len(shape)) + list(shape)
    if tiled:
        sizes[-2:] = (-(-size // _TILE) * _TILE for size in sizes[-2:])
    first = len(sizes) - rank + 1
    return (math.prod(sizes[:first]), *sizes[first:])


def nd_cut(
    shard: NdShard, shape: tuple[int, ...], tiled: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(units of the tensor, units of a shard, number of shards), each along every dimension. A unit is a
    tile, or the part of a row that a shard has."""
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
    """Text: why a tensor of ``shape`` cannot be cut in this way over the ``banks`` of a memory; None if it
    can."""
    if len(shard.shape) < 2 or min(shard.shape) < 1 or not math.prod(shape):
        return "a shard has two dimensions and an element at least, and so has a tensor that is sharded"
    if not shard.banks or not all(0 <= bank < banks for bank in shard.banks):
        return f"the banks of shards must be from 0 to {banks - 1}"
    if len(set(shard.banks)) != len(shard.banks):
        return "a bank is named twice"
    if tiled and any(size % _TILE for size in shard.shape[-2:]):
        return (
            f"a shard of tiles is a multiple of 32 down and across, not {shard.shape[-2]}x{shard.shape[-1]}"
        )
    if len(shard.shape) > max(2, len(shape)):
        return f"shards of {len(shard.shape)} dimensions cannot cut a tensor of {len(shape)}"
    if shard.line:
        down, across = nd_cut(shard, shape, tiled)[2]
        if across > shard.line or down * shard.line > len(shard.banks):
            return f"{down}x{across} shards do not fit the {len(shard.banks)} banks: use larger ones"
    return None


def nd_rounds(shard: NdShard, counts: tuple[int, ...]) -> int:
    """Number of shards that a bank must have room for."""
    return 1 if shard.line else -(-math.prod(counts) // len(shard.banks))


def nd_places(shard: NdShard, shape: tuple[int, ...], tiled: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """(bank of each unit, place of each unit in its bank, number of units for which a bank has room). The two
    arrays are int64 [units], row by row."""
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
