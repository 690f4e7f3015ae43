"""Card programs that move elements: layouts, shards, transposes, joins, lookups."""

from __future__ import annotations

from ...base.machine.layout import DRAM, TILE, TILE_DIM
from .buffers import CardOperand, CardProgram, CircularBuffer, ceil_div, round_up

_ALIGNED = {DRAM: 32}  # {memory: alignment in bytes of reads from it}; 16 for other memories
_L1_ALIGNED = 16


def tilized(x: CardOperand, result: CardOperand) -> CardProgram:
    """Buffers of data_movement/tilize/device/*.cpp: a row of tiles of each tensor, or a view of its shard."""
    if x.sharded and result.sharded and x.on_l1 and result.on_l1:
        pages = result.shard_tiles
        sizes = (("in", result.tile if x.format == result.format else x.tile), ("out", result.tile))
        return CardProgram.of("tilize", [CircularBuffer(n, pages, size, borrowed=True) for n, size in sizes])
    across = ceil_div(x.shape[-1], TILE_DIM)
    return CardProgram.of(
        "tilize", [CircularBuffer("in", across, x.tile), CircularBuffer("out", across, result.tile)]
    )


def untilized(x: CardOperand, result: CardOperand, cores: int) -> CardProgram:
    """Buffers of data_movement/untilize/device/factories/untilize_multi_core_program_factory.cpp: two rows of
    tiles of each tensor, or one row if a core has a single row. A sharded operand has a view of its shard
    instead; so has a result in the same shards."""
    down, across = x.matrix
    if x.sharded and x.on_l1:
        across, blocks = x.shard[1] // TILE_DIM, x.shard[0] // TILE_DIM
        source = CircularBuffer("in", x.shard_tiles, x.tile, borrowed=True)
    else:
        blocks = ceil_div(down, cores)
        source = CircularBuffer("in", across if blocks == 1 else 2 * across, x.tile)
    same = (
        x.on_l1 and x.sharded and (x.memory, x.shard, x.cores) == (result.memory, result.shard, result.cores)
    )
    out = CircularBuffer("out", across if blocks == 1 else 2 * across, result.tile, borrowed=same)
    return CardProgram.of("untilize", [source, out])


def resharded(x: CardOperand, result: CardOperand, aligned: int = 32) -> CardProgram:
    """Buffers of data_movement/sharded/{interleaved_to_sharded,sharded_to_interleaved,reshard}/device/*.cpp:
    shards are views. A change of format needs another buffer of the shard's size. Rows in DRAM that are not
    aligned to ``aligned`` bytes need a buffer of a few rows."""
    cut = result if result.sharded else x
    if cut.layout == TILE:
        pages, unit = cut.shard_tiles, (x.tile, result.tile)
    else:
        pages, unit = cut.shard[0], (cut.shard[1] * x.element, cut.shard[1] * result.element)
    of_in, out = (round_up(size, _L1_ALIGNED) for size in unit)
    both = x.format != result.format
    if x.sharded and result.sharded:
        return CardProgram.of("reshard", [CircularBuffer("shard", pages, out, borrowed=True)])
    if not result.sharded:
        buffers = [CircularBuffer("shard", pages, of_in, borrowed=True)]
        return CardProgram.of("unshard", [*buffers, CircularBuffer("out", pages if both else 0, out)])
    buffers = [CircularBuffer("shard", pages, out, borrowed=result.on_l1)]
    if both:
        buffers.append(CircularBuffer("in", pages, round_up(unit[0], _ALIGNED.get(x.memory, _L1_ALIGNED))))
    if (x.memory == DRAM and unit[0] % aligned) or aligned > _ALIGNED[DRAM]:
        buffers.append(CircularBuffer("unaligned", 4, round_up(unit[0] + aligned, aligned)))
    return CardProgram.of("shard", buffers)


def copied(x: CardOperand, result: CardOperand) -> CardProgram:
    """Buffers of data_movement/copy, of slice and pad on tiles, and of permute of the dimensions before the
    last two: two pages."""
    page = max(x.page, result.page)
    return CardProgram.of("copy", [CircularBuffer("pages", 2, page)])


def transposed(x: CardOperand, result: CardOperand) -> CardProgram:
    """Buffers of data_movement/transpose/device/transpose_wh_program_factory.cpp: two tiles of each tensor;
    for row-major tensors also a plane of tiles."""
    if x.layout == TILE:
        return CardProgram.of(
            "transpose", [CircularBuffer("in", 2, x.tile), CircularBuffer("out", 2, result.tile)]
        )
    rows, cols = (ceil_div(size, TILE_DIM) for size in (1, *x.shape)[-2:])
    buffers = [
        CircularBuffer("in", 2 * cols, x.tile),
        CircularBuffer("out", 2 * rows, result.tile),
        CircularBuffer("tilized", rows * cols, x.tile),
        CircularBuffer("column", rows, result.tile),
    ]
    return CardProgram.of("transpose", buffers)


def concatenated(result: CardOperand) -> CardProgram:
    """Buffers of data_movement/concat/device/concat_program_factory.cpp: two pages."""
    return CardProgram.of("concat", [CircularBuffer("pages", 2, round_up(result.page, _ALIGNED[DRAM]))])
