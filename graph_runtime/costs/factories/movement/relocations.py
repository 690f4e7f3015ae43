"""Steps that move a tensor to another memory or into other shards."""

from __future__ import annotations

import math

from ....base.machine.layout import TILE
from ..buffers import CardOperand, CardProgram, CircularBuffer, round_up
from .steps import L1_ALIGNED, Board, Steps, UnknownForm, opened

_LARGEST_PART = 4 * 65536  # bytes of a row that a copy moves at once


def same_place(x: CardOperand, y: CardOperand) -> bool:
    """Whether two tensors lie in the same memory, in the same shards."""
    return (x.memory, x.scheme, x.shard, x.cores, x.turned) == (
        y.memory,
        y.scheme,
        y.shard,
        y.cores,
        y.turned,
    )


def to_memory(steps: Steps, x: CardOperand, made: CardOperand) -> CardOperand:
    """Steps of to_memory_config (core/to_memory_config/to_memory_config_op.cpp). No steps if the tensor has
    that memory and those shards."""
    if same_place(x, made) and x.format == made.format:
        return x
    if x.sharded and made.sharded:
        if x.shard[1] != made.shard[1] and x.scheme != made.scheme and x.layout != TILE:
            plain = CardOperand(x.shape, x.format, x.layout)
            steps.run(unsharded(x, plain, steps.board), plain)
            return steps.run(sharded(plain, made, steps.board), made)
        return steps.run(_resharded(x, made), made)
    if made.sharded and (x.layout == TILE or _cuts_aligned(x, made, steps.board)):
        return steps.run(sharded(x, made, steps.board), made)
    if x.sharded and (x.layout == TILE or _cuts_aligned(made, x, steps.board)):
        return steps.run(unsharded(x, made, steps.board), made)
    return steps.run(copied_pages(x, made, steps.board), made)


def _cuts_aligned(whole: CardOperand, cut: CardOperand, board: Board) -> bool:
    """Whether shards of rows end at aligned bytes, as interleaved_to_sharded and sharded_to_interleaved
    ask."""
    return cut.shard[1] * cut.element % L1_ALIGNED == 0


def sharded(x: CardOperand, made: CardOperand, board: Board) -> CardProgram:
    """Buffers of data_movement/sharded/interleaved_to_sharded/device/*_program_factory.cpp: a view of the
    shard (in DRAM: a shard), a shard in the format before, and four rows to align rows as DRAM does."""
    pages, unit, before = _units(made, x)
    buffers = [CircularBuffer("shard", pages, round_up(unit, board.aligned(made.memory)), made.on_l1)]
    if x.format != made.format:
        buffers.append(CircularBuffer("in", pages, round_up(before, board.aligned(x.memory))))
    if made.layout != TILE:
        row = round_up(before + board.dram_aligned, board.dram_aligned)
        buffers.append(CircularBuffer("rows to align", 4, row))
    return CardProgram.of("interleaved to sharded", buffers)


def unsharded(x: CardOperand, made: CardOperand, board: Board) -> CardProgram:
    """Buffers of data_movement/sharded/sharded_to_interleaved/device/*_program_factory.cpp: a view of the
    shard, and a shard in the format after."""
    if not x.on_l1:
        raise UnknownForm
    pages, unit, after = _units(x, made)
    buffers = [CircularBuffer("shard", pages, unit, borrowed=True)]
    if x.format != made.format:
        buffers.append(CircularBuffer("out", pages, round_up(after, board.aligned(made.memory))))
    return CardProgram.of("sharded to interleaved", buffers)


def _units(cut: CardOperand, other: CardOperand) -> tuple[int, int, int]:
    """(pages of a shard, bytes of a page, bytes of a page in the other tensor's format)."""
    if cut.layout == TILE:
        return cut.shard_tiles, cut.tile, other.tile
    return cut.shard[0], cut.shard[1] * cut.element, cut.shard[1] * other.element


def _resharded(x: CardOperand, made: CardOperand) -> CardProgram:
    """Buffers of data_movement/sharded/reshard/device: a view of the shard."""
    rows = x.layout != TILE and (x.page % L1_ALIGNED or made.page % L1_ALIGNED)
    if not x.on_l1 or not made.on_l1 or rows or x.format != made.format:
        raise UnknownForm
    pages = made.shard_tiles if made.layout == TILE else made.shard[0]
    return CardProgram.of("reshard", [CircularBuffer("shard", pages, made.page, borrowed=True)])


def cloned(x: CardOperand, made: CardOperand, board: Board) -> CardProgram:
    """Buffers of data_movement/clone/device/clone_program_factory.cpp: two pages of each format."""
    sizes = [("in", 2, board.page(x))]
    if x.format != made.format:
        sizes.append(("out", 2, board.page(made)))
    return opened("clone", *sizes)


def copied_pages(x: CardOperand, made: CardOperand, board: Board) -> CardProgram:
    """Buffers of data_movement/copy/device/copy_default_*_program_factory.cpp: two pages; for rows also a
    page of the operand, unless parts of few rows are shared among the cores."""
    if x.layout == TILE or same_place(x, made):
        return cloned(x, made, board)
    width = x.shape[-1]
    parts = [y.shard[1] if y.sharded and y.scheme != "height" else width for y in (x, made)]
    part = math.gcd(*parts)
    aligned = max(board.aligned(x.memory), board.aligned(made.memory))
    few = math.prod(x.shape[:-1]) < board.cores and part < width
    if few and part * x.element <= _LARGEST_PART and part * x.element % aligned == 0:
        return opened("copy", ("parts", 2, part * x.element))
    page, out = min(x.page, _LARGEST_PART), min(board.page(made), _LARGEST_PART)
    return opened("copy", ("row", 1, page), ("out", 2, out))
