"""Plain values about devices: architectures, clusters, meshes, dispatch configurations."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import check
from ..memory.values import Shape

__all__ = [
    "Arch",
    "ClusterType",
    "DispatchCoreAxis",
    "DispatchCoreConfig",
    "DispatchCoreType",
    "FabricConfig",
    "FabricNodeId",
    "MeshCoordinate",
    "MeshCoordinateRange",
    "MeshId",
    "MeshShape",
    "Topology",
]


Arch = enum.Enum("Arch", "GRAYSKULL WORMHOLE_B0 BLACKHOLE QUASAR")
ClusterType = enum.Enum(
    "ClusterType",
    "INVALID N150 N300 T3K GALAXY TG P100 P150 P150_X2 P150_X4 SIMULATOR_WORMHOLE_B0 "
    "SIMULATOR_BLACKHOLE N300_2x2 P150_X8 P300 SIMULATOR_QUASAR BLACKHOLE_GALAXY P300_X2 CUSTOM",
    start=0,
)
DispatchCoreType = enum.Enum("DispatchCoreType", "WORKER ETH", start=0)
DispatchCoreAxis = enum.Enum("DispatchCoreAxis", "ROW COL", start=0)
FabricConfig = enum.Enum(
    "FabricConfig",
    "DISABLED FABRIC_1D_NEIGHBOR_EXCHANGE FABRIC_1D FABRIC_1D_RING FABRIC_2D "
    "FABRIC_2D_TORUS_X FABRIC_2D_TORUS_Y FABRIC_2D_TORUS_XY CUSTOM",
    start=0,
)
Topology = enum.Enum("Topology", "Linear Ring Mesh Torus")


@dataclass(eq=False)
class DispatchCoreConfig:
    """Choice of the cores that dispatch work on silicon. The choice is only kept: the simulated device needs
    no cores for dispatch."""

    type: DispatchCoreType | None = None
    axis: DispatchCoreAxis | None = None
    fabric_tensix_config: Any = None


class MeshShape(Shape):
    """Rows and columns of a mesh, from two numbers or from a list: MeshShape(1, 1), MeshShape([1, 1])."""

    def __init__(self, *sizes: Any):
        super().__init__(sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"

    def mesh_size(self) -> int:
        return self.volume()

    def dims(self) -> int:
        return len(self)


class MeshCoordinate(MeshShape):
    """Row and column of a chip in a mesh."""


class MeshCoordinateRange:
    """A rectangle of a mesh, which includes both corners; of a MeshShape, the whole mesh."""

    def __init__(self, start: Any, end: Any = None):
        if end is None and not isinstance(start, MeshCoordinate):
            start, end = [0] * len(start), [size - 1 for size in start]
        self.start, self.end = MeshCoordinate(start), MeshCoordinate(start if end is None else end)
        ordered = all(a <= b for a, b in zip(self.start, self.end, strict=True))
        text = f"Start coordinate is greater than end coordinate: {self.start} > {self.end}"
        check(ordered, "ttnn.MeshCoordinateRange", text)

    def __iter__(self) -> Iterator[MeshCoordinate]:
        return iter(rectangle(self.start, [b - a + 1 for a, b in zip(self.start, self.end, strict=True)]))

    def __contains__(self, coordinate: Any) -> bool:
        return len(coordinate) == len(self.start) and all(
            a <= at <= b for a, at, b in zip(self.start, coordinate, self.end, strict=True)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MeshCoordinateRange) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"MeshCoordinateRange(start={self.start}, end={self.end})"


def coordinates(shape: Sequence[int]) -> list[MeshCoordinate]:
    """All coordinates of a mesh, by rows."""
    return rectangle([0] * len(shape), shape)


def fits_into(shape: Sequence[int], whole: Sequence[int], start: Sequence[int] | None = None) -> bool:
    """Whether a rectangle whose corner is ``start``, by default the first coordinate, is inside of a mesh of
    the same rank."""
    corner = [0] * len(shape) if start is None else start
    return len(corner) == len(shape) == len(whole) and all(
        0 <= a and a + size <= b for a, size, b in zip(corner, shape, whole, strict=True)
    )


def rectangle(start: Sequence[int], shape: Sequence[int]) -> list[MeshCoordinate]:
    """The coordinates of a rectangle of a mesh, by rows."""
    found: list[tuple[int, ...]] = [()]
    for first, size in zip(start, shape, strict=True):
        found = [(*at, first + step) for at in found for step in range(size)]
    return [MeshCoordinate(at) for at in found]


class MeshId(int):
    """The number of a mesh among those of the machine."""

    def __repr__(self) -> str:
        return f"MeshId({int(self)})"


@dataclass(frozen=True)
class FabricNodeId:
    """A chip of the machine, as the fabric numbers it: by rows of its mesh."""

    mesh_id: MeshId
    chip_id: int

    def __repr__(self) -> str:
        return f"FabricNodeId(M{int(self.mesh_id)}, D{self.chip_id})"
