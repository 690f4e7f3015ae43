"""Steps of reshape, which squeeze and unsqueeze are, too."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np

from ....base.machine.layout import DRAM, TILE
from ..buffers import BF16, BLOCKS, CardOperand, CardProgram
from .relocations import same_place, sharded, to_memory, unsharded
from .steps import L1_ALIGNED, Board, Steps, UnknownForm, element_size, opened
from .tiling import fill_padding, typecast

_SLOTS = 8  # rows of a result that a core writes before it waits, if rows are not aligned


def reshaped(steps: Steps, x: CardOperand, made: CardOperand) -> CardOperand:
    """Steps of reshape (data_movement/reshape_view/reshape.cpp). No steps if the elements of a page stay
    together: the result is then a view."""
    if _is_view(x, made):
        return x if same_place(x, made) else to_memory(steps, x, made)
    if x.layout != TILE:
        return _reshaped_rows(steps, x, made)
    plain = replace(made, scheme="", shard=(0, 0), cores=(0, 0), turned=False)
    blocks = x.format in BLOCKS
    if x.sharded and (not made.sharded or blocks):
        whole = CardOperand(x.shape, x.format, x.layout, x.memory)
        x = steps.run(unsharded(x, whole, steps.board), whole)
    if not blocks:
        return steps.run(_tiled(x, made), made)
    x = typecast(steps, x, replace(x, format=BF16))
    found = replace(plain, shape=_of_rank_3(made.shape), format=BF16)
    steps.run(_tiled(x, found), found)
    found = fill_padding(steps, found)
    target = plain if made.sharded else made
    found = typecast(steps, found, target)
    return found if found is made else steps.run(sharded(found, made, steps.board), made)


def _is_view(x: CardOperand, made: CardOperand) -> bool:
    if x.shape == made.shape:
        return True
    if (1, *x.shape)[-1] != (1, *made.shape)[-1] or x.sharded != made.sharded or x.on_l1 != made.on_l1:
        return False
    before, after = ((1, 1, *y.shape)[-2] for y in (x, made))
    return x.layout != TILE or before == after or not (before % 32 or after % 32)


def _reshaped_rows(steps: Steps, x: CardOperand, made: CardOperand) -> CardOperand:
    if x.sharded:
        whole = CardOperand(x.shape, x.format, x.layout, x.memory)
        x = steps.run(unsharded(x, whole, steps.board), whole)
    if not made.sharded:
        return steps.run(_rows(x, made, steps.board), made)
    whole = replace(made, scheme="", shard=(0, 0), cores=(0, 0), turned=False)
    steps.run(_rows(x, whole, steps.board), whole)
    return steps.run(sharded(whole, made, steps.board), made)


def _rows(x: CardOperand, made: CardOperand, board: Board) -> CardProgram:
    """Scratchpads of data_movement/reshape_view/device/reshape_rm_program_factory.cpp: two rows to read and
    some to write, for each of one or two kernels."""
    if not x.shape or not made.shape:
        raise UnknownForm
    of_in, out = x.shape[-1] * element_size(x), made.shape[-1] * element_size(x)
    read, slot = (of_in - 1) // 64 * 64 + 128, (out - 1) // 64 * 64 + 80
    whole = not out % L1_ALIGNED
    kernels = 2 if (not of_in % out or not out % of_in) and (whole or made.memory != DRAM) else 1
    most = (board.room - 2 * read * kernels) // (slot * kernels)
    slots = 1 if whole and not of_in % L1_ALIGNED else max(1, min(_SLOTS, most))
    return opened("reshape", ("rows in", 2 * kernels, read), ("rows out", kernels * slots, slot))


def _tiled(x: CardOperand, made: CardOperand) -> CardProgram:
    """Buffers of data_movement/reshape_view/device/reshape_tiled_program_factory.cpp: a page of the map from
    elements to elements, a tile, and a scratchpad of a tile."""
    entries = _entries(_of_rank_3(x.shape), _of_rank_3(made.shape))
    return opened("reshape", ("map", 1, 16 * entries), ("in", 1, x.tile), ("tile", 1, made.tile))


def _of_rank_3(shape: tuple[int, ...]) -> tuple[int, ...]:
    shape = (1, 1, *shape)
    return (math.prod(shape[:-2]), *shape[-2:])


@functools.lru_cache(maxsize=1024)
def _entries(before: tuple[int, ...], after: tuple[int, ...]) -> int:
    """Entries of a page of the map (reshape_map_output_page): for each tile of the result, the runs of
    elements from the operand's tile that gives most, times the operand's tiles; then some padding."""
    rows, cols = before[-2:]
    down, across = after[-2:]
    most = 0
    for top in {0, down // 32 * 32 if down % 32 else 0}:
        for left in {0, across // 32 * 32 if across % 32 else 0}:
            size = min(32, down - top), min(32, across - left)
            most = max(most, _runs(_starts(before, after, top, left), size, across, rows, cols))
    return most + most % L1_ALIGNED


def _starts(before: tuple[int, ...], after: tuple[int, ...], top: int, left: int) -> np.ndarray:
    """Places in the flat tensor at which tiles of one size begin. Tiles that begin at the same place of the
    operand's planes (or of its rows of tiles, if planes have no padding) have equal maps."""
    planes, down, across = after
    tops = np.array([top]) if top else np.arange(0, max(down // 32 * 32, 1), 32)
    lefts = np.array([left]) if left else np.arange(0, max(across // 32 * 32, 1), 32)
    period = before[-1] * (before[-2] if before[-2] % 32 else 32)
    begins = np.arange(planes) * (down * across) % period
    begins = np.unique((begins[:, None] + (tops * across)[None]) % period)
    return np.unique((begins[:, None] + lefts[None]) % period)


def _runs(starts: np.ndarray, size: tuple[int, int], across: int, rows: int, cols: int) -> int:
    """The greatest product of runs and tiles over tiles of the result that begin at ``starts``."""
    most, inside = 0, np.arange(size[0])[:, None] * across + np.arange(size[1])[None]
    out = _in_faces(np.arange(size[0])[:, None], np.arange(size[1])[None]).ravel()
    for at in range(0, len(starts), 512):
        flat = starts[at : at + 512, None] + inside.ravel()[None]
        plane, place = flat // (rows * cols), flat % (rows * cols)
        row, col = place // cols, place % cols
        page = (plane * -(-rows // 32) + row // 32) * -(-cols // 32) + col // 32
        where = _in_faces(row % 32, col % 32)
        new = np.ones(flat.shape, bool)
        new[:, 1:] = (np.diff(page) != 0) | (np.diff(where) != 1) | (np.diff(out) != 1)[None]
        for pages, begins in zip(page, new, strict=True):
            _, group = np.unique(pages, return_inverse=True)
            counts = np.bincount(group[begins], minlength=group.max() + 1)
            most = max(most, int(counts.max()) * len(counts))
    return most


def _in_faces(row: np.ndarray, col: np.ndarray) -> np.ndarray:
    """Places of elements in a tile, whose faces of 16x16 elements follow each other."""
    return (row // 16 * 2 + col // 16) * 256 + row % 16 * 16 + col % 16
