"""Memory configurations, and the layouts of this package that they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.machine.layout import DRAM, L1, ROW_MAJOR, TILE
from ...base.machine.layout import Layout as Placed
from ...base.machine.nd_shards import NdShard
from ...base.machine.shards import Shard
from ..errors import Unsupported, check
from .cores import CoreGrid, CoreRange, CoreRangeSet, corerange_to_cores
from .values import (
    DEFAULT_TILE,
    TILE_SIZE,
    BufferType,
    DataType,
    Layout,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardStrategy,
    TensorMemoryLayout,
    Tile,
    tiled,
)

__all__ = [
    "DRAM_MEMORY_CONFIG",
    "L1_BLOCK_SHARDED_MEMORY_CONFIG",
    "L1_HEIGHT_SHARDED_MEMORY_CONFIG",
    "L1_MEMORY_CONFIG",
    "L1_WIDTH_SHARDED_MEMORY_CONFIG",
    "MemoryConfig",
    "NdShardSpec",
    "ShardSpec",
    "create_sharded_memory_config",
    "create_sharded_memory_config_",
    "matrix",
    "placed",
    "up",
    "with_spec",
]


class ShardSpec:
    """``grid`` the cores, ``shape`` (rows, columns) of a shard in elements, ``orientation``."""

    def __init__(
        self,
        grid: Any,
        shard_shape: Sequence[int],
        shard_orientation: ShardOrientation = ShardOrientation.ROW_MAJOR,
        *_: Any,
    ):
        self.grid = CoreRangeSet(grid) if isinstance(grid, (CoreRange, list, set, tuple)) else grid
        self.shape = [int(size) for size in shard_shape]
        self.orientation = shard_orientation

    def num_cores(self) -> int:
        return self.grid.num_cores()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardSpec) and (self.grid, self.shape, self.orientation) == (
            other.grid,
            other.shape,
            other.orientation,
        )

    def __hash__(self) -> int:
        return hash((self.grid, tuple(self.shape), self.orientation))

    def __repr__(self) -> str:
        return f"ShardSpec(grid={self.grid}, shape={self.shape}, orientation={self.orientation})"


@dataclass(frozen=True)
class NdShardSpec:
    """Shards of as many dimensions as ``shard_shape`` has."""

    shard_shape: Any
    grid: CoreRangeSet
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
    shard_distribution_strategy: ShardDistributionStrategy = ShardDistributionStrategy.ROUND_ROBIN_1D

    def __post_init__(self) -> None:
        object.__setattr__(self, "shard_shape", tuple(self.shard_shape))

    def num_cores(self) -> int:
        return self.grid.num_cores()


class MemoryConfig:
    """Where a tensor lies: MemoryConfig(memory_layout, buffer_type, shard_spec), or MemoryConfig(buffer_type,
    nd_shard_spec)."""

    __slots__ = ("buffer_type", "memory_layout", "nd_shard_spec", "shard_spec")

    def __init__(
        self,
        memory_layout: Any = TensorMemoryLayout.INTERLEAVED,
        buffer_type: Any = BufferType.DRAM,
        shard_spec: ShardSpec | None = None,
        nd_shard_spec: NdShardSpec | None = None,
    ):
        if isinstance(memory_layout, BufferType):
            if isinstance(buffer_type, NdShardSpec):
                nd_shard_spec = buffer_type
            buffer_type, memory_layout = memory_layout, TensorMemoryLayout.INTERLEAVED
        if nd_shard_spec is not None:
            memory_layout = TensorMemoryLayout.ND_SHARDED
        self.memory_layout, self.buffer_type = memory_layout, buffer_type
        self.shard_spec, self.nd_shard_spec = shard_spec, nd_shard_spec

    @property
    def interleaved(self) -> bool:
        return self.memory_layout is TensorMemoryLayout.INTERLEAVED

    def experimental_set_per_core_allocation(self, *_: Any) -> Any:
        op = "MemoryConfig.experimental_set_per_core_allocation"
        raise Unsupported(f"{op} is not supported", op=op)

    def is_sharded(self) -> bool:
        return not self.interleaved

    def with_shard_spec(self, spec: ShardSpec | None) -> MemoryConfig:
        return MemoryConfig(self.memory_layout, self.buffer_type, spec)

    def _key(self) -> tuple[Any, ...]:
        return self.memory_layout, self.buffer_type, self.shard_spec, self.nd_shard_spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryConfig) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"MemoryConfig(memory_layout={self.memory_layout}, buffer_type={self.buffer_type}, "
            f"shard_spec={self.shard_spec})"
        )


DRAM_MEMORY_CONFIG = MemoryConfig()
L1_MEMORY_CONFIG = MemoryConfig(buffer_type=BufferType.L1)
L1_HEIGHT_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1)
L1_WIDTH_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1)
L1_BLOCK_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1)

_KINDS = {
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
    """The layout of this package of a tensor on a device of ``grid`` cores. Raises RuntimeError for a sharded
    configuration without a shard specification, or one that does not fit; Unsupported for shards that are no
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
    kind = _KINDS[config.memory_layout]
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
    """The rows and columns of a shard of whole ``tile``s in whole tiles of 32x32."""
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
    """The banks of cores, in the order in which shards go round them: a core's L1, or the bank of DRAM of its
    column."""
    found = corerange_to_cores(cores, None, orientation is ShardOrientation.ROW_MAJOR)
    if memory == L1:
        check(all(c.x < grid.x and c.y < grid.y for c in found), op, f"{cores} are no cores of the device's")
        return tuple(core.y * grid.x + core.x for core in found)
    check(all(core.y == 0 for core in found), op, f"{cores} are no banks of DRAM: these are a row")
    return tuple(core.x for core in found)


