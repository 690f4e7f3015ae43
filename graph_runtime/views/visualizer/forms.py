"""Shapes, dtypes, layouts and cores in ttnn's notation, which ttnn-visualizer reads."""

from __future__ import annotations

from ...base.machine.layout import DRAM, HOST, L1, Layout
from ...base.machine.shards import Shard

BUFFER_TYPES = {DRAM: 0, L1: 1, HOST: 2}  # number of ttnn.BufferType: DRAM, L1, SYSTEM_MEMORY
_BUFFER_NAMES = {DRAM: "DRAM", L1: "L1", HOST: "SYSTEM_MEMORY"}
_MEMORY_LAYOUTS = {"height": 2, "width": 3, "block": 4}  # ttnn.TensorMemoryLayout; 0 is interleaved
# format -> name of its ttnn.DataType, for formats whose name in capitals is another
_DTYPES = {
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "bfp8_b": "BFLOAT8_B",
    "bfp4_b": "BFLOAT4_B",
    "bfp2_b": "BFLOAT2_B",
}


def shape(sizes: tuple[int, ...]) -> str:
    """A shape, as ``Shape([32, 64])``."""
    return f"Shape([{', '.join(map(str, sizes))}])"


def dtype(layout: Layout) -> str:
    """The format of the elements, as ``BFLOAT16``."""
    return _DTYPES.get(layout.format, layout.format.upper())


def tensor_layout(layout: Layout) -> str:
    """The tensor layout, ``TILE`` or ``ROW_MAJOR``."""
    return layout.layout.upper()


def memory_layout(layout: Layout) -> int:
    """The number of ttnn.TensorMemoryLayout: 0 interleaved, 2 height, 3 width, 4 block sharded."""
    return 0 if layout.shard is None else _MEMORY_LAYOUTS[layout.shard.kind]


def sharding(layout: Layout) -> str:
    """The name of ttnn.TensorMemoryLayout, as ``HEIGHT_SHARDED``."""
    return "INTERLEAVED" if layout.shard is None else f"{layout.shard.kind.upper()}_SHARDED"


def memory_config(layout: Layout) -> str:
    """The memory config, as ``MemoryConfig(...)``, with the shard's cores, shape and orientation."""
    spec = "std::nullopt" if layout.shard is None else _shard_spec(layout.shard)
    return (
        f"MemoryConfig(memory_layout=TensorMemoryLayout::{sharding(layout)},"
        f"buffer_type=BufferType::{_BUFFER_NAMES.get(layout.memory, layout.memory.upper())},"
        f"shard_spec={spec})"
    )


def _shard_spec(shard: Shard) -> str:
    turned = "COL_MAJOR" if shard.orientation == "col" else "ROW_MAJOR"
    return (
        f"ShardSpec(grid={core_range(shard.grid)},shape={{{shard.shape[0]}, {shard.shape[1]}}},"
        f"orientation=ShardOrientation::{turned},halo=0)"
    )


def core_range(grid: tuple[tuple[int, int], tuple[int, int]]) -> str:
    """The core range ``{[(x=0,y=0) - (x=7,y=7)]}`` of a rectangle's corners ((row, column), (row, column)),
    both inclusive."""
    (top, left), (bottom, right) = grid
    return f"{{[(x={left},y={top}) - (x={right},y={bottom})]}}"
