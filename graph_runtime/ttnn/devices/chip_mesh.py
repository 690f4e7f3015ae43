"""ChipMesh: a mesh of several simulated chips. An operation runs on each chip's part
(operations/over_mesh.py), so a mesh has no memory of its own: its ``members`` are devices as open_device
makes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..errors import check, fatal
from .chips import MeshShape
from .mesh_device import MeshDevice

made: list[bool] = []  # True once this process has a mesh: calls need not look for one before (over_mesh.py)
__all__ = ["ChipMesh", "MeshCoordinate", "MeshCoordinateRange"]


class MeshCoordinate(MeshShape):
    """Row and column of a chip in a mesh."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"MeshCoordinate({list(self)})"


class MeshCoordinateRange:
    """A rectangle of a mesh, which includes both corners; of a MeshShape, the whole mesh."""

    def __init__(self, start: Any, end: Any = None):
        if end is None and not isinstance(start, MeshCoordinate):
            start, end = [0] * len(start), [size - 1 for size in start]
        self.start, self.end = MeshCoordinate(start), MeshCoordinate(start if end is None else end)

    def __iter__(self) -> Iterator[MeshCoordinate]:
        return iter(_rectangle(self.start, [b - a + 1 for a, b in zip(self.start, self.end, strict=True)]))

    def __contains__(self, coordinate: Any) -> bool:
        return all(a <= at <= b for a, at, b in zip(self.start, coordinate, self.end, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MeshCoordinateRange) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"MeshCoordinateRange(start={self.start}, end={self.end})"


def coordinates(shape: Sequence[int]) -> list[MeshCoordinate]:
    """All coordinates of a mesh, by rows."""
    return _rectangle([0] * len(shape), shape)


def _rectangle(start: Sequence[int], shape: Sequence[int]) -> list[MeshCoordinate]:
    found: list[tuple[int, ...]] = [()]
    for first, size in zip(start, shape, strict=True):
        found = [(*at, first + step) for at in found for step in range(size)]
    return [MeshCoordinate(at) for at in found]


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
        where = tuple(coordinate)
        inside = len(where) == len(self._shape) and all(
            0 <= c < s for c, s in zip(where, self._shape, strict=True)
        )
        if not inside:
            raise fatal("MeshDevice", f"Coordinate {where} is out of bounds for shape {tuple(self._shape)}")
        number = 0
        for at, size in zip(where, self._shape, strict=True):
            number = number * size + at
        return self.members[number]

    def coordinates(self) -> list[MeshCoordinate]:
        return coordinates(tuple(self._shape))

    def get_device_ids(self) -> list[int]:
        return [member.number for member in self.members]

    def get_device_id(self, *coordinate: Any) -> int:
        given = coordinate[0] if len(coordinate) == 1 else coordinate
        return self.at(given).number

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
        if wanted.mesh_size() != len(self.members):
            text = f"the mesh has {len(self.members)} devices, a mesh of {tuple(wanted)} has others"
            raise fatal("MeshDevice.reshape", text)
        self._shape = wanted

    def create_submesh(self, shape: Any, offset: Any = None) -> ChipMesh:
        """The chips of a rectangle of this mesh, which both meshes use. Raises RuntimeError if the rectangle
        is not inside of the mesh."""
        op, wanted = "MeshDevice.create_submesh", MeshShape(shape)
        check(self.is_open, op, f"{self} is closed")
        start = [0] * len(wanted) if offset is None else list(offset)
        fits = len(wanted) == len(self._shape) == len(start) and all(
            size > 0 and 0 <= a and a + size <= b
            for a, size, b in zip(start, wanted, self._shape, strict=True)
        )
        if not fits:
            text = f"Submesh {tuple(wanted)} at {tuple(start)} is outside of the mesh {tuple(self._shape)}"
            raise fatal(op, text)
        made = ChipMesh([self.at(where) for where in _rectangle(start, wanted)], wanted, self)
        self.submeshes.append(made)
        return made

    def create_submeshes(self, shape: Any) -> list[MeshDevice]:
        """Submeshes of one shape that together are the whole mesh, by rows. Raises RuntimeError unless the
        shape divides the mesh."""
        wanted = MeshShape(shape)
        whole = len(wanted) == len(self._shape) and all(
            size > 0 and b % size == 0 for size, b in zip(wanted, self._shape, strict=True)
        )
        if not whole:
            text = f"Shape {tuple(wanted)} does not divide the mesh shape {tuple(self._shape)} evenly"
            raise fatal("MeshDevice.create_submeshes", text)
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


def lines(placed: Iterable[Sequence[int]], axis: int | None) -> list[list[MeshCoordinate]]:
    """Coordinates as the groups of a collective, each in order: those that differ along ``axis`` only, or
    all of them for None."""
    groups: dict[tuple[int, ...], list[MeshCoordinate]] = {}
    for where in placed:
        key = () if axis is None else tuple(at for i, at in enumerate(where) if i != axis)
        groups.setdefault(key, []).append(MeshCoordinate(where))
    return list(groups.values())


def size_of(shape: Sequence[int]) -> int:
    return math.prod(shape)
