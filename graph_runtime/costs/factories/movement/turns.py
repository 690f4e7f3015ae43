"""Steps of permute and transpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....base.machine.layout import L1, TILE
from ..buffers import BF16, BFP8, CardOperand, CardProgram, CircularBuffer, round_up
from .relocations import to_memory
from .steps import Board, Steps, UnknownForm, element_size, opened
from .tiling import typecast

_FACE = 16  # rows and columns of a face


def turned_shape(shape: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[d] for d in dims)


def of_rank_4(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with leading ones up to four dimensions."""
    return (*(1,) * (4 - len(shape)), *shape)


def permuted(steps: Steps, x: CardOperand, dims: Sequence[int], made: CardOperand) -> CardOperand:
    """Steps of permute (data_movement/permute/permute.cpp). No steps if no element moves."""
    rank = len(x.shape)
    if rank < 2 or _stays(x, dims):
        return to_memory(steps, x, made)
    if x.sharded and x.layout != TILE and x.scheme != "height" and _irregular(x):
        x = to_memory(steps, x, CardOperand(x.shape, x.format, x.layout, L1))
    missing = max(0, 4 - rank)
    order = (*range(missing), *(d + missing for d in dims))
    x = replace(x, shape=of_rank_4(x.shape))
    cast = x.format == BFP8 and not x.sharded and order not in ((0, 1, 3, 2), (1, 0, 2, 3), (1, 0, 3, 2))
    target = replace(made, shape=turned_shape(x.shape, order)) if cast else made
    if cast:
        x = typecast(steps, x, replace(x, format=BF16))
        target = replace(target, format=BF16)
    if x.sharded or len(order) > 4:
        found = _turned_shards(steps, x, order, target)
    elif order in _SWAPS:
        found = _swapped(steps, x, _SWAPS[order], target)
    else:
        found = steps.run(_permutation(x, order, steps.board), target)
    return typecast(steps, found, made) if cast else found


_SWAPS = {(0, 1, 3, 2): "wh", (0, 2, 1, 3): "hc", (1, 0, 2, 3): "cn"}


def transposed(steps: Steps, x: CardOperand, first: int, second: int, made: CardOperand) -> CardOperand:
    """Steps of transpose (data_movement/transpose/transpose.cpp). A transpose of unlike pairs is a
    permute."""
    rank = len(x.shape)
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    ones = x.shape[first] == x.shape[second] == 1 and (x.layout != TILE or max(first, second) < rank - 2)
    if first == second or ones:
        wide = x if x.format != BFP8 else typecast(steps, x, replace(x, format=BF16))
        return x if wide is x else typecast(steps, wide, made)
    full = of_rank_4(x.shape)
    swap = tuple(order) if rank > 4 else (*range(4 - rank), *(d + 4 - rank for d in order))
    if rank > 4 or swap not in _SWAPS or (x.sharded and x.layout != TILE and x.scheme != "height"):
        return permuted(steps, x, order, made)
    x = replace(x, shape=full)
    if x.sharded:
        return _turned_shards(steps, x, swap, made)
    if x.format == BFP8 and _SWAPS[swap] == "hc":
        x = typecast(steps, x, replace(x, format=BF16))
        bf16 = _swapped(steps, x, "hc", replace(made, format=BF16))
        return typecast(steps, bf16, made)
    return _swapped(steps, x, _SWAPS[swap], made)


def _irregular(x: CardOperand) -> bool:
    return any(size % 32 for size in x.shape[-2:])


def _stays(x: CardOperand, dims: Sequence[int]) -> bool:
    """Whether a permute leaves every element at its place."""
    rank = len(dims)
    if tuple(dims) == tuple(range(rank)):
        return True
    inner = 2 if x.layout == TILE else 1
    if tuple(dims[rank - inner :]) != tuple(range(rank - inner, rank)):
        return False
    return turned_shape(x.shape, dims) == x.shape and all(
        at == d or x.shape[at] == 1 for at, d in enumerate(dims)
    )


def _swapped(steps: Steps, x: CardOperand, swap: str, made: CardOperand) -> CardOperand:
    """A step that swaps two dimensions of an interleaved tensor of rank 4."""
    if x.layout != TILE:
        order = next(order for order, name in _SWAPS.items() if name == swap)
        return steps.run(_permutation(x, order, steps.board), made)
    if swap == "cn":
        return steps.run(opened("transpose", ("pages", 2, x.tile)), made)
    if swap == "wh":
        return steps.run(opened("transpose", ("in", 2, x.tile), ("out", 2, x.tile)), made)
    padding = _FACE * _FACE * element_size(x) if x.shape[1] % 32 else 0
    return steps.run(opened("transpose", ("in", 2, x.tile), ("padding", bool(padding), padding)), made)


def _turned_shards(steps: Steps, x: CardOperand, order: tuple[int, ...], made: CardOperand) -> CardOperand:
    """A step on shards. Raises UnknownForm for rows, and for orders that ttnn makes of several transposes."""
    if x.layout != TILE or order in _OF_SEVERAL:
        raise UnknownForm
    if order == (0, 1, 3, 2) and _stays_in_shards(x, made):
        buffers = [CircularBuffer(name, x.shard_tiles, x.tile, borrowed=True) for name in ("in", "out")]
        return steps.run(CardProgram.of("transpose of shards", buffers), made)
    if order in _SWAPS:
        return _swapped(steps, x, _SWAPS[order], made)
    return steps.run(_permutation(x, order, steps.board), made)


_OF_SEVERAL = ((0, 2, 3, 1), (0, 3, 1, 2), (0, 3, 2, 1))


def _stays_in_shards(x: CardOperand, made: CardOperand) -> bool:
    """Whether each core transposes its own shard (TransposeDeviceOperation::select_program_factory)."""
    rows, cols = (round_up(size, 32) for size in x.shape[-2:])
    if not (x.on_l1 and made.on_l1 and x.cores == made.cores) or "block" in (x.scheme, made.scheme):
        return False
    height = x.batch * rows
    if not made.sharded or height % x.shard[0] or cols % x.shard[1] or x.shard[1] != cols:
        return False
    if not x.shard[0] % rows and made.shard[1] == rows and not made.shard[0] % cols:
        return True
    return x.batch == 1 and made.shard[0] == cols


def _permutation(x: CardOperand, order: tuple[int, ...], board: Board) -> CardProgram:
    """Buffers of data_movement/permute/device/permute_{rm,tiled}_program_factory.cpp."""
    rank, element = len(order), element_size(x)
    if x.layout != TILE:
        if order[-1] == rank - 1:
            return opened("permute", ("rows", 2, board.page(x)))
        block = 2 * 32 * 32 * element
        return opened("permute", ("in", 1, block), ("out", 1, block), ("tiles", 1, block))
    if order[-2:] == (rank - 2, rank - 1):
        return opened("permute", ("in", 2, x.tile))
    if order[-2:] == (rank - 1, rank - 2):
        return opened("permute", ("in", 2, x.tile), ("out", 2, x.tile))
    rows = x.shape[order[-2]]
    if order[-1] >= rank - 2:
        swaps = order[-1] == rank - 2
        return opened(
            "permute",
            ("in", 2, x.tile),
            ("padding", bool(rows % 32), _FACE * element),
            ("out", 2 * swaps, x.tile),
        )
    tile = x.tile + max(0, board.aligned(x.memory) - _FACE * element)
    return opened(
        "permute",
        ("in", 2, tile),
        ("tiles", 2, tile),
        ("out", 2, tile),
        ("padding", bool(rows % 32), _FACE * element),
    )
