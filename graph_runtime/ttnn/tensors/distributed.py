"""Mappers and composers: how a tensor becomes parts on the chips of a mesh, and the parts one tensor again.
On a mesh of one chip each is the identity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..devices.chip_mesh import ChipMesh
from ..devices.chips import MeshCoordinate, MeshShape, coordinates, fits_into, rectangle
from ..devices.mesh_device import MeshDevice
from ..errors import check, fatal
from ..registry import OPERATIONS
from .mesh_tensor import MeshTensor
from .placements import (
    MeshComposerConfig,
    MeshMapperConfig,
    PlacementReplicate,
    PlacementShard,
    TensorTopology,
)
from .tensor import Tensor, on_host

__all__ = [
    "ConcatMesh2dToTensor",
    "ConcatMeshToTensor",
    "CppMeshToTensor",
    "CppTensorToMesh",
    "MeshToTensor",
    "ReplicateTensorToMesh",
    "ShardTensor2dMesh",
    "ShardTensorToMesh",
    "TensorToMesh",
    "aggregate_tensor",
    "combine_device_tensors",
    "compute_distribution_to_mesh_mapping",
    "concat_mesh_to_tensor_composer",
    "create_mesh_composer",
    "create_mesh_mapper",
    "distribute",
    "distribute_tensor",
    "from_host_shards",
    "get_device_tensors",
    "replicate_tensor_to_mesh_mapper",
    "shard_tensor_to_mesh_mapper",
]


class _OverMesh:
    """What mappers and composers have: a mesh and the shape over which they distribute. Coordinates of that
    shape are coordinates of the mesh if it has the mesh's rank and fits into it; else both are counted by
    rows (distributed_tensor.cpp: compute_distribution_mode)."""

    def __init__(self, mesh_device: MeshDevice, config: Any, count: int, what: str):
        op, override = f"ttnn.{type(self).__name__}", config.mesh_shape_override
        if not isinstance(mesh_device, MeshDevice):
            raise TypeError(f"{op}(): incompatible function arguments: {mesh_device!r} is no ttnn.MeshDevice")
        check(mesh_device.is_open, op, f"{mesh_device} is closed")
        self.mesh, own = mesh_device, mesh_device.shape
        self.shape = own if override is None else override
        text = f"The size of the supplied mesh shape {self.shape} does not match the device shape size {own}"
        check(self.shape.mesh_size() <= own.mesh_size(), op, text)
        text = f"The number of dimensions in the mesh shape {self.shape} does not match the number of {what}"
        check(len(self.shape) == count, op, text)
        offset = config.mesh_offset_override
        self._places = compute_distribution_to_mesh_mapping(self.shape, own)
        if offset is not None and any(offset):
            text = (
                f"mesh_offset_override needs a mesh_shape_override that fits into the mesh, not {self.shape}"
            )
            check(fits_into(self.shape, own), op, text)
            text = (
                f"The sub-rectangle anchored at offset {offset} with shape {self.shape} does not fit within"
            )
            check(fits_into(self.shape, own, offset), op, f"{text} the mesh device shape {own}")
            self._places = rectangle(offset, self.shape)

    def placed(self) -> list[tuple[MeshCoordinate, MeshCoordinate]]:
        """(coordinate of the distribution, coordinate of the mesh) of each part."""
        own = coordinates(tuple(self.shape))
        return list(zip(own, self._places, strict=True))

    def unwrap(self) -> Any:
        return self


class TensorToMesh(_OverMesh):
    """A mapper, made of a MeshMapperConfig."""

    def __init__(self, mesh_device: MeshDevice, config: MeshMapperConfig):
        check_kind(config, MeshMapperConfig, "ttnn.create_mesh_mapper")
        super().__init__(mesh_device, config, len(config.placements), "placements")
        self.config = config

    def copies(self) -> bool:
        """Whether each chip of the mesh gets the whole tensor, without axes."""
        return self.config.placements == [PlacementReplicate()] and self.shape == [
            self.mesh.get_num_devices()
        ]

    def split(self, values: Any) -> tuple[list[tuple[MeshCoordinate, Any]], TensorTopology]:
        """((coordinate of the mesh, part), ...) of an array or a torch tensor, and their topology. Raises
        RuntimeError where ttnn does: a dimension that two axes cut, parts that are not alike, too few parts
        for several axes."""
        placements, sizes = self.config.placements, tuple(self.shape)
        axes = [i for i, one in enumerate(placements) if isinstance(one, PlacementShard)]
        dims = [_dimension(placements[i].dim, len(values.shape)) for i in axes]
        check(len(set(dims)) == len(dims), "ttnn.distribute_tensor", "dims must be unique")
        chunks: dict[tuple[int, ...], Any] = {(): values}
        for axis, dim in zip(axes, dims, strict=True):
            chunks = {
                (*at, i): piece
                for at, chunk in chunks.items()
                for i, piece in enumerate(_chunked(chunk, dim, sizes[axis]))
            }
        wanted = math.prod(sizes[axis] for axis in axes)
        text = f"ND sharding requires the number of chunks {len(chunks)} to match the mesh size {wanted}"
        check(len(sizes) == 1 or len(chunks) == wanted, "ttnn.distribute_tensor", text)
        _check_alike([tuple(chunk.shape) for chunk in chunks.values()])
        pairs = []
        for own, place in self.placed():
            chunk = chunks.get(tuple(own[axis] for axis in axes))
            if chunk is not None:
                pairs.append((place, chunk))
        shape = [len(pairs)] if len(sizes) == 1 else sizes
        return pairs, TensorTopology(shape, placements, [place for place, _ in pairs])


def check_kind(value: Any, kind: type, op: str) -> None:
    """Raise TypeError unless ``value`` is of a class of ttnn's."""
    if not isinstance(value, kind):
        raise TypeError(f"{op}(): incompatible function arguments: {value!r} is no ttnn.{kind.__name__}")


