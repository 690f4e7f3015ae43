"""Operations on a mesh: a call with tensors or a device of several chips runs on each chip, with that chip's
parts; results become tensors on the mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..devices import chip_mesh
from ..devices.chip_mesh import ChipMesh
from ..devices.chips import MeshCoordinate
from ..errors import fatal
from ..tensors.distributed import MeshToTensor, TensorToMesh, check_kind, default_of
from ..tensors.mesh_tensor import MeshTensor
from ..tensors.placements import TensorTopology, merged, replicated
from ..tensors.tensor import Tensor, on_host

Call = Callable[..., Any]


def takes_part(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call has a tensor or a device of several chips among its arguments."""
    return bool(chip_mesh.made) and any(_is_of_mesh(value) for value in (*args, *kwargs.values()))


def _is_of_mesh(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_of_mesh, value))
    if isinstance(value, (TensorToMesh, MeshToTensor)):
        return isinstance(value.mesh, ChipMesh)
    return isinstance(value, (MeshTensor, ChipMesh))


def on_each_chip(name: str, call: Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of ``call(args, kwargs)`` on each chip that all tensors of the call lie on. In
    the arguments of a chip each tensor is its part there, and a mesh is the chip."""
    special = _SPECIAL.get(name)
    if special is not None:
        found = special(call, args, kwargs)
        if found is not NotImplemented:
            return found
    tensors, meshes = _found((args, kwargs))
    mesh: Any = next((x._device for x in tensors if x._device is not None), meshes[0] if meshes else None)
    _check_one_mesh(name, [*(x._device for x in tensors), *meshes])
    places = _places(name, tensors, mesh)
    results = {}
    for where in places:
        own, more = _at((tuple(args), kwargs), where)
        if more.get("mesh_coords") is not None:  # the chips that take part, of which each knows itself alone
            there = any(tuple(at) == tuple(where) for at in more["mesh_coords"])
            more["mesh_coords"] = [(0, 0)] if there else []
        results[where] = call(own, more)
    inputs = [x.tensor_topology() for x in tensors]
    topology = merged(inputs, places) if inputs else replicated(places)
    return joined(results, mesh, topology, tensors[0].mesh_shape if tensors else None)


def _check_one_mesh(name: str, given: Sequence[Any]) -> None:
    """Raise RuntimeError for tensors or devices of two meshes, unless both lie on the same chips."""
    chips = {one.members for one in given if one is not None}
    if len(chips) > 1:
        raise fatal(f"ttnn.{name}", "the tensors lie on two meshes: bring them to one by get_device_tensors")


def _found(value: Any) -> tuple[list[MeshTensor], list[ChipMesh]]:
    """The tensors and the meshes among arguments, in order."""
    tensors: list[MeshTensor] = []
    meshes: list[ChipMesh] = []
    queue = [value]
    while queue:
        one = queue.pop(0)
        if isinstance(one, MeshTensor):
            tensors.append(one)
        elif isinstance(one, ChipMesh):
            meshes.append(one)
        elif isinstance(one, (list, tuple)):
            queue[:0] = one
        elif isinstance(one, dict):
            queue[:0] = one.values()
    return tensors, meshes


def _places(name: str, tensors: list[MeshTensor], mesh: ChipMesh | None) -> list[MeshCoordinate]:
    """The coordinates on which all tensors have parts. Raises RuntimeError if there is none."""
    if not tensors:
        assert mesh is not None  # takes_part saw it
        return mesh.coordinates()
    places = [at for at in tensors[0].coordinates if all(at in x._parts for x in tensors[1:])]
    if not places:
        raise fatal(f"ttnn.{name}", "the tensors lie on different chips of the mesh")
    return places


def _at(value: Any, where: MeshCoordinate) -> Any:
    if isinstance(value, MeshTensor):
        return value.part(where)
    if isinstance(value, ChipMesh):
        return value.at(where)
    if isinstance(value, (list, tuple)):
        return _like(value, [_at(one, where) for one in value])
    if isinstance(value, dict):
        return {key: _at(one, where) for key, one in value.items()}
    return value


def joined(
    results: dict[MeshCoordinate, Any],
    mesh: ChipMesh | None,
    topology: TensorTopology,
    mesh_shape: Any = None,
) -> Any:
    """The chips' results as one: tensors become a tensor on the mesh, also inside of lists and tuples; of
    anything else the first chip's stands for all. ``mesh_shape``: the shape of the mesh for parts on the
    host."""
    first = next(iter(results.values()))
    if isinstance(first, Tensor):
        on_chips = None if first._device is None else mesh
        return MeshTensor(results, on_chips, topology, mesh_shape)
    if isinstance(first, (list, tuple)):
        each = [
            joined({where: made[at] for where, made in results.items()}, mesh, topology, mesh_shape)
            for at in range(len(first))
        ]
        return _like(first, each)
    return first


def _like(value: Any, items: list[Any]) -> Any:
    """A list, tuple or named tuple, as ``value`` is, of other items."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


# **************** between one tensor and its parts ****************


def _distributed(call: Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """from_torch with a mapper."""
    more = dict(kwargs)
    mapper = more.pop("mesh_mapper", None) or default_of(TensorToMesh)
    source = args[0] if args else more.pop("tensor", None)
    if mapper is None or source is None or isinstance(source, Tensor):
        return NotImplemented
    check_kind(mapper, TensorToMesh, "ttnn.from_torch")
    device = more.pop("device", None)
    pairs, topology = mapper.split(source)
    results = {}
    for where, part in pairs:
        chip = device.at(where) if isinstance(device, ChipMesh) else device
        results[where] = call((part, *args[1:]), {**more, "device": chip})
    return joined(results, device, topology, mapper.mesh.shape)


def _composed(call: Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """to_torch with a composer."""
    more = dict(kwargs)
    composer = more.pop("mesh_composer", None) or default_of(MeshToTensor)
    tensor = args[0] if args else more.pop("tensor", None)
    if isinstance(tensor, MeshTensor) and composer is not None:
        check_kind(composer, MeshToTensor, "ttnn.to_torch")
        made = on_host(composer.joined(tensor), tensor.dtype, tensor.layout, exact=True)
        return call((made, *args[1:]), more)
    if isinstance(tensor, MeshTensor):
        tensor._values()  # the error of a tensor of several parts
        return call((tensor.parts[0], *args[1:]), more)
    return NotImplemented


def _to_mesh(call: Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """to_device: a host tensor goes to each chip whole, parts go to their chips."""
    named = dict(zip(("tensor", "device", "memory_config"), args, strict=False)) | kwargs
    tensor, mesh = named.pop("tensor", None), named.pop("device", None)
    if mesh is None or not isinstance(tensor, Tensor):
        return NotImplemented
    if isinstance(tensor, MeshTensor):
        places, topology = tensor.coordinates, tensor.tensor_topology()
        for where in places:
            mesh.check_inside(where)
        if not isinstance(mesh, ChipMesh):
            return call((tensor.parts[0], mesh), named)
    else:
        places = mesh.coordinates()
        topology = replicated(places)
    results = {}
    for where in places:
        part = tensor.part(where) if isinstance(tensor, MeshTensor) else tensor
        results[where] = call((part, mesh.at(where)), named)
    return joined(results, mesh, topology)


_SPECIAL: dict[str, Call] = {
    "from_torch": _distributed,
    "to_torch": _composed,
    "to_device": _to_mesh,
}
