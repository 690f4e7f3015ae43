"""Placements: which part of a tensor lies on which chip of a mesh, an axis of the mesh each."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..devices.chips import MeshCoordinate, MeshShape

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


class _Config:
    """``mesh_shape_override``: the shape over which parts are counted, None for that of the mesh;
    ``mesh_offset_override``: the corner in the mesh of a shape that fits into it, None for the first chip."""

    _listed = ""  # the argument that is a list, one an axis

    def __init__(self, listed: list[Any], shape: Any, offset: Any):
        self._values = listed
        self.mesh_shape_override = None if shape is None else MeshShape(shape)
        self.mesh_offset_override = MeshCoordinate(offset) if offset else None

    def __repr__(self) -> str:
        text = f"{self._listed}: {self._values}"
        if self.mesh_shape_override is not None:
            text += f", mesh_shape_override={self.mesh_shape_override}"
        if self.mesh_offset_override is not None:
            text += f", mesh_offset_override={self.mesh_offset_override}"
        return f"{type(self).__name__}({text})"


def _arguments(of: type[_Config], args: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a configuration by name: a list, or a number for rows and one for columns; then the
    shape and the offset. Raises TypeError."""
    listed = of._listed in given or (args and isinstance(args[0], (list, tuple)))
    names = [of._listed] if listed else ["row_dim", "col_dim"]
    names += ["mesh_shape_override", "mesh_offset_override"]
    said = dict(zip(names, args, strict=False)) | given
    if len(args) + len(given) > len(said) or not said.keys() <= set(names) or len(args) > len(names):
        raise TypeError(f"{of.__name__}(): incompatible function arguments: it takes {', '.join(names)}")
    return said


class MeshMapperConfig(_Config):
    """The way to distribute a tensor: MeshMapperConfig(placements), one an axis, or
    MeshMapperConfig(row_dim, col_dim), the dimensions that rows and columns cut, None for copies."""

    _listed = "placements"

    def __init__(self, *args: Any, **given: Any):
        said = _arguments(MeshMapperConfig, args, given)
        placements = said.get("placements")
        if placements is None:
            dims = said.get("row_dim"), said.get("col_dim")
            placements = [PlacementReplicate() if dim is None else PlacementShard(dim) for dim in dims]
        if not all(isinstance(one, (PlacementReplicate, PlacementShard)) for one in placements):
            text = f"placements are PlacementReplicate() and PlacementShard(dim), got {placements}"
            raise TypeError(f"MeshMapperConfig(): incompatible function arguments: {text}")
        super().__init__(list(placements), said.get("mesh_shape_override"), said.get("mesh_offset_override"))

    @property
    def placements(self) -> list[Any]:
        return self._values


class MeshComposerConfig(_Config):
    """The way to put parts together: MeshComposerConfig(dims), the tensor's dimension an axis, or
    MeshComposerConfig(row_dim, col_dim)."""

    _listed = "dims"

    def __init__(self, *args: Any, **given: Any):
        said = _arguments(MeshComposerConfig, args, given)
        dims = said["dims"] if "dims" in said else [said.get("row_dim"), said.get("col_dim")]
        if not all(isinstance(dim, int) for dim in dims):
            text = f"a dimension an axis is needed, got {list(dims)}"
            raise TypeError(f"MeshComposerConfig(): incompatible function arguments: {text}")
        super().__init__(list(dims), said.get("mesh_shape_override"), said.get("mesh_offset_override"))

    @property
    def dims(self) -> list[int]:
        return self._values


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
