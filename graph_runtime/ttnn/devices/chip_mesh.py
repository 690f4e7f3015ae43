"""ChipMesh: a mesh of several simulated chips. An operation runs on each chip's part
(operations/over_mesh.py), so a mesh has no memory of its own: its ``members`` are devices as open_device
makes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import check
from .chips import FabricNodeId, MeshCoordinate, MeshShape, coordinates, fits_into, rectangle
from .mesh_device import MeshDevice

made: list[bool] = []  # True once this process has a mesh: calls need not look for one before (over_mesh.py)
__all__ = ["ChipMesh"]


class ChipMesh(MeshDevice):
    """``members``: the chips by rows of ``shape``. Properties that all chips share are those of the first;
    ``parent``: the mesh of which this one is a part, None if it was opened by itself."""

    def __init__(self, members: Sequence[MeshDevice], shape: Any, parent: ChipMesh | None = None):
        made[:] = [True]
        first = members[0]
        super().__init__(
            first.number,
            first.l1_small_size,
            first.trace_region_size,
            first.num_command_queues,
            first.worker_l1_size,
        )
        self.members, self._shape, self.parent = tuple(members), MeshShape(shape), parent
        self.submeshes: list[ChipMesh] = []

    def __repr__(self) -> str:
        size = "x".join(map(str, self._shape))
        return f"MeshDevice({size} grid, {len(self.members)} devices: {self.members[0].chip.spelling} ...)"

    @property
    def shape(self) -> MeshShape:
        return self._shape

    def at(self, coordinate: Sequence[int]) -> MeshDevice:
        """The chip at a coordinate. Raises RuntimeError for one outside of the mesh."""
        self.check_inside(coordinate)
        number = 0
        for at, size in zip(coordinate, self._shape, strict=True):
            number = number * size + at
        return self.members[number]

    def coordinates(self) -> list[MeshCoordinate]:
        return coordinates(tuple(self._shape))

    def get_device_ids(self) -> list[int]:
        return [member.number for member in self.members]

    def get_device_id(self, *coordinate: Any) -> int:
        given = coordinate[0] if len(coordinate) == 1 else coordinate
        return self.at(given).number

    def get_fabric_node_id(self, coord: Any) -> FabricNodeId:
        return self.at(coord).get_fabric_node_id((0, 0))

    def get_num_devices(self) -> int:
        return len(self.members)

    def get_devices(self) -> list[MeshDevice]:
        return list(self.members)

    # **************** the program cache ****************

    def num_program_cache_entries(self) -> int:
        """Number of card programs of all chips; one that several chips run counts once."""
        return len(set().union(*(member.cached_programs for member in self.members)))

    def enable_program_cache(self) -> None:
        self._each("enable_program_cache")

    def clear_program_cache(self) -> None:
        self._each("clear_program_cache")

    def disable_and_clear_program_cache(self) -> None:
        self._each("disable_and_clear_program_cache")

    def _each(self, method: str) -> None:
        for member in self.members:
            getattr(member, method)()

    # **************** parts of the mesh ****************

    def reshape(self, shape: Any) -> None:
        """Give the mesh another shape with as many chips. Raises RuntimeError."""
        wanted = MeshShape(shape)
        text = f"New shape must have the same number of devices as current shape: {wanted}, {self._shape}"
        check(wanted.mesh_size() == len(self.members), "MeshDevice.reshape", text)
        self._shape = wanted

    def create_submesh(self, shape: Any, offset: Any = None) -> ChipMesh:
        """The chips of a rectangle of this mesh, which both meshes use. Raises RuntimeError if the rectangle
        is not inside of the mesh."""
        op, wanted = "MeshDevice.create_submesh", MeshShape(shape)
        check(self.is_open, op, f"{self} is closed")
        start = [0] * len(wanted) if offset is None else list(offset)
        text = f"Invalid submesh shape: ({wanted}). All dimensions must be positive."
        check(all(size > 0 for size in wanted), op, text)
        fits = fits_into(wanted, self._shape, start)
        text = f"Submesh shape {wanted} and offset {MeshCoordinate(start)} does not fit within parent mesh"
        check(fits, op, f"{text} ({self._shape}).")
        made = ChipMesh([self.at(where) for where in rectangle(start, wanted)], wanted, self)
        self.submeshes.append(made)
        return made

    def create_submeshes(self, shape: Any) -> list[MeshDevice]:
        """Submeshes of one shape that together are the whole mesh, by rows. Raises RuntimeError unless the
        shape divides the mesh."""
        wanted = MeshShape(shape)
        whole = len(wanted) == len(self._shape) and all(
            size > 0 and b % size == 0 for size, b in zip(wanted, self._shape, strict=True)
        )
        text = f"Shape {self._shape} is not divisible by submesh shape {wanted}"
        check(whole, "MeshDevice.create_submeshes", text)
        steps = [b // size for size, b in zip(wanted, self._shape, strict=True)]
        corners = ([at * size for at, size in zip(c, wanted, strict=True)] for c in coordinates(steps))
        return [self.create_submesh(wanted, corner) for corner in corners]

    def get_submeshes(self) -> list[ChipMesh]:
        return list(self.submeshes)

    def get_parent_mesh(self) -> ChipMesh | None:
        return self.parent


def members_of(device: MeshDevice) -> tuple[MeshDevice, ...]:
    """The chips of a mesh; a device of one chip is its own member."""
    return device.members if isinstance(device, ChipMesh) else (device,)


def lines(placed: Iterable[Sequence[int]], axis: int) -> list[list[MeshCoordinate]]:
    """Coordinates as the groups of a collective, each in order: those that differ along ``axis`` only."""
    groups: dict[tuple[int, ...], list[MeshCoordinate]] = {}
    for where in placed:
        key = tuple(at for i, at in enumerate(where) if i != axis)
        groups.setdefault(key, []).append(MeshCoordinate(where))
    return list(groups.values())
