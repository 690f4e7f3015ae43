"""Steps between rows and tiles, with and without padding."""

from __future__ import annotations

import math
from dataclasses import replace

from ....base.machine.layout import ROW_MAJOR, TILE
from ..buffers import (
    BF16,
    BFP8,
    BLOCKS,
    CardOperand,
    CardProgram,
    CircularBuffer,
    ceil_div,
    tile_bytes,
    tiles,
)
from ..moves import tilized, untilized
from .steps import Board, Steps, UnknownForm, opened, padded

_WIDE_ROW = 32  # tiles of a row, beyond which ttnn cuts rows into blocks
_WIDEST_CODEGEN = 800_000 // (2 * 2048)  # tiles of a row


def is_whole(x: CardOperand) -> bool:
    """Whether a tensor has no padding."""
    return padded(x) == x.shape


def in_rows(x: CardOperand) -> CardOperand:
    """The tensor in rows. Block formats become bf16."""
    format = BF16 if x.format in BLOCKS else x.format
    return replace(x, layout=ROW_MAJOR, format=format)


def in_tiles(x: CardOperand, format: str = "") -> CardOperand:
    return replace(x, layout=TILE, format=format or x.format)


def to_tiles(steps: Steps, x: CardOperand, made: CardOperand) -> CardOperand:
    """Steps of tilize and tilize_with_val_padding (data_movement/tilize*/device): a row of tiles of each."""
    _check_width(x, made, steps.board)
    if x.sharded and (not is_whole(made) or not x.on_l1):
        raise UnknownForm
    return steps.run(tilized(x, made), made)


def to_rows(steps: Steps, x: CardOperand, made: CardOperand, direct: bool = False) -> CardOperand:
    """Steps of to_layout to rows, or of untilize if ``direct`` (data_movement/untilize/untilize.cpp): bf16
    and bfp8 that are not sharded go to the generated kernels, if these take the tensor's padding."""
    whole, plain = is_whole(x), not x.sharded and not made.sharded
    if plain and (whole or (direct and x.format == BF16)) and x.format in (BF16, BFP8):
        return steps.run(_codegen(x, made, steps.board), made)
    _check_width(x, x, steps.board)
    if whole:
        return steps.run(untilized(x, made, steps.board.cores), made)
    return unpadded(steps, x, made)


def unpadded(steps: Steps, x: CardOperand, made: CardOperand) -> CardOperand:
    """A step of untilize_with_unpadding (data_movement/untilize_with_unpadding/device/factories/
    *_multi_core_interleaved_program_factory.cpp): a row of tiles of each."""
    _check_width(x, x, steps.board)
    if x.sharded or made.sharded:
        raise UnknownForm
    across = tiles(x.shape[-1])
    sizes = ("in", across, x.tile), ("out", across, tile_bytes(made.format))
    return steps.run(opened("untilize with unpadding", *sizes), made)


def _codegen(x: CardOperand, made: CardOperand, board: Board) -> CardProgram:
    """Buffers of data_movement/untilize/codegen: twice the tiles that a core does at once; columns are shared
    among cores if there are fewer rows of tiles than cores. Raises UnknownForm if these do not fit."""
    down, across = x.matrix
    unit = across
    if is_whole(x) and across > 1:
        if down == 1:
            unit = ceil_div(across, board.cores)
        elif down < board.cores:
            most = min(board.cores // down, across)
            unit = across // max(n for n in range(1, most + 1) if across % n == 0)
    out = tile_bytes(made.format)
    if across > _WIDEST_CODEGEN or 4 * unit * max(x.tile, out) > board.room:
        raise UnknownForm
    return opened("untilize", ("in", 2 * unit, x.tile), ("out", 2 * unit, out))


def _check_width(x: CardOperand, y: CardOperand, board: Board) -> None:
    """Raise UnknownForm if ttnn cuts rows of tiles into blocks: wide rows if blocks keep more cores busy
    (core/work_split/work_split_tilize.hpp, compute_ncores_wh), and rows that do not fit."""
    shape = (1, 1, *(y.shape if len(y.shape) >= len(x.shape) else x.shape))
    down, across = tiles(shape[-2]), tiles(shape[-1])
    if across * (2 * x.tile + y.tile) > board.room:
        raise UnknownForm
    if across <= _WIDE_ROW or (down <= _WIDE_ROW and across <= down):
        return
    rows = down * math.prod(shape[:-2])
    if ceil_div(rows, ceil_div(rows, board.cores)) < _blocks(down, across, board.cores):
        raise UnknownForm


def _blocks(down: int, across: int, cores: int) -> int:
    """Square blocks of tiles that fit on fewer cores than there are."""

    def count(side: int) -> int:
        return ceil_div(across, side) * ceil_div(down, side)

    least = ceil_div(down * across, cores)
    side = math.isqrt(least)
    if side * side != least or count(side) >= cores:
        side = next((n for n in range(side + 1, down * across + 1) if count(n) < cores), 1)
    return count(side)


def fill_padding(steps: Steps, x: CardOperand) -> CardOperand:
    """Steps of fill_implicit_tile_padding (data_movement/fill_pad/device/fill_pad_program_factory.cpp): two
    tiles in and out, and a mask for each padded side. The tensor is written in place; block formats are
    filled as bf16."""
    if x.sharded:
        raise UnknownForm
    masks = sum(bool(size % 32) for size in (1, *x.shape)[-2:])
    if not masks:
        return x
    blocks = x.format in BLOCKS
    found = typecast(steps, x, replace(x, format=BF16)) if blocks else x
    tile = found.tile
    steps.run(opened("fill padding", ("in", 2, tile), ("masks", masks, tile), ("out", 2, tile)), None)
    if not blocks:
        return found
    made = typecast(steps, found, replace(x))
    steps.free(found)
    return made


def typecast(steps: Steps, x: CardOperand, made: CardOperand) -> CardOperand:
    """A step of copy/typecast: two tiles of each tensor, or views of their shards."""
    borrowed = x.sharded and made.sharded and x.on_l1 and made.on_l1
    count = x.shard_tiles if borrowed else 2
    buffers = [CircularBuffer(name, count, y.tile, borrowed) for name, y in (("in", x), ("out", made))]
    return steps.run(CardProgram.of("typecast", buffers), made)
