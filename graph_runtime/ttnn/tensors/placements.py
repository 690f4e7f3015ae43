"""Placements: which part of a tensor lies on which chip of a mesh, an axis of the mesh each."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..devices.chip_mesh import MeshCoordinate
from ..devices.chips import MeshShape

__all__ = ["MeshComposerConfig", "MeshMapperConfig", "PlacementReplicate", "PlacementShard", "TensorTopology"]


class PlacementReplicate:
    """Each chip along an axis of the mesh has the whole tensor."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementReplicate)

    def __hash__(self) -> int:
        return hash("PlacementReplicate")

    def __repr__(self) -> str:
        return "PlacementReplicate()"


class PlacementShard:
    """Each chip along an axis of the mesh has a part of the tensor's dimension ``dim``."""

    def __init__(self, dim: int):
        self.dim = operator.index(dim)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementShard) and self.dim == other.dim

    def __hash__(self) -> int:
        return hash(("PlacementShard", self.dim))

    def __repr__(self) -> str:
        return f"PlacementShard({self.dim})"


class MeshMapperConfig:
    """The way to distribute a tensor: ``placements``, one an axis of the mesh, or of
    ``mesh_shape_override``."""

    def __init__(self, placements: Any, mesh_shape_override: Any = None):
        self.placements = list(placements)
        for one in self.placements:
            if not isinstance(one, (PlacementReplicate, PlacementShard)):
                raise TypeError(
                    f"ttnn.MeshMapperConfig(): incompatible function arguments: {one!r} is neither a "
                    "PlacementReplicate nor a PlacementShard"
                )
        self.mesh_shape_override = None if mesh_shape_override is None else MeshShape(mesh_shape_override)

    def __repr__(self) -> str:
        return f"MeshMapperConfig(placements={self.placements}, {self.mesh_shape_override})"


class MeshComposerConfig:
    """The way to put parts together: ``dims``, the tensor's dimension an axis of the mesh, or of
    ``mesh_shape_override``."""

    def __init__(self, dims: Any, mesh_shape_override: Any = None):
        self.dims = [operator.index(dim) for dim in dims]
        self.mesh_shape_override = None if mesh_shape_override is None else MeshShape(mesh_shape_override)

    def __repr__(self) -> str:
        return f"MeshComposerConfig(dims={self.dims}, {self.mesh_shape_override})"


class TensorTopology:
    """What a tensor on a mesh is part of: ``distribution_shape()``, how many parts an axis; ``placements()``
    of the axes; ``mesh_coords()``, where the parts lie."""

    def __init__(self, distribution_shape: Any, placements: Any, mesh_coords: Any):
        self._shape, self._placements = MeshShape(distribution_shape), list(placements)
        self._coords = [MeshCoordinate(where) for where in mesh_coords]

    def distribution_shape(self) -> MeshShape:
        return self._shape

    def placements(self) -> list[Any]:
        return list(self._placements)

    def mesh_coords(self) -> list[MeshCoordinate]:
        return list(self._coords)

    def is_replicated(self) -> bool:
        return not any(isinstance(one, PlacementShard) for one in self._placements)

    def moved_to(self, coords: Sequence[Any]) -> TensorTopology:
        return TensorTopology(self._shape, self._placements, coords)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorTopology):
            return False
        ours = self._shape, self._placements, self._coords
        return ours == (other._shape, other._placements, other._coords)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"TensorTopology(distribution_shape={self._shape}, placements={self._placements}, "
            f"mesh_coords={self._coords})"
        )


def replicated(coords: Sequence[Any]) -> TensorTopology:
    """The topology of a tensor that each of these chips has whole."""
    return TensorTopology([len(coords)], [PlacementReplicate()], coords)


class _Merged(NamedTuple):
    sizes: list[int]
    placements: list[Any]


def merged(inputs: Sequence[TensorTopology], coords: Sequence[Any]) -> TensorTopology:
    """The topology of an operation's result, from those of its tensors: of the highest rank among sharded
    tensors; along each axis the first shard that is met, unless another axis has this dimension already
    (device_operation_detail.cpp: compute_output_placements_and_shape)."""
    sharded = [one for one in inputs if not one.is_replicated()]
    rank = max(len(one.distribution_shape()) for one in sharded) if sharded else len(inputs[0].placements())
    made = _Merged([1] * rank, [PlacementReplicate() for _ in range(rank)])
    taken: set[int] = set()
    for one in inputs:
        if len(one.distribution_shape()) != rank:
            continue
        for axis, (size, placement) in enumerate(
            zip(one.distribution_shape(), one.placements(), strict=True)
        ):
            made.sizes[axis] = max(made.sizes[axis], size)
            if isinstance(placement, PlacementShard) and placement.dim not in taken:
                taken.add(placement.dim)
                if not isinstance(made.placements[axis], PlacementShard):
                    made.placements[axis] = placement
    return TensorTopology(made.sizes, made.placements, coords)
