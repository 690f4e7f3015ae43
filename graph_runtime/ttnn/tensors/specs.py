"""TensorSpec: shape, type, layout and memory of a tensor that need not exist yet."""

from __future__ import annotations

import math
from typing import Any

from ..memory.configs import MemoryConfig, NdShardSpec, ShardSpec, parts_of
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
    """TensorSpec(shape, dtype, layout, buffer_type=DRAM); memory_layout, shard_spec or nd_shard_spec may
    follow. ``memory_config``: the memory configuration that these arguments describe."""

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
        names = ("shape", "dtype", "layout", "memory_config", "tile")
        return isinstance(other, TensorSpec) and all(getattr(self, n) == getattr(other, n) for n in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TensorSpec({self.shape}, {self.dtype}, {self.layout}, {self.memory_config})"

    def _cut(self, how: TensorMemoryLayout, grid: CoreRangeSet) -> TensorSpec:
        sizes = tiled(self.shape) if self.layout is Layout.TILE else self.shape
        matrix, step = (math.prod(sizes[:-1]), sizes[-1]), 32 if self.layout is Layout.TILE else 1
        parts = parts_of(how, ShardOrientation.ROW_MAJOR, grid)
        cut = [up(-(-size // count), step) for size, count in zip(matrix, parts, strict=True)]
        config = MemoryConfig(how, BufferType.L1, ShardSpec(grid, cut))
        return TensorSpec(self.shape, self.dtype, self.layout, memory_config=config)

    def height_sharded(self, grid: CoreRangeSet) -> TensorSpec:
        return self._cut(TensorMemoryLayout.HEIGHT_SHARDED, grid)

    def width_sharded(self, grid: CoreRangeSet) -> TensorSpec:
        return self._cut(TensorMemoryLayout.WIDTH_SHARDED, grid)

    def block_sharded(self, grid: CoreRangeSet) -> TensorSpec:
        return self._cut(TensorMemoryLayout.BLOCK_SHARDED, grid)

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
        """The spec in ND shards. The arguments are (NdShardSpec, alignment) or (shape, cores, alignment,
        orientation, strategy). In TILE layout sizes of shards are rounded up to tiles; in ROW_MAJOR,
        RECOMMENDED rounds the last size up to 64 bytes."""
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
        """The spec in shards that have one element (or tile) along ``dims`` and are whole along the other
        dimensions."""
        sizes = self._padded()
        for dim in dims:
            sizes[dim] = 1
        return self.sharded(sizes, grid, ShardShapeAlignment.RECOMMENDED, orientation)

    def sharded_across_dims_except(
        self, dims: Any, grid: CoreRangeSet, orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
    ) -> TensorSpec:
        """The spec in shards that are whole along ``dims`` and have one element (or tile) along the other
        dimensions."""
        whole = self._padded()
        sizes = [1] * len(whole)
        for dim in dims:
            sizes[dim] = whole[dim]
        return self.sharded(sizes, grid, ShardShapeAlignment.RECOMMENDED, orientation)