def _dimension(dim: int, rank: int) -> int:
    check(-rank <= dim < rank, "ttnn.distribute_tensor", f"dimension {dim} is out of range for rank {rank}")
    return dim % rank


def _chunked(values: Any, dim: int, count: int) -> list[Any]:
    """Parts of a dimension, each as long as the first but perhaps the last; fewer than ``count`` if the
    dimension is short."""
    size = int(values.shape[dim])
    step = max(1, -(-size // count))
    before = (slice(None),) * dim
    return [values[(*before, slice(at, at + step))] for at in range(0, max(size, 1), step)]


def _check_alike(shapes: list[tuple[int, ...]]) -> None:
    for shape in shapes:
        text = f"Shard shape mismatch: expected Shape({list(shapes[0])}) but got Shape({list(shape)})"
        check(shape == shapes[0], "ttnn.distribute_tensor", text)


class MeshToTensor(_OverMesh):
    """A composer, made of a MeshComposerConfig."""

    def __init__(self, mesh_device: MeshDevice, config: MeshComposerConfig):
        check_kind(config, MeshComposerConfig, "ttnn.create_mesh_composer")
        super().__init__(mesh_device, config, len(config.dims), "dimensions")
        self.config = config

    def joined(self, tensor: MeshTensor) -> np.ndarray:
        """The values of all parts as one array. Raises RuntimeError if parts are missing for several axes,
        or if two axes name one dimension."""
        found = {own: tensor._parts.get(place) for own, place in self.placed()}
        parts = {own: part._values() for own, part in found.items() if part is not None}
        check(bool(parts), "ttnn.aggregate_tensor", "the tensor has no part on this mesh")
        values = list(parts.values())
        if len(values) == 1:
            return values[0]
        rank = values[0].ndim
        dims = [_dimension(dim, rank) for dim in self.config.dims]
        if len(dims) == 1:
            return np.concatenate(values, dims[0])
        text = f"ND composition requires the number of tensors {len(values)} to match the mesh {self.shape}"
        check(len(values) == self.shape.mesh_size(), "ttnn.aggregate_tensor", text)
        check(len(set(dims)) == len(dims), "ttnn.aggregate_tensor", "dims must be unique")
        for axis in reversed(range(len(dims))):
            size = self.shape[axis]
            values = [
                np.concatenate(values[at : at + size], dims[axis]) for at in range(0, len(values), size)
            ]
        return values[0]


CppTensorToMesh, CppMeshToTensor = TensorToMesh, MeshToTensor


def create_mesh_mapper(mesh_device: MeshDevice, config: MeshMapperConfig) -> TensorToMesh:
    """A mapper by a configuration. Raises RuntimeError for a shape that the mesh does not have room for."""
    return TensorToMesh(mesh_device, config)


def create_mesh_composer(mesh_device: MeshDevice, config: MeshComposerConfig) -> MeshToTensor:
    """A composer by a configuration. Raises RuntimeError for a shape that the mesh does not have room for."""
    return MeshToTensor(mesh_device, config)


def _line(mesh_device: MeshDevice) -> list[int]:
    """The shape of all chips in a row."""
    check_kind(mesh_device, MeshDevice, "ttnn.create_mesh_mapper")
    return [mesh_device.get_num_devices()]


def replicate_tensor_to_mesh_mapper(mesh_device: MeshDevice) -> TensorToMesh:
    """The mapper that gives each chip the whole tensor."""
    return TensorToMesh(mesh_device, MeshMapperConfig([PlacementReplicate()], _line(mesh_device)))


def shard_tensor_to_mesh_mapper(
    mesh_device: MeshDevice, dim: int, cluster_axis: int | None = None
) -> TensorToMesh:
    """The mapper that gives each chip a part of a dimension: of all chips by rows, or along one axis of the
    mesh, on which other axes have copies."""
    if cluster_axis is None:
        return TensorToMesh(mesh_device, MeshMapperConfig([PlacementShard(dim)], _line(mesh_device)))
    rank = len(mesh_device.shape)
    text = f"Cluster axis {cluster_axis} is out of range for mesh device with {rank} dimensions"
    check(0 <= cluster_axis < rank, "ttnn.shard_tensor_to_mesh_mapper", text)
    placements: list[Any] = [PlacementReplicate() for _ in range(rank)]
    placements[cluster_axis] = PlacementShard(dim)
    return TensorToMesh(mesh_device, MeshMapperConfig(placements))


def concat_mesh_to_tensor_composer(mesh_device: MeshDevice, dim: int) -> MeshToTensor:
    """The composer that puts the chips' parts one after another along a dimension."""
    return MeshToTensor(mesh_device, MeshComposerConfig([dim], _line(mesh_device)))


ReplicateTensorToMesh = replicate_tensor_to_mesh_mapper
ShardTensorToMesh = shard_tensor_to_mesh_mapper
ConcatMeshToTensor = concat_mesh_to_tensor_composer


def ShardTensor2dMesh(mesh_device: MeshDevice, mesh_shape: Any, dims: Any) -> TensorToMesh:
    """The mapper that cuts a dimension for the rows and one for the columns of the mesh; None: copies."""
    shape = MeshShape(mesh_shape)
    rows = tuple(mesh_device.shape)
    if len(shape) != 2 or any(a > b for a, b in zip(shape, rows, strict=True)):
        raise ValueError(
            f"ttnn.ShardTensor2dMesh: Device mesh shape {rows} does not match mesh shape {tuple(shape)}"
        )
    if len(dims) != 2 or all(dim is None for dim in dims):
        raise ValueError(f"ttnn.ShardTensor2dMesh: two dims are needed, of which one is not None, got {dims}")
    placements = [PlacementReplicate() if dim is None else PlacementShard(dim) for dim in dims]
    return TensorToMesh(mesh_device, MeshMapperConfig(placements, shape))


def ConcatMesh2dToTensor(mesh_device: MeshDevice, mesh_shape: Any, dims: Any) -> MeshToTensor:
    """The composer that puts the parts of rows and of columns one after another along two dimensions."""
    if len(dims) != 2 or dims[0] == dims[1]:
        raise ValueError(
            f"ttnn.ConcatMesh2dToTensor: Both dimensions in 'dims' must be different, got {dims}"
        )
    return MeshToTensor(mesh_device, MeshComposerConfig(dims, mesh_shape))


_defaults: list[Any] = []


@contextmanager
def distribute(default: Any) -> Iterator[None]:
    """Use a mapper or composer for each from_torch and to_torch of the block that names none."""
    _defaults.append(default)
    try:
        yield
    finally:
        _defaults.pop()


def default_of(kind: type) -> Any:
    """The mapper (TensorToMesh) or composer (MeshToTensor) of the innermost ``distribute`` that has one."""
    return next((one for one in reversed(_defaults) if isinstance(one, kind)), None)


def get_device_tensors(tensor: Tensor) -> list[Tensor]:
    """The tensors of the chips, by rows of the mesh; of a tensor on one device a list of it alone."""
    if not isinstance(tensor, MeshTensor):
        return [tensor]
    on_chips = tensor._device is not None
    for part in tensor.parts:
        part._topology = tensor.tensor_topology() if on_chips else None
    return tensor.parts


def combine_device_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """One tensor of the tensors of several chips of a mesh; its topology is that of a line, as the release
    has it. Raises RuntimeError for parts that are not alike or that lie on one chip."""
    op = "ttnn.combine_device_tensors"
    check(len(tensors) > 0, op, "At least one tensor shard must be provided")
    for one in tensors:
        check_kind(one, Tensor, op)
    check(all(one._device is not None for one in tensors), op, "All tensor shards must be on device")
    if len(tensors) == 1:
        return _on_a_line(tensors[0])
    return _joined(op, tensors, _mesh_of(op, [one._device for one in tensors]))


def _mesh_of(op: str, devices: Sequence[Any]) -> ChipMesh:
    meshes = {id(one.mesh): one.mesh for one in devices if one is not None and one.mesh is not None}
    if len(meshes) != 1 or len(set(map(id, devices))) != len(devices) or None in devices:
        raise fatal(op, "the tensors must be on chips of one open mesh, each on another")
    found: ChipMesh = next(iter(meshes.values()))
    return found


def _joined(op: str, tensors: Sequence[Tensor], mesh: ChipMesh) -> MeshTensor:
    where = dict(zip(mesh.members, mesh.coordinates(), strict=True))
    parts = {where[one._device]: one for one in tensors}  # type: ignore[index]
    first = tensors[0]
    for one in tensors:
        alike = (one.spec == first.spec, one.layout is first.layout)
        check(all(alike), op, f"All device shards must have the same tensor spec: {one.spec} != {first.spec}")
    ordered = {at: parts[at] for at in mesh.coordinates() if at in parts}
    line = coordinates((1, len(ordered)))
    return MeshTensor(ordered, mesh, TensorTopology([len(ordered)], [PlacementShard(0)], line))


def from_host_shards(tensors: Sequence[Tensor], mesh_shape: Any) -> Tensor:
    """A host tensor of the parts for a mesh of a shape, by rows. Raises RuntimeError unless there is a part a
    chip, all alike."""
    op, shape = "ttnn.from_host_shards", MeshShape(mesh_shape)
    text = f"Number of tensor shards must match mesh size: {len(tensors)} != {shape.mesh_size()}"
    check(len(tensors) == shape.mesh_size(), op, text)
    for one in tensors:
        check_kind(one, Tensor, op)
        check(one._device is None, op, "All tensor shards must be on host")
        check(one.spec == tensors[0].spec, op, "All tensor shards must have the same tensor spec")
    places = coordinates(tuple(shape))
    topology = TensorTopology([len(places)], [PlacementShard(0)], places)
    if len(tensors) == 1:
        return _on_a_line(tensors[0])
    return MeshTensor(dict(zip(places, tensors, strict=True)), None, topology, shape)


def _on_a_line(tensor: Tensor) -> Tensor:
    """The tensor as the only one of a line."""
    made = tensor._shared()
    made._topology = TensorTopology([1], [PlacementShard(0)], [(0, 0)])
    return made


def distribute_tensor(tensor: Tensor, mapper: TensorToMesh, mesh_device: Any = None) -> Tensor:
    """The parts of a host tensor, on the host, or with ``mesh_device`` on its chips. Raises RuntimeError for
    a tensor that is on chips or in parts already."""
    op = "ttnn.distribute_tensor"
    if not isinstance(mapper, TensorToMesh) or not isinstance(tensor, Tensor):
        raise TypeError(f"{op}(): incompatible function arguments: it takes a tensor and a mapper")
    on_chips = tensor._device is not None
    text = f"TensorToMesh only supports host tensors; got storage type: {tensor.storage_type()}"
    check(not on_chips, op, text)
    if isinstance(tensor, MeshTensor):
        text = f"host storage distributed over mesh shape {tensor.mesh_shape}"
        raise fatal(op, f"Can't get a single buffer from {text}")
    pairs, topology = mapper.split(tensor._values())
    parts = {}
    for where, values in pairs:
        part = on_host(values, tensor.dtype, tensor.layout, tensor._padding, tile=tensor.tile)
        part._config, parts[where] = tensor._config, part
    several = isinstance(mapper.mesh, ChipMesh)
    made = MeshTensor(parts, None, topology, mapper.mesh.shape) if several else part
    if mesh_device is None:
        return made
    moved: Tensor = OPERATIONS["to_device"](made, mesh_device, memory_config=tensor.memory_config())
    return moved


def aggregate_tensor(tensor: Tensor, composer: MeshToTensor) -> Tensor:
    """One host tensor of all parts. Raises RuntimeError for a tensor without the parts that the composer puts
    together."""
    op = "ttnn.aggregate_tensor"
    if not isinstance(composer, MeshToTensor) or not isinstance(tensor, Tensor):
        raise TypeError(f"{op}(): incompatible function arguments: it takes a tensor and a composer")
    if isinstance(tensor, MeshTensor):
        values = composer.joined(tensor)
    else:
        more = [place for _, place in composer.placed()][1:]
        check(not more, op, f"Coordinate {(*more, None)[0]} is out of bounds for shape {MeshShape(1, 1)}")
        values = tensor._values()
    return on_host(values, tensor.dtype, tensor.layout, tile=tensor.tile)


def compute_distribution_to_mesh_mapping(distribution_shape: Any, mesh_shape: Any) -> list[MeshCoordinate]:
    """The coordinates in a mesh of the parts of a distribution, by rows of both."""
    shape, own = MeshShape(distribution_shape), MeshShape(mesh_shape)
    return (
        coordinates(tuple(shape)) if fits_into(shape, own) else coordinates(tuple(own))[: shape.mesh_size()]
    )
