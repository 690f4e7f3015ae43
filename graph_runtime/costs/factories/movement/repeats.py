"""Steps of repeat and expand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ....base.machine.layout import DRAM, TILE
from ..buffers import BFP8, CardOperand, CardProgram
from .relocations import to_memory
from .steps import Board, Steps, UnknownForm, element_size, opened
from .tiling import in_rows, to_rows, to_tiles

_BATCH = 4  # pages that a core reads at once
_NOC_READ = 64  # bytes to which the older kernels align reads


def repeated(steps: Steps, x: CardOperand, times: Sequence[int], made: CardOperand) -> CardOperand:
    """Steps of repeat (data_movement/repeat/repeat.cpp and its codegen/): a card program for each repeated
    dimension, in rows if tiles have padding along one of the last two dimensions that are repeated."""
    rank = max(len(x.shape), len(times))
    x = replace(x, shape=(*(1,) * (rank - len(x.shape)), *x.shape))
    times = (*(1,) * (rank - len(times)), *times)
    if all(n == 1 for n in times):
        return to_memory(steps, x, made)
    if rank < 2 or not all(times):
        raise UnknownForm
    ends = x.shape[-2:]
    rows = x.layout == TILE and any(s % 32 for s in ends) and max(times[-2:]) > 1
    if _in_shards(x, times, made):
        return steps.run(_older_repeat(x, times[-1] > 1, 1), made)
    if rank > 4 or (x.format == BFP8 and (rows or x.layout != TILE)):
        return _older(steps, x, times, made)
    return _generated(steps, x, times, made, rows)


def _generated(
    steps: Steps, x: CardOperand, times: Sequence[int], made: CardOperand, rows: bool
) -> CardOperand:
    board = steps.board
    between = x.memory
    if x.sharded and (rows or not _even(x)):
        between = DRAM
        x = to_memory(steps, x, CardOperand(x.shape, x.format, x.layout, DRAM))
    if rows:
        x = to_rows(steps, x, replace(in_rows(x), memory=between, scheme=""), direct=True)
    in_tiles = x.layout == TILE
    times, dims = _legs(x, times, in_tiles)
    even = not made.sharded or _even(made)
    for d in dims:
        shape = tuple(n * (times[d] if at == d else 1) for at, n in enumerate(x.shape))
        last = d == dims[-1]
        target = replace(x, shape=shape, memory=made.memory if last else between, scheme="")
        if last and not rows and even and math.prod(shape) == math.prod(made.shape):
            target = made
        next_ = steps.run(_repeat(x, target, d + 4 - len(shape), times[d], board), target)
        steps.free(x)
        x = next_
    if rows:
        return to_tiles(steps, x, made)
    return x if x is made else to_memory(steps, x, made)


def _in_shards(x: CardOperand, times: Sequence[int], made: CardOperand) -> bool:
    """Whether the older kernels repeat rows inside of their shards (repeat_codegen_supported.cpp,
    is_demoted): along the last dimension, or parts of rows."""
    if x.layout == TILE or not x.on_l1 or not made.on_l1 or not x.sharded or x.scheme != made.scheme:
        return False
    if sum(n > 1 for n in times) != 1:
        return False
    down, across = x.cores
    if x.scheme == "height":
        return times[-1] > 1 and across > down and _even(x)
    height, width = math.prod(x.shape[:-1]), x.shape[-1]
    parts = not height % x.shard[0] and not width % x.shard[1] and x.shard[1] < width
    return parts and times[-1] == 1 and x.cores == made.cores and x.scheme == "width"


def _even(x: CardOperand) -> bool:
    """Whether shards fill their cores without padding, and hold whole rows if these are not tiles."""
    if len(x.shape) < 2:
        return False
    unit = 32 if x.layout == TILE else 1
    height = x.batch * -(-x.shape[-2] // unit) * unit
    width = -(-x.shape[-1] // unit) * unit
    tall, wide = x.shard
    if not tall or not wide or tall % unit or wide % unit or height % tall or width % wide:
        return False
    down, across = height // tall, width // wide
    if x.layout != TILE and across != 1:
        return False
    if x.scheme == "block":
        return (down, across) == (x.cores[::-1] if x.turned else x.cores)
    return (across if x.scheme == "height" else down) == 1


def _legs(x: CardOperand, times: Sequence[int], tiled: bool) -> tuple[list[int], list[int]]:
    """(times with those of leading ones moved into the next dimension, dimensions in the order in which they
    are repeated)."""
    found, rank = list(times), len(times)
    for d in range(rank - (3 if tiled else 2)):
        if x.shape[d] == 1 and found[d] > 1 and found[d + 1] > 1:
            found[d + 1] *= found[d]
            found[d] = 1
    dims = [d for d in (range(rank) if tiled else reversed(range(rank))) if found[d] > 1]
    return found, dims


def _repeat(x: CardOperand, made: CardOperand, dim: int, times: int, board: Board) -> CardProgram:
    """Buffers of data_movement/repeat/codegen/repeat_codegen_program_factory.cpp: eight pages, or one tile if
    tiles are written to L1 as often as needed. ``dim``: of the shape as rank 4."""
    if x.layout == TILE:
        direct = dim < 2 and made.on_l1 and made.scheme != "block"
        return opened(
            "repeat", ("pages", 1 if direct else 2 * _BATCH, x.tile if direct else board.page(made))
        )
    slot = max(board.page(x), board.page(made))
    most = board.room // slot
    if not most:
        raise UnknownForm
    return opened("repeat", ("pages", 1 if most == 1 else 2 * min(_BATCH, most // 2), slot))


def _older(steps: Steps, x: CardOperand, times: Sequence[int], made: CardOperand) -> CardOperand:
    """Steps of repeat_native of data_movement/repeat/repeat.cpp, which repeats bfp8 with padding, and ranks
    above 4."""
    if x.sharded or made.sharded:
        raise UnknownForm
    whole = x.layout == TILE and not any(s % 32 for s in x.shape[-2:])
    rows = x.layout == TILE and not whole
    if rows:
        x = to_rows(steps, x, in_rows(x))
    dims = [d for d in reversed(range(len(times))) if times[d] > 1]
    for d in dims:
        shape = tuple(n * (times[d] if at == d else 1) for at, n in enumerate(x.shape))
        last = d == dims[-1] and not rows
        target = made if last else replace(x, shape=shape, memory=made.memory)
        next_ = steps.run(_older_repeat(x, d == len(times) - 1), target)
        steps.free(x)
        x = next_
    return to_tiles(steps, x, made) if rows else x


def _older_repeat(x: CardOperand, last: bool, copies: int = 2) -> CardProgram:
    """Buffers of data_movement/repeat/device/repeat_program_factory_{last,higher}_dim.cpp: a row twice, or
    once if rows lie in shards; along the last dimension, as many rows as end at 16 bytes."""
    if x.layout == TILE:
        return opened("repeat", ("tile", 1, x.tile + 2 * _NOC_READ))
    row = x.shape[-1] * element_size(x)
    if last:
        row *= next(n for n in (1, 2, 4, 8, 16) if not row * n % 16)
    return opened("repeat", ("rows", copies, row + 2 * _NOC_READ))
