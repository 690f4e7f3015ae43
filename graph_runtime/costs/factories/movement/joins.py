"""Steps of concat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....base.machine.layout import ROW_MAJOR, TILE
from ..buffers import BF16, F32, CardOperand, CardProgram, round_up, tiles
from .steps import Board, Steps, UnknownForm, element_size, opened, padded
from .tiling import in_rows, to_tiles, unpadded
from .turns import transposed


def joined(steps: Steps, given: Sequence[CardOperand], dim: int, made: CardOperand) -> CardOperand:
    """Steps of concat (data_movement/concat/concat.cpp): tiles with padding along the dimension are joined as
    rows; rows that are not aligned along the last dimension are transposed, joined and transposed back."""
    first = given[0]
    if len(given) == 1 or len({x.layout for x in given}) > 1:
        raise UnknownForm
    if first.layout == TILE and _in_bands(given, dim, made):
        return steps.run(_bands(given, made, steps.board), made)
    if first.layout == TILE and any(padded(x)[dim] != x.shape[dim] for x in given):
        if any(x.sharded for x in (*given, made)):
            raise UnknownForm
        rows = [unpadded(steps, x, in_rows(x)) for x in given]
        found = replace(in_rows(made), layout=ROW_MAJOR)
        return to_tiles(steps, _joined_rows(steps, rows, dim, found), made)
    if first.layout != TILE:
        return _joined_rows(steps, given, dim, made)
    return steps.run(_concat(given, made, steps.board), made)


def _in_bands(given: Sequence[CardOperand], dim: int, made: CardOperand) -> bool:
    """Whether one card program joins tiles with padding along the last dimension."""
    rank, first = len(made.shape), given[0]
    plain = not any(x.sharded for x in (*given, made)) and first.format in (BF16, F32)
    return plain and rank > 1 and dim == rank - 1 and any(x.shape[-1] % 32 for x in given)


def _bands(given: Sequence[CardOperand], made: CardOperand, board: Board) -> CardProgram:
    """Buffers of data_movement/concat/device/concat_tiled_unaligned_program_factory.cpp: rows of tiles.
    Raises UnknownForm if these do not fit."""
    of_in, out = sum(tiles(x.shape[-1]) for x in given), tiles(made.shape[-1])
    if 3 * (of_in + out) * made.tile > board.room:
        raise UnknownForm
    sizes = (("in", 2 * of_in), ("rows", of_in), ("row joined", out), ("out", 2 * out))
    return opened("concat", *((name, count, made.tile) for name, count in sizes))


def _joined_rows(steps: Steps, given: Sequence[CardOperand], dim: int, made: CardOperand) -> CardOperand:
    board, rank = steps.board, len(made.shape)
    if dim == rank - 1 and any(x.shape[-1] * element_size(x) % board.aligned(x.memory) for x in given):
        if rank < 2 or any(x.sharded for x in (*given, made)):
            raise UnknownForm
        turned = [transposed(steps, x, rank - 2, rank - 1, _swapped(x)) for x in given]
        whole = replace(_swapped(made), memory=made.memory)
        steps.run(_concat(turned, whole, board), whole)
        return transposed(steps, whole, rank - 2, rank - 1, made)
    return steps.run(_concat(given, made, board), made)


def _swapped(x: CardOperand) -> CardOperand:
    return replace(x, shape=(*x.shape[:-2], x.shape[-1], x.shape[-2]))


def _concat(given: Sequence[CardOperand], made: CardOperand, board: Board) -> CardProgram:
    """Buffers of data_movement/concat/device/concat_program_factory.cpp: two pages. Shards that are joined in
    place are views."""
    if any(x.sharded for x in given):
        raise UnknownForm
    if made.layout == TILE:
        page = made.tile
    else:
        aligned = max(board.aligned(x.memory) for x in (*given, made))
        page = round_up(made.shape[-1] * element_size(made), aligned)
    if 2 * page > board.room:
        raise UnknownForm
    return opened("concat", ("pages", 2, page))
