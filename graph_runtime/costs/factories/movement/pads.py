"""Steps of pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....base.machine.layout import TILE
from ..buffers import BF16, BFP8, CardOperand, CardProgram, ceil_div, round_up
from .steps import L1_ALIGNED, Board, Steps, UnknownForm, element_size, opened, padded
from .tiling import fill_padding, typecast

_MOST_BARRIERS = 16
_BARRIER = 2048  # bytes that a core reads before it waits


def with_padding(
    steps: Steps, x: CardOperand, sides: Sequence[tuple[int, int]], made: CardOperand
) -> CardOperand:
    """Steps of pad (data_movement/pad/pad.cpp). ``sides``: elements before and after, for each dimension.
    Padding of tiles is filled in place; then whole tiles are added."""
    if not any(before or after for before, after in sides):
        return x
    if len(x.shape) > 4 or x.sharded or made.sharded:
        raise UnknownForm
    if x.layout != TILE:
        return steps.run(_padded_rows(x, made, sides[-1][0], steps.board), made)
    x = fill_padding(steps, x)
    if len(x.shape) == 1 or padded(x) == padded(made):
        return x
    blocks = x.format == BFP8
    if blocks:
        x = typecast(steps, x, replace(x, format=BF16))
    target = replace(made, format=BF16) if blocks else made
    steps.run(opened("pad", ("tiles", 2, target.tile), ("padding", 1, target.tile)), target)
    return typecast(steps, target, made) if blocks else made


def _padded_rows(x: CardOperand, made: CardOperand, front: int, board: Board) -> CardProgram:
    """Buffers of data_movement/pad/device/pad_rm_reader_writer_multi_core_default_program_factory.cpp: rows
    for up to sixteen barriers, a row of padding, and another one if rows are not aligned as DRAM is."""
    row = made.shape[-1] * element_size(x)
    page, of_dram = round_up(row, L1_ALIGNED), round_up(row, board.dram_aligned)
    rows = ceil_div(_BARRIER, page)
    barriers = min(max((board.room - board.l1 // 2) // (rows * page), 1), _MOST_BARRIERS)
    paddings = 2 if front or page % board.dram_aligned else 1
    return opened("pad", ("rows", barriers * rows, page), ("padding", paddings, of_dram))
