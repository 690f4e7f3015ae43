"""Memory configurations: memories, shards, and functions that make sharded configurations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Unsupported
from .as_json import AsJson
from .cores import CoreGrid, CoreRange, CoreRangeSet
from .values import (
    TILE_SIZE,
    BufferType,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardStrategy,
    TensorMemoryLayout,
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
]


class ShardSpec(AsJson):
    """A cut of a tensor into shards. ``grid``: the cores; ``shape``: (rows, columns) of a shard in elements;
    ``orientation``: order in which cores get shards, along rows or down columns."""

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

    def _key(self) -> tuple[Any, ...]:
        return self.grid, tuple(self.shape), self.orientation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"ShardSpec(grid={self.grid}, shape={self.shape}, orientation={self.orientation})"

    def _plain(self) -> Any:
        return {"grid": self.grid._plain(), "orientation": self.orientation.value, "shape": self.shape}

    @classmethod
    def _of(cls, data: Any) -> ShardSpec:
        return cls(CoreRangeSet._of(data["grid"]), data["shape"], ShardOrientation(data["orientation"]))


@dataclass(frozen=True)
class NdShardSpec(AsJson):
    """Shards of any number of dimensions; ``shard_shape`` has one size for each dimension."""

    shard_shape: Any
    grid: CoreRangeSet
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
    shard_distribution_strategy: ShardDistributionStrategy = ShardDistributionStrategy.ROUND_ROBIN_1D

    def __post_init__(self) -> None:
        object.__setattr__(self, "shard_shape", tuple(self.shard_shape))

    def num_cores(self) -> int:
        return self.grid.num_cores()

    def _plain(self) -> Any:
        return {
            "grid": self.grid._plain(),
            "orientation": self.orientation.value,
            "shard_distribution_strategy": self.shard_distribution_strategy.value,
            "shard_shape": list(self.shard_shape),
        }

    @classmethod
    def _of(cls, data: Any) -> NdShardSpec:
        strategy = ShardDistributionStrategy(data["shard_distribution_strategy"])
        grid, orientation = CoreRangeSet._of(data["grid"]), ShardOrientation(data["orientation"])
        return cls(data["shard_shape"], grid, orientation, strategy)


class MemoryConfig(AsJson):
    """The place of a tensor: MemoryConfig(memory_layout, buffer_type, shard_spec), or
    MemoryConfig(buffer_type, nd_shard_spec)."""

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

    def _plain(self) -> Any:
        data = {
            "buffer_type": self.buffer_type.value,
            "created_with_nd_shard_spec": self.nd_shard_spec is not None,
            "memory_layout": self.memory_layout.value,
            "per_core_allocation": False,
        }
        specs = {"shard_spec": self.shard_spec, "nd_shard_spec": self.nd_shard_spec}
        return data | {name: spec._plain() for name, spec in specs.items() if spec is not None}

    @classmethod
    def _of(cls, data: Any) -> MemoryConfig:
        shards, nd_shards = data.get("shard_spec"), data.get("nd_shard_spec")
        return cls(
            TensorMemoryLayout(data["memory_layout"]),
            BufferType(data["buffer_type"]),
            None if shards is None else ShardSpec._of(shards),
            None if nd_shards is None else NdShardSpec._of(nd_shards),
        )


DRAM_MEMORY_CONFIG = MemoryConfig()
L1_MEMORY_CONFIG = MemoryConfig(buffer_type=BufferType.L1)
L1_HEIGHT_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1)
L1_WIDTH_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1)
L1_BLOCK_SHARDED_MEMORY_CONFIG = MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1)


_STRATEGIES = {
    ShardStrategy.HEIGHT: TensorMemoryLayout.HEIGHT_SHARDED,
    ShardStrategy.WIDTH: TensorMemoryLayout.WIDTH_SHARDED,
    ShardStrategy.BLOCK: TensorMemoryLayout.BLOCK_SHARDED,
}


def _cores(core_grid: Any, use_height_and_width_as_shard_shape: bool) -> CoreRangeSet:
    if isinstance(core_grid, CoreGrid):
        return CoreRangeSet([CoreRange((0, 0), (core_grid.x - 1, core_grid.y - 1))])
    if isinstance(core_grid, CoreRangeSet):
        if not use_height_and_width_as_shard_shape:
            raise RuntimeError("height and width must be shard shape with CoreRangeSet")
        return core_grid
    if isinstance(core_grid, (list, tuple)) and len(core_grid) == 2:
        first, last = core_grid
        return CoreRangeSet([CoreRange((first.x, first.y), (last.x, last.y))])
    raise RuntimeError("Invalid core_grid type")


def parts_of(strategy: Any, orientation: ShardOrientation, cores: CoreRangeSet) -> tuple[int, int]:
    """(number of shards down, number of shards across) on these cores."""
    if strategy is TensorMemoryLayout.HEIGHT_SHARDED:
        return cores.num_cores(), 1
    if strategy is TensorMemoryLayout.WIDTH_SHARDED:
        return 1, cores.num_cores()
    grid = cores.bounding_box().grid_size()
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
    """A configuration in L1 that cuts ``shape`` evenly over ``core_grid``. With
    ``use_height_and_width_as_shard_shape`` the last two sizes of ``shape`` are the sizes of a shard. Raises
    RuntimeError if the cores do not divide ``shape``."""
    orientation = orientation or ShardOrientation.ROW_MAJOR
    if strategy not in _STRATEGIES:
        raise RuntimeError("Invalid sharding strategy")
    kind = _STRATEGIES[strategy]
    ranges = _cores(core_grid, use_height_and_width_as_shard_shape)
    rows, cols = math.prod(shape[:-1]), shape[-1]
    if use_height_and_width_as_shard_shape:
        sizes = [shape[-2], shape[-1]]
        if orientation is ShardOrientation.COL_MAJOR:
            sizes.reverse()
    else:
        down, across = parts_of(kind, orientation, ranges)
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
    """create_sharded_memory_config, but the sizes of shards are rounded up if the cores do not divide
    ``shape``; ``tile_layout`` rounds them to whole tiles."""
    orientation = orientation or ShardOrientation.ROW_MAJOR
    kind = _STRATEGIES.get(strategy, strategy)
    ranges = _cores(core_grid, True)
    if use_height_and_width_as_shard_shape:
        return MemoryConfig(kind, BufferType.L1, ShardSpec(ranges, list(shape[-2:]), orientation))
    down, across = parts_of(kind, orientation, ranges)
    rows, cols = -(-math.prod(shape[:-1]) // down), -(-shape[-1] // across)
    if tile_layout:
        rows, cols = (-(-size // TILE_SIZE) * TILE_SIZE for size in (rows, cols))
    return MemoryConfig(kind, BufferType.L1, ShardSpec(ranges, [rows, cols], orientation))
