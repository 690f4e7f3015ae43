"""Steps of slice and split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....base.machine.layout import L1, TILE
from ..buffers import CardOperand, CardProgram, CircularBuffer, ceil_div, round_up
from .relocations import to_memory
from .steps import L1_ALIGNED, Board, Steps, UnknownForm, element_size, opened
from .tiling import in_rows, to_rows, to_tiles

_MOST_READ = 4096  # bytes that a core reads from DRAM before it waits


@dataclass(frozen=True)
class SliceBounds:
    """The elements of a slice: from ``begin`` to before ``end`` in steps of ``step``, for each dimension."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    step: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(ceil_div(e - b, s) for b, e, s in zip(self.begin, self.end, self.step, strict=True))

    @property
    def strided(self) -> bool:
        return any(s != 1 for s in self.step)


def sliced(steps: Steps, x: CardOperand, cut: SliceBounds, made: CardOperand) -> CardOperand:
    """Steps of slice (data_movement/slice/slice.cpp): tiles that are not cut at tiles are sliced as rows."""
    if not x.shape or (cut.shape == x.shape and not any(cut.begin)):
        return to_memory(steps, x, made)
    tiled = x.layout == TILE
    whole = len(x.shape) > 1 and not any(b % 32 for b in cut.begin[-2:]) and not cut.strided
    if not tiled and (_badly_cut(x, made, cut) or _rows_badly_cut(made, x)):
        return _by_way_of_l1(steps, x, cut, made)
    if tiled and whole:
        return steps.run(_slice(x, made, cut, steps.board), made)
    if not tiled:
        return steps.run(_slice(x, made, cut, steps.board), made)
    if x.sharded or made.sharded:
        raise UnknownForm
    rows = to_rows(steps, x, replace(in_rows(x), memory=made.memory))
    part = replace(rows, shape=cut.shape)
    steps.run(_slice(rows, part, cut, steps.board), part)
    return to_tiles(steps, part, made)


def _by_way_of_l1(steps: Steps, x: CardOperand, cut: SliceBounds, made: CardOperand) -> CardOperand:
    plain = CardOperand(x.shape, x.format, x.layout, L1)
    x = to_memory(steps, x, plain) if _badly_cut(x, made, cut) else x
    part = made if made.on_l1 and not made.sharded else replace(plain, shape=cut.shape)
    part = steps.run(_slice(x, part, cut, steps.board), part)
    return to_memory(steps, part, made)


def _badly_cut(x: CardOperand, made: CardOperand, cut: SliceBounds) -> bool:
    """Whether sharded rows are made interleaved before they are sliced."""
    if not x.sharded:
        return False
    if x.scheme != "height":
        return bool(x.shape[-1] % 32 or cut.begin[-1] or x.shard[1] * x.element % L1_ALIGNED)
    stays = made.scheme == "height" and not cut.strided
    return any(size % 32 for size in x.shape[-2:]) and not stays


def _rows_badly_cut(made: CardOperand, x: CardOperand) -> bool:
    """Whether rows are sliced before they are cut into shards."""
    if made.scheme not in ("width", "block"):
        return False
    return bool(x.shape[-1] % 32 or made.shard[1] * made.element % L1_ALIGNED)


def tile_slice(x: CardOperand) -> CardProgram:
    """Buffers of data_movement/slice/device/slice_program_factory_tile.cpp: two tiles, and the place."""
    return opened("slice", ("tiles", 2, x.tile), ("place", 1, 4 * max(4, len(x.shape))))


