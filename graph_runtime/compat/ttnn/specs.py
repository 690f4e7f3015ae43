"""TensorSpec: shape, type, layout and memory of a tensor before there is one."""

from __future__ import annotations

import math
from typing import Any

from .cores import CoreRangeSet
from .errors import Unsupported
from .memory import MemoryConfig, NdShardSpec, ShardSpec, up
from .values import BufferType, DataType, Layout, Shape, TensorMemoryLayout, Tile, tiled

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

    def _declined(self, *_: Any, **__: Any) -> Any:
        raise Unsupported("ND shards are not supported", op="TensorSpec")

    sharded = sharded_across_dims = sharded_across_dims_except = _declined
