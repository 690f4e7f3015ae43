"""Groups of a collective, and the placements of its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...devices.chip_mesh import ChipMesh, lines
from ...devices.chips import MeshCoordinate
from ...errors import expect, mistaken
from ...tensors.mesh_tensor import MeshTensor
from ...tensors.placements import PlacementReplicate, PlacementShard, TensorTopology
from ...tensors.tensor import Tensor, unfilled
from ..creation.filled import full


def mesh_of(x: MeshTensor) -> ChipMesh:
    expect(x._device is not None, "the tensor must be on a mesh of devices")
    assert isinstance(x._device, ChipMesh)
    return x._device


def size_along(x: Any, axis: int | None) -> int:
    """Number of chips of each group of a collective: along an axis of the mesh, or all."""
    if not isinstance(x, MeshTensor):
        return 1
    mesh = mesh_of(x)
    if axis is None:
        return mesh.get_num_devices()
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise mistaken(f"cluster_axis is {axis!r}, wanted an int")
    expect(0 <= axis < len(mesh.shape), f"cluster axis {axis} is out of range for a mesh {tuple(mesh.shape)}")
    return int(mesh.shape[axis])


def groups(x: MeshTensor, axis: int | None) -> list[list[MeshCoordinate]]:
    """The groups of a collective that have parts of a tensor, each in the order of the mesh."""
    if axis is None:
        return [mesh_of(x).coordinates()]
    mine = set(x.coordinates)
    return [line for line in lines(mesh_of(x).coordinates(), axis) if mine & set(line)]


def members(x: MeshTensor, group: list[MeshCoordinate]) -> list[Tensor]:
    """The parts of a group. A chip that has none takes part with zeros: on a card, with what lies there."""
    model = x.parts[0]
    return [x._parts[at] if at in x._parts else _zeros_like(model, mesh_of(x).at(at)) for at in group]


def _zeros_like(model: Tensor, chip: Any) -> Tensor:
    shape = list(model.shape)
    made: Tensor
    if math.prod(shape):
        made = full(shape, 0.0, model.dtype, model.layout, chip, model._config)
    else:
        made = unfilled("ttnn.full", tuple(shape), model.dtype, model.layout, chip, model._config)
    return made


def placed(
    x: MeshTensor, axis: int | None, change: Callable[[Any], Any], results: dict[MeshCoordinate, Tensor]
) -> MeshTensor:
    """The result of a collective along an axis of the mesh (None: all axes): ``change(placement)`` is the
    placement along it. A tensor that is cut over all chips counts as cut along both axes; one that lies on a
    part of the mesh keeps its placements."""
    mesh, topology = mesh_of(x), x.tensor_topology()
    shape, placements = tuple(topology.distribution_shape()), topology.placements()
    ordered = {at: results[at] for at in x.coordinates}
    flat = len(shape) == 1 < sum(size > 1 for size in mesh.shape)
    if len(shape) == 1 and shape[0] != mesh.shape.mesh_size():
        return MeshTensor(ordered, mesh, topology.moved_to(list(ordered)))
    if flat:
        shape, placements = tuple(mesh.shape), placements * len(mesh.shape)
    if len(shape) == 1:  # the mesh is a line
        placements = [change(placements[0])] if axis is None or mesh.shape[axis] > 1 else placements
    elif axis is None:
        placements = [change(one) for one in placements]
    else:
        placements[axis] = change(placements[axis])
    if flat and _cut_alike(placements, len(x.shape)):
        shape, placements = (math.prod(shape),), placements[-1:]
    return MeshTensor(ordered, mesh, TensorTopology(shape, placements, list(ordered)))


def cut_over_all(x: MeshTensor, dim: int, results: dict[MeshCoordinate, Tensor]) -> MeshTensor:
    """The result of cutting a dimension over all chips of the mesh. A tensor of a rectangular mesh that is
    cut in this dimension already keeps its placements."""
    mesh, topology = mesh_of(x), x.tensor_topology()
    shape, placements = tuple(topology.distribution_shape()), topology.placements()
    ordered = {at: results[at] for at in x.coordinates}
    if len(shape) == 1 and shape[0] != mesh.shape.mesh_size():
        return MeshTensor(ordered, mesh, topology.moved_to(list(ordered)))
    rank = len(x.shape)
    cuts = [isinstance(one, PlacementShard) and one.dim % rank == dim for one in placements]
    if len(shape) > 1 and 1 not in mesh.shape and any(cuts):
        placements = [PlacementShard(dim) if cut else one for cut, one in zip(cuts, placements, strict=True)]
    else:
        shape, placements = (len(ordered),), [PlacementShard(dim)]
    return MeshTensor(ordered, mesh, TensorTopology(shape, placements, list(ordered)))


def _cut_alike(placements: list[Any], rank: int) -> bool:
    dims = {one.dim % rank if isinstance(one, PlacementShard) else None for one in placements}
    return len(dims) == 1 and None not in dims


def replicated_along(_: Any) -> PlacementReplicate:
    return PlacementReplicate()


def cut_along(dim: int) -> Callable[[Any], Any]:
    return lambda _: PlacementShard(dim)