def _nd(
    op: str, shape: Sequence[int], layout: Layout, memory: str, spec: NdShardSpec, grid: CoreGrid
) -> NdShard:
    sizes = [int(size) for size in spec.shard_shape]
    check(len(sizes) > 0, op, "a shard has a dimension at least")
    if len(sizes) == 1:
        check(len(shape) == 1, op, f"shards of one dimension cannot cut a tensor of {len(shape)}")
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
    """A multiple of ``step``, not below."""
    return -(-size // step) * step


def matrix(shape: Sequence[int], layout: Layout, tile: Tile = DEFAULT_TILE) -> tuple[int, int]:
    """Rows and columns of a tensor as the matrix that is cut."""
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
    """A sharded configuration without shard specification with the one that ttnn gives a result: on the cores
    of ``like`` where that is sharded, else on as many of the device's as there are shards."""
    if config.interleaved or config.shard_spec is not None or config.nd_shard_spec is not None:
        return config
    both = matrix(shape, layout, tile)
    steps = tile.tile_shape if layout is Layout.TILE else (1, 1)
    orientation = ShardOrientation.ROW_MAJOR
    ranges = CoreRangeSet([CoreRange((0, 0), (grid.x - 1, grid.y - 1))])
    if like is not None and like.shard_spec is not None:
        ranges, orientation = like.shard_spec.grid, like.shard_spec.orientation
    box = ranges.bounding_box().grid_size()
    down, across = (box.x, box.y) if orientation is ShardOrientation.COL_MAJOR else (box.y, box.x)
    cut = {
        TensorMemoryLayout.HEIGHT_SHARDED: (ranges.num_cores(), 1),
        TensorMemoryLayout.WIDTH_SHARDED: (1, ranges.num_cores()),
        TensorMemoryLayout.BLOCK_SHARDED: (down, across),
    }[config.memory_layout]
    sizes = [max(n, up(-(-size // parts), n)) for size, parts, n in zip(both, cut, steps, strict=True)]
    return config.with_shard_spec(ShardSpec(ranges, sizes, orientation))


_STRATEGIES = {
    ShardStrategy.HEIGHT: TensorMemoryLayout.HEIGHT_SHARDED,
    ShardStrategy.WIDTH: TensorMemoryLayout.WIDTH_SHARDED,
    ShardStrategy.BLOCK: TensorMemoryLayout.BLOCK_SHARDED,
}


def _cores(core_grid: Any, use_height_and_width_as_shard_shape: bool) -> tuple[CoreRangeSet, Any]:
    """The cores as ranges, and their (x, y)."""
    if isinstance(core_grid, CoreGrid):
        return CoreRangeSet([CoreRange((0, 0), (core_grid.x - 1, core_grid.y - 1))]), core_grid
    if isinstance(core_grid, CoreRangeSet):
        if not use_height_and_width_as_shard_shape:
            raise RuntimeError("height and width must be shard shape with CoreRangeSet")
        return core_grid, core_grid.bounding_box().grid_size()
    if isinstance(core_grid, (list, tuple)) and len(core_grid) == 2:
        first, last = core_grid
        ranges = CoreRangeSet([CoreRange((first.x, first.y), (last.x, last.y))])
        return ranges, ranges.bounding_box().grid_size()
    raise RuntimeError("Invalid core_grid type")


def _cut(strategy: Any, orientation: ShardOrientation, grid: Any, num_cores: int) -> tuple[int, int]:
    """How many shards down and across."""
    if strategy is TensorMemoryLayout.HEIGHT_SHARDED:
        return num_cores, 1
    if strategy is TensorMemoryLayout.WIDTH_SHARDED:
        return 1, num_cores
    return (grid.x, grid.y) if orientation is ShardOrientation.COL_MAJOR else (grid.y, grid.x)


def create_sharded_memory_config(
    shape: Sequence[int],
    core_grid: Any,
    strategy: ShardStrategy,
    orientation: ShardOrientation | None = None,
    use_height_and_width_as_shard_shape: bool = False,
    *,
    halo: bool = False,
) -> MemoryConfig:
    """A configuration in L1 that cuts ``shape`` evenly over ``core_grid``; with the flag the last two sizes
    of ``shape`` are the shard's. Raises RuntimeError where the cores do not divide it."""
    orientation = orientation or ShardOrientation.ROW_MAJOR
    if strategy not in _STRATEGIES:
        raise RuntimeError("Invalid sharding strategy")
    kind = _STRATEGIES[strategy]
    ranges, grid = _cores(core_grid, use_height_and_width_as_shard_shape)
    rows, cols = math.prod(shape[:-1]), shape[-1]
    if use_height_and_width_as_shard_shape:
        sizes = [shape[-2], shape[-1]]
        if orientation is ShardOrientation.COL_MAJOR:
            sizes.reverse()
    else:
        down, across = _cut(kind, orientation, grid, ranges.num_cores())
        if rows % down or cols % across:
            raise RuntimeError("Invalid sharding core_grid")
        sizes = [rows // down, cols // across]
    return MemoryConfig(kind, BufferType.L1, ShardSpec(ranges, sizes, orientation))


def create_sharded_memory_config_(
    shape: Sequence[int],
    core_grid: Any,
    strategy: Any,
    orientation: ShardOrientation | None = None,
    use_height_and_width_as_shard_shape: bool = False,
    tile_layout: bool = False,
    **_: Any,
) -> MemoryConfig:
    """As create_sharded_memory_config, but shards are rounded up; with ``tile_layout`` to whole tiles."""
    orientation = orientation or ShardOrientation.ROW_MAJOR
    kind = _STRATEGIES.get(strategy, strategy)
    ranges, grid = _cores(core_grid, True)
    if use_height_and_width_as_shard_shape:
        return MemoryConfig(kind, BufferType.L1, ShardSpec(ranges, list(shape[-2:]), orientation))
    down, across = _cut(kind, orientation, grid, ranges.num_cores())
    rows, cols = -(-math.prod(shape[:-1]) // down), -(-shape[-1] // across)
    if tile_layout:
        rows, cols = (-(-size // TILE_SIZE) * TILE_SIZE for size in (rows, cols))
    return MemoryConfig(kind, BufferType.L1, ShardSpec(ranges, [rows, cols], orientation))
