"""Plain values of ttnn's interface: element types, layouts, memories, shapes and tiles."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.dtypes import FORMATS
from ..errors import Unsupported, check

__all__ = [
    "TILE_SIZE",
    "BcastOpDim",
    "BcastOpMath",
    "BufferType",
    "DataType",
    "EmbeddingsType",
    "Layout",
    "LossReductionMode",
    "MathFidelity",
    "PaddingMode",
    "Shape",
    "ShardDistributionStrategy",
    "ShardMode",
    "ShardOrientation",
    "ShardShapeAlignment",
    "ShardStrategy",
    "SigmoidMode",
    "StorageType",
    "TensorMemoryLayout",
    "ThrottleLevel",
    "Tile",
    "tile_size",
]

TILE_SIZE = 32


class DataType(enum.Enum):
    """Element types. ``stored``: this package's dtype and storage format; Unsupported for a type without
    one."""

    BFLOAT16 = 0
    FLOAT32 = 1
    UINT32 = 2
    BFLOAT8_B = 3
    BFLOAT4_B = 4
    UINT8 = 5
    UINT16 = 6
    INT32 = 7
    FP8_E4M3 = 8
    INT8 = 9
    INVALID = 10

    @property
    def stored(self) -> tuple[str, str]:
        found = _STORED.get(self.name)
        if found is None:
            raise Unsupported(f"{self} is not supported: no kernel here computes with it")
        return found

    @property
    def is_float(self) -> bool:
        return self.name in ("BFLOAT16", "FLOAT32", "BFLOAT8_B", "BFLOAT4_B")

    @property
    def is_block(self) -> bool:
        """Whether 16 elements share an exponent; a tensor of such a type exists in tiles only."""
        return self.name in ("BFLOAT8_B", "BFLOAT4_B")

    def __str__(self) -> str:
        return f"DataType.{self.name}"

    __repr__ = __str__


_STORED = {
    "BFLOAT16": ("float32", "bf16"),
    "FLOAT32": ("float32", "f32"),
    "BFLOAT8_B": ("float32", "bfp8_b"),
    "BFLOAT4_B": ("float32", "bfp4_b"),
    "UINT32": ("uint32", "uint32"),
    "INT32": ("int32", "int32"),
    "UINT16": ("uint16", "uint16"),
    "UINT8": ("uint8", "uint8"),
}


def tile_size(dtype: DataType) -> int:
    """Bytes of a tile of 32x32 elements."""
    return FORMATS[dtype.stored[1]].tile_bytes


def element_size(dtype: DataType) -> int:
    """Bytes of an element; 1 for a block format."""
    return FORMATS[dtype.stored[1]].itemsize or 1


class Layout(enum.Enum):
    ROW_MAJOR = 0
    TILE = 1
    INVALID = 2

    def __str__(self) -> str:
        return f"Layout.{self.name}"

    __repr__ = __str__


StorageType = enum.Enum("StorageType", "HOST DEVICE", start=0)
BufferType = enum.Enum("BufferType", "DRAM L1 SYSTEM_MEMORY L1_SMALL TRACE", start=0)
TensorMemoryLayout = enum.Enum(
    "TensorMemoryLayout",
    {"INTERLEAVED": 0, "HEIGHT_SHARDED": 2, "WIDTH_SHARDED": 3, "BLOCK_SHARDED": 4, "ND_SHARDED": 5},
)
ShardOrientation = enum.Enum("ShardOrientation", "ROW_MAJOR COL_MAJOR", start=0)
ShardStrategy = enum.Enum("ShardStrategy", "HEIGHT WIDTH BLOCK")
ShardDistributionStrategy = enum.Enum(
    "ShardDistributionStrategy", "ROUND_ROBIN_1D GRID_2D CONTIGUOUS_1D", start=0
)
ShardShapeAlignment = enum.Enum("ShardShapeAlignment", "NONE REQUIRED RECOMMENDED", start=0)
ShardMode = enum.Enum("ShardMode", "PHYSICAL LOGICAL", start=0)
MathFidelity = enum.Enum("MathFidelity", {"LoFi": 0, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4, "Invalid": 255})
EmbeddingsType = enum.Enum("EmbeddingsType", "GENERIC PADDED BINARY", start=0)
BcastOpMath = enum.Enum("BcastOpMath", "ADD SUB MUL", start=0)
BcastOpDim = enum.Enum("BcastOpDim", "H W HW", start=0)
SigmoidMode = enum.Enum(
    "SigmoidMode",
    {"FastApproximate": 0, "AccurateWithFastExp": 1, "Accurate": 2, "FAST_APPROXIMATE": 0, "ACCURATE": 2},
)
PaddingMode = enum.Enum("PaddingMode", "Zeros Replicate", start=0)
LossReductionMode = enum.Enum("LossReductionMode", "NONE MEAN SUM", start=0)
# levels by which silicon slows its products down; they have no effect here
ThrottleLevel = enum.Enum("ThrottleLevel", "NO_THROTTLE LEVEL_1 LEVEL_2 LEVEL_3 LEVEL_4 LEVEL_5", start=0)


class Shape(Sequence[int]):
    """Sizes of the dimensions. A Shape is equal to lists and tuples of the same numbers."""

    __slots__ = ("_sizes",)

    def __init__(self, sizes: Iterable[int]):
        self._sizes = tuple(int(size) for size in sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, at: Any) -> Any:
        return self._sizes[at]

    def __iter__(self) -> Iterator[int]:
        return iter(self._sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Shape, list, tuple)) and self._sizes == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Shape({list(self._sizes)})"

    @property
    def rank(self) -> int:
        return len(self._sizes)

    def to_rank(self, rank: int) -> Shape:
        """The shape with dimensions of size 1 added or dropped in front. Raises RuntimeError if a dimension
        of another size would be dropped."""
        extra = rank - len(self._sizes)
        if extra >= 0:
            return Shape((1,) * extra + self._sizes)
        dropped = self._sizes[:-extra]
        check(all(size == 1 for size in dropped), "Shape.to_rank", "Can't convert shape rank")
        return Shape(self._sizes[-extra:])

    def volume(self) -> int:
        return math.prod(self._sizes)


@dataclass(frozen=True)
class Tile:
    """A tile's (rows, columns), which set padding and the sizes of shards. Memory here always holds tiles of
    32x32."""

    tile_shape: Sequence[int] = (TILE_SIZE, TILE_SIZE)
    transpose_tile: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tile_shape", tuple(self.tile_shape))
        fits = len(self.tile_shape) == 2 and self.tile_shape in _TILES
        check(fits, "ttnn.Tile", f"Tile shape {self.tile_shape} is not supported by the hardware")

    @property
    def face_shape(self) -> tuple[int, int]:
        return min(16, self.tile_shape[0]), 16

    @property
    def num_faces(self) -> int:
        return math.prod(self.tile_shape) // math.prod(self.face_shape)

    @property
    def narrow_tile(self) -> int:
        """1 if a row is shorter than 32 elements, else 0."""
        return int(self.tile_shape[1] < TILE_SIZE)

    @property
    def partial_face(self) -> int:
        """1 if there are fewer than 32 rows, else 0."""
        return int(self.tile_shape[0] < TILE_SIZE)

    @property
    def transpose_of_faces(self) -> bool:
        return self.transpose_tile

    transpose_within_face = transpose_of_faces

    def get_tile_size(self, dtype: DataType) -> int:
        """Bytes of a tile of this shape; a block format has one more byte, the exponent, for each row of a
        face."""
        elements = math.prod(self.tile_shape)
        if dtype.is_block:
            bits = 8 if dtype is DataType.BFLOAT8_B else 4
            return elements * bits // 8 + elements // 16
        return elements * element_size(dtype)


_TILES = [(rows, cols) for rows in (1, 2, 4, 8, 16, 32) for cols in (16, 32)]
DEFAULT_TILE = Tile()


def tiled(shape: Sequence[int], tile: Tile = DEFAULT_TILE) -> Shape:
    """The shape with the last two dimensions rounded up to whole tiles."""
    sizes = list(shape)
    for at in range(1, 1 + min(2, len(sizes))):
        step = tile.tile_shape[-at]
        sizes[-at] = -(-sizes[-at] // step) * step
    return Shape(sizes)
