"""TensorSpec: shape, type, layout and memory of a tensor before there is one."""

from __future__ import annotations

import math
from typing import Any

from ..memory.configs import MemoryConfig, NdShardSpec, ShardSpec
from ..memory.cores import CoreRangeSet
from ..memory.placing import up
from ..memory.values import (
    TILE_SIZE,
    BufferType,
    DataType,
    Layout,
    Shape,
    ShardDistributionStrategy,
    ShardOrientation,
    ShardShapeAlignment,
    TensorMemoryLayout,
    Tile,
    element_size,
    tiled,
)

__all__ = ["TensorSpec"]


class TensorSpec:
    """TensorSpec(shape, dtype, layout, buffer_type=DRAM), or with memory_layout, shard_spec or nd_shard_spec.
    ``memory_config`` is a property."""

    def __init__(self, shape: Any, dtype: DataType, layout: Layout, *args: Any, **given: Any):
        self.shape, self.dtype, self.layout = Shape(shape), dtype, layout
        self.tile = given.pop("tile", None) or Tile()
        config = given.pop("memory_config", None)
        for value in args:
            name = {
                TensorMemoryLayout: "memory_layout",
                BufferType: "buffer_type",
                ShardSpec: "shard_spec",
                NdShardSpec: "nd_shard_spec",
            }.get(type(value))
            if name is not None:
                given[name] = value
        self.memory_config = MemoryConfig(**given) if config is None else config

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and (
            self.shape == other.shape
            and (self.dtype, self.layout, self.memory_config)
            == (other.dtype, other.layout, other.memory_config)
            and self.tile == other.tile
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TensorSpec({self.shape}, {self.dtype}, {self.layout}, {self.memory_config})"

    def _cut(self, how: TensorMemoryLayout, grid: CoreRangeSet, down: int, across: int) -> TensorSpec:
        sizes = tiled(self.shape) if self.layout is Layout.TILE else self.shape
        rows, cols = math.prod(sizes[:-1]), sizes[-1]
        step = 32 if self.layout is Layout.TILE else 1
        cut = [up(-(-size // parts), step) for size, parts in ((rows, down), (cols, across))]
        config = MemoryConfig(how, BufferType.L1, ShardSpec(grid, cut))
        return TensorSpec(self.shape, self.dtype, self.layout, memory_config=config)

    def height_sharded(self, grid: CoreRangeSet) -> TensorSpec:
        return self._cut(TensorMemoryLayout.HEIGHT_SHARDED, grid, grid.num_cores(), 1)

    def width_sharded(self, grid: CoreRangeSet) -> TensorSpec:
        return self._cut(TensorMemoryLayout.WIDTH_SHARDED, grid, 1, grid.num_cores())

    def block_sharded(self, grid: CoreRangeSet) -> TensorSpec:
        size = grid.bounding_box().grid_size()
        return self._cut(TensorMemoryLayout.BLOCK_SHARDED, grid, size.y, size.x)

    def _padded(self) -> list[int]:
        sizes = list(self.shape)
        return list(tiled((1,) * (2 - len(sizes)) + tuple(sizes))) if self.layout is Layout.TILE else sizes

    def sharded(
        self,
        shard_shape: Any,
        grid: CoreRangeSet | None = None,
        shard_alignment: ShardShapeAlignment = ShardShapeAlignment.REQUIRED,
        orientation: ShardOrientation = ShardOrientation.ROW_MAJOR,
        strategy: ShardDistributionStrategy = ShardDistributionStrategy.ROUND_ROBIN_1D,
    ) -> TensorSpec:
        """In ND shards: (NdShardSpec, alignment), or (shape, cores, alignment, orientation, strategy). Sizes
        are rounded up to tiles; as recommended, to 64 bytes of a row."""
        if isinstance(shard_shape, NdShardSpec):
            given, shard_alignment = shard_shape, grid or shard_alignment  # type: ignore[assignment]
            shard_shape, grid = given.shard_shape, given.grid
            orientation, strategy = given.orientation, given.shard_distribution_strategy
        sizes = [int(size) for size in shard_shape]
        if shard_alignment is not ShardShapeAlignment.NONE and self.layout is Layout.TILE:
            sizes[-2:] = (up(size, TILE_SIZE) for size in sizes[-2:])
        elif shard_alignment is ShardShapeAlignment.RECOMMENDED:
            sizes[-1] = up(sizes[-1], 64 // element_size(self.dtype))
        assert grid is not None
        cut = NdShardSpec(sizes, grid, orientation, strategy)
        config = MemoryConfig(self.memory_config.buffer_type, cut)
        return TensorSpec(self.shape, self.dtype, self.layout, memory_config=config)

    def sharded_across_dims(
        self, dims: Any, grid: CoreRangeSet, orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
    ) -> TensorSpec:
        """Shards of one element, or tile, along ``dims``, whole along the others."""
        sizes = self._padded()
        for dim in dims:
            sizes[dim] = 1
        return self.sharded(sizes, grid, ShardShapeAlignment.RECOMMENDED, orientation)

    def sharded_across_dims_except(
        self, dims: Any, grid: CoreRangeSet, orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
    ) -> TensorSpec:
        """Shards that are whole along ``dims``, of one element, or tile, along the others."""
        whole = self._padded()
        sizes = [1] * len(whole)
        for dim in dims:
            sizes[dim] = whole[dim]
        return self.sharded(sizes, grid, ShardShapeAlignment.RECOMMENDED, orientation)