def _slice(x: CardOperand, made: CardOperand, cut: SliceBounds, board: Board) -> CardProgram:
    """Buffers of data_movement/slice/device/slice_program_factory_{tile,rm,rm_stride,rm_sharded}.cpp."""
    counts = ("place", 1, 4 * len(x.shape))
    if x.layout == TILE:
        return opened("slice", ("tiles", 2, x.tile), counts)
    element = element_size(x)
    aligned = max(board.aligned(x.memory), board.aligned(made.memory))
    start = cut.begin[-1] * element
    if x.scheme == made.scheme == "height" and not cut.strided and not start % L1_ALIGNED:
        names = ((y, name) for y, name in ((x, "in"), (made, "out")))
        buffers = [CircularBuffer(name, y.shard[0], board.page(y), borrowed=y.on_l1) for y, name in names]
        return CardProgram.of("slice", buffers)
    if cut.strided:
        return opened("slice", ("rows", 2, round_up(x.shape[-1] * element, aligned)))
    row = cut.shape[-1] * element
    apart = 2 if start % board.aligned(x.memory) else 1
    page = round_up(row, aligned * apart)
    if 2 * page > board.room:
        raise UnknownForm
    rows = math.prod(cut.shape[:-1])
    each = round_up(ceil_div(rows, board.cores), 32)
    reads = each // _merged(each, round_up(row, aligned))
    return opened("slice", ("rows", 2 * reads, page), counts)


def _merged(rows: int, row: int) -> int:
    """Reads that fetch a number of rows, each read of at most _MOST_READ bytes
    (tt_metal/common/work_split.cpp, merge_num_sticks_to_read)."""
    total, found = rows * row, rows
    for size in range(row, _MOST_READ + 1, row):
        if not total % size:
            found = total // size
    return found


def split(
    steps: Steps, x: CardOperand, sizes: Sequence[int], dim: int, made: CardOperand, grid: tuple[int, int]
) -> None:
    """Steps of split (data_movement/split/split.cpp): one card program on tiles for equal parts of the last
    dimension, else a slice for each part. ``made``: a part; all parts have its memory. ``grid``: cores across
    and down."""
    if len(sizes) > 1 and x.layout == TILE and _one_program(x, sizes, dim, grid):
        steps.run(opened("split", ("tiles", 2, x.tile)), made)
        return
    if x.on_l1 and not made.on_l1 and len(sizes) > 2:
        x = to_memory(steps, x, CardOperand(x.shape, x.format, x.layout, made.memory))
    if len(set(sizes)) == 1 and len(sizes) > _MOST_PARTS:
        if made.on_l1:
            raise UnknownForm
        for at in range(0, len(sizes), _MOST_PARTS):
            some = sizes[at : at + _MOST_PARTS]
            shape = tuple(sum(some) if d == dim else n for d, n in enumerate(x.shape))
            part = replace(made, shape=shape)
            _part(steps, x, at * sizes[0], sum(some), dim, part)
            _parts(steps, part, some, dim, made)
    else:
        _parts(steps, x, sizes, dim, made)


_MOST_PARTS = 64  # parts that ttnn slices from one tensor


def _parts(steps: Steps, x: CardOperand, sizes: Sequence[int], dim: int, made: CardOperand) -> None:
    at = 0
    for size in sizes:
        _part(steps, x, at, size, dim, made)
        at += size


def _part(steps: Steps, x: CardOperand, at: int, size: int, dim: int, made: CardOperand) -> None:
    """A slice; the tensors that it makes are freed, except the slice."""
    begin = tuple(at if d == dim else 0 for d in range(len(x.shape)))
    end = tuple(at + size if d == dim else n for d, n in enumerate(x.shape))
    with steps.alone(made):
        sliced(steps, x, SliceBounds(begin, end, (1,) * len(x.shape)), made)


def _one_program(x: CardOperand, sizes: Sequence[int], dim: int, grid: tuple[int, int]) -> bool:
    rank, count = len(x.shape), len(sizes)
    if rank < 2 or dim != rank - 1 or len(set(sizes)) > 1 or rank > 4:
        return False
    full = (*(1,) * (4 - rank), *x.shape)
    planes = full[0] * full[1] if count == 2 else full[1]
    whole = not x.shape[-1] % 32 and not x.shape[-1] // 32 % count
    tall = x.shape[-2] // 32 >= 2 and x.shape[-1] // 32 >= 2
    return planes <= grid[0] and count <= grid[1] and whole and tall and (count == 2 or full[0] == 1)
