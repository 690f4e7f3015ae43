"""What distributes tensors over a mesh: of one device, so that each of these is the identity."""

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
    """A rectangle of a mesh, both corners inside."""

    def __init__(self, start: Any, end: Any = None):
        self.start, self.end = start, start if end is None else end


class _Whole:
    """A mapper or composer of a mesh of one device: it keeps what it was given."""

    def __init__(self, *args: Any, **given: Any):
        self.args, self.given = args, given

    def unwrap(self) -> _Whole:
        return self


class TensorToMesh(_Whole):
    """Any mapper."""


class MeshToTensor(_Whole):
    """Any composer."""


CppTensorToMesh, CppMeshToTensor = TensorToMesh, MeshToTensor


class ReplicateTensorToMesh(_Whole):
    """The tensor, on each device."""


class ShardTensorToMesh(_Whole):
    """A part of a dimension for each device."""


class ShardTensor2dMesh(_Whole):
    """Parts of two dimensions for each device."""


class ConcatMeshToTensor(_Whole):
    """The devices' parts after each other."""


class ConcatMesh2dToTensor(_Whole):
    """The devices' parts beside and below each other."""


class PlacementShard(_Whole):
    """A dimension is cut."""


class PlacementReplicate(_Whole):
    """Nothing is cut."""


class MeshMapperConfig(_Whole):
    """How a tensor is cut."""


class MeshComposerConfig(_Whole):
    """How parts are put together."""


def create_mesh_mapper(mesh_device: Any, config: MeshMapperConfig) -> _Whole:
    return config


def create_mesh_composer(mesh_device: Any, config: MeshComposerConfig) -> _Whole:
    return config


@contextmanager
def distribute(default: Any) -> Iterator[None]:
    """A mapper or composer for a with block."""
    yield


def get_device_tensors(tensor: Tensor) -> list[Tensor]:
    """The tensor of each device: of the only one."""
    return [tensor]


def combine_device_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors of all devices as one."""
    check(len(tensors) == 1, "ttnn.combine_device_tensors", "a mesh of one device has one tensor")
    return tensors[0]


def from_host_shards(tensors: Sequence[Tensor], mesh_shape: Any) -> Tensor:
    """The tensors of all devices as one."""
    return combine_device_tensors(tensors)


def replicate_tensor_to_mesh_mapper(mesh_device: Any) -> _Whole:
    return ReplicateTensorToMesh(mesh_device)


def shard_tensor_to_mesh_mapper(mesh_device: Any, dim: int) -> _Whole:
    return ShardTensorToMesh(mesh_device, dim)


def concat_mesh_to_tensor_composer(mesh_device: Any, dim: int) -> _Whole:
    return ConcatMeshToTensor(mesh_device, dim)


def set_fabric_config(*_: Any, **__: Any) -> None:
    """One device has no fabric: this does nothing."""
