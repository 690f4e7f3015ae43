"""Meshes and the tensors on them, drawn as text: a cell a chip."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..devices.chips import MeshCoordinate, MeshShape, coordinates
from ..devices.mesh_device import MeshDevice, SystemMeshDescriptor
from .mesh_tensor import MeshTensor
from .placements import PlacementShard
from .tensor import Tensor

__all__ = ["visualize_mesh_device", "visualize_system_mesh", "visualize_tensor"]


def visualize_mesh_device(mesh_device: MeshDevice) -> None:
    """Print the numbers and coordinates of a mesh's chips."""
    shape, numbers = mesh_device.shape, mesh_device.get_device_ids()
    cells = [[f"Dev. ID: {number}"] for number in numbers]
    _draw(f"MeshDevice(rows={shape[0]}, cols={shape[1]})", shape, cells)


def visualize_system_mesh() -> None:
    """Print the shape of the machine's mesh, and its chips."""
    found = SystemMeshDescriptor()
    shape = found.shape()
    sys.stdout.write(f"SystemMesh Global Shape: {shape}\nSystemMesh Local Shape: {found.local_shape()}\n")
    _draw("SystemMesh", shape, [[f"Dev. ID: {found.get_device_id(at)}"] for at in coordinates(shape)])


def visualize_tensor(tensor: Tensor) -> None:
    """Print which part of a tensor each chip has."""
    parts = (
        dict(zip(tensor.coordinates, tensor.parts, strict=True)) if isinstance(tensor, MeshTensor) else None
    )
    shape = tensor.mesh_shape if isinstance(tensor, MeshTensor) else MeshShape(1, 1)
    topology = tensor.tensor_topology()
    own = dict(zip(topology.mesh_coords(), coordinates(topology.distribution_shape()), strict=True))
    cells = []
    for where in coordinates(shape):
        part = tensor if parts is None else parts.get(where)
        if part is None:
            cells.append(["-"])
            continue
        kinds = [f"Dtype: {part.dtype.name}", f"Layout: {part.layout.name}"]
        sliced = _slices(part, own[where], topology.placements(), topology.distribution_shape())
        cells.append([sliced, f"Shape: {list(part.shape)}", *kinds])
    sys.stdout.write(f"Placement Configuration: {topology.placements()}\n")
    _draw(f"Tensor(storage: {tensor.storage_type()})", shape, cells)


def _slices(part: Tensor, own: MeshCoordinate, placements: Sequence[object], sizes: Sequence[int]) -> str:
    """The part of the whole tensor that a chip has, as Python writes slices; ":" for a whole dimension."""
    found = [":"] * len(part.shape)
    for at, count, placement in zip(own, sizes, placements, strict=True):
        if isinstance(placement, PlacementShard) and count > 1:
            size = part.shape[placement.dim]
            found[placement.dim] = f"{at * size}:{(at + 1) * size}"
    return f"[{', '.join(found)}]"


def _draw(title: str, shape: Sequence[int], cells: list[list[str]]) -> None:
    """Print a table of the shape of a mesh; ``cells``: the lines of each cell below its coordinate."""
    columns = shape[-1]
    whole = [[str(tuple(at)), *cell] for at, cell in zip(coordinates(shape), cells, strict=True)]
    wide = max(len(line) for cell in whole for line in cell)
    ruler = "+" + ("-" * (wide + 2) + "+") * columns
    lines = [title, ruler]
    for start in range(0, len(whole), columns):
        row = whole[start : start + columns]
        for at in range(max(map(len, row))):
            texts = [cell[at] if at < len(cell) else "" for cell in row]
            lines.append("|" + "".join(f" {text:^{wide}} |" for text in texts))
        lines.append(ruler)
    sys.stdout.write("\n".join(lines) + "\n")
