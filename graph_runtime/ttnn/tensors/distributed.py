"""Functions that distribute tensors over a mesh; on a mesh of one device each is the identity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..devices.chips import MeshShape
from ..errors import check
from .tensor import Tensor

__all__ = [
    "ConcatMesh2dToTensor",
    "ConcatMeshToTensor",
    "CppMeshToTensor",
    "CppTensorToMesh",
    "MeshComposerConfig",
    "MeshCoordinate",
    "MeshCoordinateRange",
    "MeshMapperConfig",
    "MeshToTensor",
    "PlacementReplicate",
    "PlacementShard",
    "ReplicateTensorToMesh",
    "ShardTensor2dMesh",
    "ShardTensorToMesh",
    "TensorToMesh",
    "combine_device_tensors",
    "concat_mesh_to_tensor_composer",
    "create_mesh_composer",
    "create_mesh_mapper",
    "distribute",
    "from_host_shards",
    "get_device_tensors",
    "replicate_tensor_to_mesh_mapper",
    "set_fabric_config",
    "shard_tensor_to_mesh_mapper",
]


class MeshCoordinate(MeshShape):
    """Row and column of a device in a mesh."""


class MeshCoordinateRange:
    """A rectangle of a mesh, which includes both corners."""

    def __init__(self, start: Any, end: Any = None):
        self.start, self.end = start, start if end is None else end


class _Whole:
    """A mapper or composer for a mesh of one device; it only keeps its arguments."""

    def __init__(self, *args: Any, **given: Any):
        self.args, self.given = args, given

    def unwrap(self) -> _Whole:
        return self


class TensorToMesh(_Whole):
    """The type of all mappers."""


class MeshToTensor(_Whole):
    """The type of all composers."""


CppTensorToMesh, CppMeshToTensor = TensorToMesh, MeshToTensor


def _kind(name: str, doc: str) -> Any:
    """A class with this name and docstring, for mappers, composers or their configurations."""
    return type(name, (_Whole,), {"__doc__": doc, "__module__": __name__})


ReplicateTensorToMesh = _kind("ReplicateTensorToMesh", "The whole tensor on each device.")
ShardTensorToMesh = _kind("ShardTensorToMesh", "A part of a dimension for each device.")
ShardTensor2dMesh = _kind("ShardTensor2dMesh", "Parts of two dimensions for each device.")
ConcatMeshToTensor = _kind("ConcatMeshToTensor", "The devices' parts, one after another.")
ConcatMesh2dToTensor = _kind(
    "ConcatMesh2dToTensor", "The devices' parts side by side and one below the other."
)
PlacementShard = _kind("PlacementShard", "A dimension is split.")
PlacementReplicate = _kind("PlacementReplicate", "No dimension is split.")
MeshMapperConfig = _kind("MeshMapperConfig", "The way to split a tensor.")
MeshComposerConfig = _kind("MeshComposerConfig", "The way to put parts together.")
replicate_tensor_to_mesh_mapper, shard_tensor_to_mesh_mapper = ReplicateTensorToMesh, ShardTensorToMesh
concat_mesh_to_tensor_composer = ConcatMeshToTensor


def create_mesh_mapper(mesh_device: Any, config: Any) -> _Whole:
    """The configuration itself, which maps nothing on one device."""
    made: _Whole = config
    return made


create_mesh_composer = create_mesh_mapper


@contextmanager
def distribute(default: Any) -> Iterator[None]:
    """No effect: on one device every mapper or composer is the identity."""
    yield


def get_device_tensors(tensor: Tensor) -> list[Tensor]:
    """The tensors of the devices: a list of one."""
    return [tensor]


def combine_device_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The tensor of the one device, from a list of the tensors of all devices."""
    check(len(tensors) == 1, "ttnn.combine_device_tensors", "a mesh of one device has one tensor")
    return tensors[0]


def from_host_shards(tensors: Sequence[Tensor], mesh_shape: Any) -> Tensor:
    """The tensor of the one device, from a list of the tensors of all devices."""
    return combine_device_tensors(tensors)


def set_fabric_config(*_: Any, **__: Any) -> None:
    """No effect: one device has no fabric."""
