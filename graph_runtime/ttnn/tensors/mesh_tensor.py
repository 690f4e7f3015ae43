"""MeshTensor: one handle on the parts of a tensor that lie on the chips of a mesh, or on the host before they
go there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..devices import chip_mesh
from ..devices.chip_mesh import ChipMesh
from ..devices.chips import MeshCoordinate, MeshShape
from ..errors import Unsupported, fatal
from ..memory.values import StorageType
from ..registry import OPERATIONS
from .placements import TensorTopology
from .tensor import Tensor, numbers


def _of_first(name: str) -> Any:
    """A property that all parts share."""

    def get(self: MeshTensor) -> Any:
        return getattr(self.parts[0], name)

    return property(get)


class MeshTensor(Tensor):
    """``parts``: {coordinate: tensor on the chip there}, in the order of the mesh's rows; all have one shape,
    dtype, layout and memory configuration, which are the tensor's. ``mesh``: None for parts on the host;
    ``mesh_shape``: the shape of the mesh that these are for, by default the smallest with all parts."""

    def __init__(
        self,
        parts: dict[MeshCoordinate, Tensor],
        mesh: ChipMesh | None,
        topology: TensorTopology,
        mesh_shape: Any = None,
    ):
        chip_mesh.made[:] = [True]
        if mesh is not None:
            mesh_shape = mesh.shape
        elif mesh_shape is None:
            mesh_shape = [max(along) + 1 for along in zip(*parts, strict=True)]
        self.mesh_shape = MeshShape(mesh_shape)
        self._parts, self._device, self._topology = dict(parts), mesh, topology
        self.tensor_id = next(numbers)

    _topology: TensorTopology
    _handle = _of_first("_handle")
    dtype = _of_first("dtype")
    layout = _of_first("layout")
    tile = _of_first("tile")
    _config = _of_first("_config")
    _padding = _of_first("_padding")
    _more = _of_first("_more")

    @property
    def parts(self) -> list[Tensor]:
        return list(self._parts.values())

    @property
    def coordinates(self) -> list[MeshCoordinate]:
        return list(self._parts)

    def part(self, coordinate: Sequence[int]) -> Tensor:
        """The part on a chip. Raises RuntimeError if the tensor is not there."""
        found = self._parts.get(MeshCoordinate(coordinate))
        if found is None:
            raise fatal("Tensor", f"Tensor not present on coordinate: MeshCoordinate({list(coordinate)})")
        return found

    def each(self, function: Callable[[Tensor], Tensor], mesh: ChipMesh | None) -> MeshTensor:
        """The tensor of what a function makes of each part."""
        made = {where: function(part) for where, part in self._parts.items()}
        return MeshTensor(made, mesh, self._topology, self.mesh_shape)

    def _shared(self) -> Tensor:
        return self.each(lambda part: part._shared(), self._device)  # type: ignore[arg-type]

    def tensor_topology(self) -> TensorTopology:
        return self._topology

    def update_tensor_topology(self, topology: TensorTopology) -> None:
        self._topology = topology

    def storage_type(self) -> StorageType:
        return StorageType.HOST if self._device is None else StorageType.DEVICE

    def devices(self) -> list[Any]:
        return [] if self._device is None else [self._device.at(where) for where in self._parts]  # type: ignore[attr-defined]

    def is_allocated(self) -> bool:
        return all(part.is_allocated() for part in self.parts)

    def deallocate(self, force: bool = False) -> None:
        for part in self.parts:
            part.deallocate(force)

    def cpu(self, blocking: bool = True, cq_id: int | None = None) -> Tensor:
        """The parts on the host."""
        return self if self._device is None else self.each(lambda part: part.cpu(blocking, cq_id), None)

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        device = args[0] if args else kwargs.get("device")
        if isinstance(device, ChipMesh):
            config = args[1] if len(args) > 1 else kwargs.get("mem_config")
            return OPERATIONS["to_device"](self, device, memory_config=config)
        return self.each(lambda part: part.to(*args, **kwargs), self._device)  # type: ignore[arg-type]

    def reshape(self, *shape: Any) -> Tensor:
        return self.each(lambda part: part.reshape(*shape), self._device)  # type: ignore[arg-type]

    def _values(self) -> np.ndarray:
        if len(self._parts) == 1:
            return self.parts[0]._values()
        text = (
            f"the tensor has {len(self._parts)} parts: give a mesh_composer, which says how to put them "
            "together, or take the parts by ttnn.get_device_tensors"
        )
        raise fatal(
            "Tensor.to_torch", f"Can't convert a tensor distributed on the mesh to one tensor: {text}"
        )

    def extract_shard(self, core: Any) -> Tensor:
        raise Unsupported("extract_shard of a tensor on several chips: take a part by get_device_tensors")

    def __repr__(self) -> str:
        each = "\n".join(f"device at {list(where)}: {part!r}" for where, part in self._parts.items())
        return f"{each}\n{self._topology!r}"

    __hash__ = object.__hash__
