"""Plain values about devices: architectures, clusters, meshes, dispatch configurations."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from ..memory.values import Shape

__all__ = [
    "Arch",
    "ClusterType",
    "DispatchCoreAxis",
    "DispatchCoreConfig",
    "DispatchCoreType",
    "FabricConfig",
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

    def mesh_size(self) -> int:
        return self.volume()

    def dims(self) -> int:
        return len(self)
