"""Card programs that look elements up by their indices. Sizes are those that ttnn 0.81.1 opens; its factories
differ in places from the files that are named here."""

from __future__ import annotations

import math

from ...base.machine.layout import TILE, TILE_DIM
from .buffers import BF16, CardOperand, CardProgram, CircularBuffer, round_up, tiles
from .movement.steps import opened

_LOOKUP = 1 << 20  # most bytes of a row of the table that are buffered at a time
_TWICE = 64  # most tiles of a row for which two rows are held
_LINE = 32  # bytes to which a part of the indices is padded


def embedded(
    table: CardOperand, indices: CardOperand, result: CardOperand, cores: int, aligned: int = 32
) -> CardProgram:
    """Buffers of embedding/device/embeddings_{rm,fused,tilized_indices}_program_factory.cpp: rows of the
    table, and indices. A result in tiles takes a row of tiles of the table and of the result at a time, in
    parts if a row exceeds 1 MiB. ``cores``: number of cores that share the rows; ``aligned``: alignment in
    bytes of reads from the memory of the indices."""
    across = tiles(table.shape[-1])
    shard = result.sharded and result.on_l1
    if result.layout == TILE:
        across = tiles(result.shard[1]) if shard else across
        pages = across * (1 if across > _TWICE else 2)
        if 2 * across * table.tile > _LOOKUP:
            pages = 2 * min(_LOOKUP // table.tile, across, _TWICE)
        out = CircularBuffer("out", result.shard_tiles if shard else pages, result.tile, borrowed=shard)
        rows = CircularBuffer("rows", pages, table.tile)
        read = CircularBuffer("indices", TILE_DIM, indices.element)
        return CardProgram.of("embedding to tiles", [rows, out, read])
    row = min(round_up(table.shape[-1] * table.element, max(_LINE, aligned)), _LOOKUP)
    if indices.layout == TILE:
        return opened("embedding by tiles", ("rows", 2, row), ("indices", 1, indices.tile))
    out = CircularBuffer("out", 2 if math.prod(indices.shape) > cores else 1, row, borrowed=shard)
    read = CircularBuffer("indices", aligned // indices.element, _LINE)
    return CardProgram.of("embedding", [out, read])


def gathered(x: CardOperand, index: CardOperand) -> CardProgram:
    """Buffers of data_movement/gather/device/gather_program_factory.cpp along rows: a row of tiles, and a
    tile each of indices and of results. 16-bit floats of interleaved tensors are gathered by elements, into
    a row of at least four tiles."""
    row, by_element = tiles(x.shape[-1]), x.format == BF16 and not x.sharded
    return opened(
        "gather",
        ("in", row, x.tile),
        ("indices", 1, index.tile),
        ("out", max(4, tiles(index.shape[-1])) if by_element else 1, x.tile),
    )
