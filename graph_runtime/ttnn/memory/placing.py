"""This package's layout for a memory configuration: it says which core or bank holds which part of a
tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.machine.layout import DRAM, L1, ROW_MAJOR, TILE
from ...base.machine.layout import Layout as Placed
from ...base.machine.nd_shards import NdShard
from ...base.machine.shards import Shard
from ..errors import Unsupported, check
from .configs import MemoryConfig, NdShardSpec, ShardSpec, parts_of
from .cores import CoreGrid, CoreRange, CoreRangeSet, corerange_to_cores
from .values import (
    DEFAULT_TILE,
    TILE_SIZE,
    BufferType,
    DataType,
    Layout,
    ShardDistributionStrategy,
    ShardOrientation,
    TensorMemoryLayout,
    Tile,
    tiled,
)

SCHEMES = {
    TensorMemoryLayout.HEIGHT_SHARDED: "height",
    TensorMemoryLayout.WIDTH_SHARDED: "width",
    TensorMemoryLayout.BLOCK_SHARDED: "block",
}
_MEMORIES = {BufferType.DRAM: DRAM, BufferType.L1: L1, BufferType.L1_SMALL: L1}


def placed(
    op: str,
    shape: Sequence[int],
    dtype: DataType,
    layout: Layout,
    config: MemoryConfig,
    grid: CoreGrid,
    tile: Tile = DEFAULT_TILE,
) -> Placed:
    """This package's layout of a tensor on a device of ``grid`` cores. Raises RuntimeError for a sharded
    configuration whose shard specification is missing or does not fit, Unsupported for shards that are not
    whole tiles of 32x32."""
    check(config.buffer_type in _MEMORIES, op, f"A tensor cannot be allocated in {config.buffer_type}")
    memory, how = _MEMORIES[config.buffer_type], TILE if layout is Layout.TILE else ROW_MAJOR
    if config.interleaved:
        return Placed(memory, how, dtype.stored[1])
    if config.nd_shard_spec is not None:
        cut = _nd(op, shape, layout, memory, config.nd_shard_spec, grid)
        return Placed(memory, how, dtype.stored[1], None, cut)
    spec = config.shard_spec
    check(spec is not None, op, "Shard spec must not be None for sharded tensors")
    assert spec is not None
    rows, cols = spec.shape
    check(rows > 0 and cols > 0, op, f"Shard shape {spec.shape} must be greater than 0")
    if layout is Layout.TILE:
        rows, cols = _in_tiles(op, shape, (rows, cols), tile)
    kind = SCHEMES[config.memory_layout]
    height, width = matrix(shape, layout)
    if kind == "height":
        cols = _whole(op, "width", cols, width)
    if kind == "width":
        rows = _whole(op, "height", rows, height)
    turned = "col" if spec.orientation is ShardOrientation.COL_MAJOR else "row"
    if memory == L1 and spec.grid.size() == 1:
        found = spec.grid.ranges()[0]
        corners = ((found.start.y, found.start.x), (found.end.y, found.end.x))
        return Placed(memory, how, dtype.stored[1], Shard(kind, corners, (rows, cols), turned))
    count = -(-height // max(rows, 1)) * -(-width // max(cols, 1))
    text = f"Number of shards {count} must not exceed number of cores {spec.grid.num_cores()}"
    check(count <= spec.grid.num_cores(), op, text)
    banks = _banks(op, spec.grid, spec.orientation, memory, grid)
    box = spec.grid.bounding_box().grid_size()
    line = (box.y if turned == "col" else box.x) if kind == "block" else 0
    return Placed(memory, how, dtype.stored[1], None, NdShard((rows, cols), banks, line))


def _in_tiles(op: str, shape: Sequence[int], shard: tuple[int, int], tile: Tile) -> tuple[int, int]:
    """(rows, columns) of tiles of 32x32 in a shard of whole tiles of the shape ``tile``."""
    whole = not any(size % step for size, step in zip(shard, tile.tile_shape, strict=True))
    check(
        whole,
        op,
        f"Physical shard shape {shard} must be tile {{{tile.tile_shape[0]}, {tile.tile_shape[1]}}} sized!",
    )
    if tile.tile_shape == DEFAULT_TILE.tile_shape:
        return shard
    wide, own = matrix(shape, Layout.TILE), matrix(shape, Layout.TILE, tile)
    one = math.prod(shape[:-2]) == 1
    for size, all_of, padded in zip(shard, own, wide, strict=True):
        if (size % TILE_SIZE and size < all_of) or (all_of != padded and not one):
            text = f"{op}: shards {shard} in tiles of {tile.tile_shape} are not supported: tiles lie as 32x32"
            raise Unsupported(text, op=op)
    return up(shard[0], TILE_SIZE), up(shard[1], TILE_SIZE)


def _banks(
    op: str, cores: CoreRangeSet, orientation: ShardOrientation, memory: str, grid: CoreGrid
) -> tuple[int, ...]:
    """The banks of cores, in the order in which they get shards. The bank of a core is its L1, or the bank of
    DRAM in its column."""
    found = corerange_to_cores(cores, None, orientation is ShardOrientation.ROW_MAJOR)
    if memory == L1:
        check(
            all(c.x < grid.x and c.y < grid.y for c in found), op, f"{cores} are not all cores of the device"
        )
        return tuple(core.y * grid.x + core.x for core in found)
    check(
        all(core.y == 0 for core in found),
        op,
        f"{cores} are not all banks of DRAM: the banks are a row of cores, with y = 0",
    )
    return tuple(core.x for core in found)


def _nd(
    op: str, shape: Sequence[int], layout: Layout, memory: str, spec: NdShardSpec, grid: CoreGrid
) -> NdShard:
    sizes = [int(size) for size in spec.shard_shape]
    check(len(sizes) > 0, op, "a shard must have one dimension or more")
    if len(sizes) == 1:
        check(len(shape) == 1, op, f"shards of one dimension cannot cut a tensor of {len(shape)} dimensions")
        sizes.insert(0, 1)
    if layout is Layout.TILE:
        sizes[-2:] = (up(size, TILE_SIZE) for size in sizes[-2:])
    if spec.shard_distribution_strategy is ShardDistributionStrategy.GRID_2D:
        raise Unsupported(f"{op}: ND shards on a grid of two dimensions are not supported", op=op)
    return NdShard(tuple(sizes), _banks(op, spec.grid, spec.orientation, memory, grid))


def _whole(op: str, side: str, given: int, wanted: int) -> int:
    check(given >= wanted, op, f"Shard {side} {given} must cover the physical {side} {wanted} of the tensor")
    return wanted


def up(size: int, step: int) -> int:
    """``size`` rounded up to a multiple of ``step``."""
    return -(-size // step) * step


def matrix(shape: Sequence[int], layout: Layout, tile: Tile = DEFAULT_TILE) -> tuple[int, int]:
    """(rows, columns) of the matrix whose blocks are the shards of a tensor."""
    sizes = (1, 1, *(tiled(shape, tile) if layout is Layout.TILE else shape))
    if layout is Layout.TILE and len(shape) < 2:
        rows, cols = tile.tile_shape
        sizes = (1, rows, *sizes[-1:]) if shape else (1, rows, cols)
    return math.prod(sizes[:-1]), sizes[-1]


def with_spec(
    config: MemoryConfig,
    shape: Sequence[int],
    layout: Layout,
    like: MemoryConfig | None,
    grid: CoreGrid,
    tile: Tile = DEFAULT_TILE,
) -> MemoryConfig:
    """``config``, a sharded configuration without shard specification, completed as ttnn completes the
    configuration of a result: with the cores of ``like`` if ``like`` is sharded, else with the device's grid.
    """
    if config.interleaved or config.shard_spec is not None or config.nd_shard_spec is not None:
        return config
    both = matrix(shape, layout, tile)
    steps = tile.tile_shape if layout is Layout.TILE else (1, 1)
    orientation = ShardOrientation.ROW_MAJOR
    ranges = CoreRangeSet([CoreRange((0, 0), (grid.x - 1, grid.y - 1))])
    if like is not None and like.shard_spec is not None:
        ranges, orientation = like.shard_spec.grid, like.shard_spec.orientation
    cut = parts_of(config.memory_layout, orientation, ranges)
    sizes = [max(n, up(-(-size // parts), n)) for size, parts, n in zip(both, cut, steps, strict=True)]
    return config.with_shard_spec(ShardSpec(ranges, sizes, orientation))
