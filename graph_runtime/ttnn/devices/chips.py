"""Plain values about devices: architectures, clusters, meshes, what sends work."""

from __future__ import annotations

import enum
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
]


class Arch(enum.Enum):
    GRAYSKULL = 1
    WORMHOLE_B0 = 2
    BLACKHOLE = 3


class ClusterType(enum.Enum):
    N150 = 1
    N300 = 2
    T3K = 3
    GALAXY = 4
    TG = 5
    P100 = 6
    P150 = 7
    P300 = 8
    BLACKHOLE_GALAXY = 9


class DispatchCoreType(enum.Enum):
    WORKER = 0
    ETH = 1


class DispatchCoreAxis(enum.Enum):
    ROW = 0
    COL = 1


class FabricConfig(enum.Enum):
    DISABLED = 0
    FABRIC_1D = 1
    FABRIC_1D_RING = 2
    FABRIC_2D = 3


class DispatchCoreConfig:
    """Which cores send work on silicon. The simulated device has none to give away: it is recorded only."""

    def __init__(
        self,
        type: DispatchCoreType | None = None,
        axis: DispatchCoreAxis | None = None,
        fabric_tensix_config: Any = None,
    ):
        self.type, self.axis, self.fabric_tensix_config = type, axis, fabric_tensix_config


class MeshShape(Shape):
    """Rows and columns of a mesh: MeshShape(1, 1) or MeshShape([1, 1])."""

    def __init__(self, *sizes: Any):
        super().__init__(sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)

    def mesh_size(self) -> int:
        return self.volume()

    def dims(self) -> int:
        return len(self)
