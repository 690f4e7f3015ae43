"""Positions of cores: coordinates are (x, y) = (column, row), as in ttnn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .as_json import AsJson

__all__ = [
    "CoreCoord",
    "CoreGrid",
    "CoreRange",
    "CoreRangeSet",
    "corerange_to_cores",
    "grid_to_cores",
    "num_cores_to_corerangeset",
    "num_cores_to_corerangeset_in_subcoregrids",
    "split_work_to_cores",
]


class CoreCoord(AsJson):
    """A core, (x, y), counted from the upper left."""

    __slots__ = ("x", "y")

    x: int
    y: int

    def __init__(self, x: Any, y: int | None = None):
        self.x, self.y = (int(x), int(y)) if y is not None else (int(v) for v in x)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return (self.x, self.y) == other
        return isinstance(other, CoreCoord) and (self.x, self.y) == (other.x, other.y)

    def __hash__(self) -> int:
        return hash((self.x, self.y))

    def __repr__(self) -> str:
        return f"(x={self.x},y={self.y})"

    def _plain(self) -> Any:
        return {"x": self.x, "y": self.y}

    @classmethod
    def _of(cls, data: Any) -> CoreCoord:
        return cls(data["x"], data["y"])


def coord(value: Any) -> CoreCoord:
    """``value``, a CoreCoord or a pair (x, y), as a CoreCoord."""
    return value if isinstance(value, CoreCoord) else CoreCoord(value)


class CoreRange(AsJson):
    """A rectangle of cores, which includes both corners."""

    __slots__ = ("end", "start")

    def __init__(self, start: Any, end: Any = None):
        self.start = coord(start)
        self.end = self.start if end is None else coord(end)
        if self.end.x < self.start.x or self.end.y < self.start.y:
            raise RuntimeError(f"Invalid core range for start: {self.start}, end: {self.end}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoreRange) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"[{self.start} - {self.end}]"

    def _plain(self) -> Any:
        return {"start": self.start._plain(), "end": self.end._plain()}

    @classmethod
    def _of(cls, data: Any) -> CoreRange:
        return cls(CoreCoord._of(data["start"]), CoreCoord._of(data["end"]))

    def grid_size(self) -> CoreCoord:
        return CoreCoord(self.end.x - self.start.x + 1, self.end.y - self.start.y + 1)

    def cores(self) -> list[CoreCoord]:
        """The cores, row by row."""
        return [
            CoreCoord(x, y)
            for y in range(self.start.y, self.end.y + 1)
            for x in range(self.start.x, self.end.x + 1)
        ]

    def size(self) -> int:
        size = self.grid_size()
        return size.x * size.y

    def contains(self, other: Any) -> bool:
        inside = other if isinstance(other, CoreRange) else CoreRange(other, other)
        return (
            self.start.x <= inside.start.x
            and self.start.y <= inside.start.y
            and inside.end.x <= self.end.x
            and inside.end.y <= self.end.y
        )


class CoreRangeSet(AsJson):
    """Rectangles of cores that do not overlap."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Any = ()):
        given = [ranges] if isinstance(ranges, CoreRange) else list(ranges)
        self._ranges = tuple(sorted(given, key=lambda r: (r.start.y, r.start.x)))

    def ranges(self) -> list[CoreRange]:
        return list(self._ranges)

    def cores(self) -> list[CoreCoord]:
        return [core for found in self._ranges for core in found.cores()]

    def num_cores(self) -> int:
        return sum(found.size() for found in self._ranges)

    def size(self) -> int:
        return len(self._ranges)

    def empty(self) -> bool:
        return not self._ranges

    def bounding_box(self) -> CoreRange:
        if not self._ranges:
            raise RuntimeError("Cannot get bounding_box of an empty CoreRangeSet!")
        return CoreRange(
            (min(r.start.x for r in self._ranges), min(r.start.y for r in self._ranges)),
            (max(r.end.x for r in self._ranges), max(r.end.y for r in self._ranges)),
        )

    def contains(self, other: Any) -> bool:
        wanted = other.cores() if isinstance(other, (CoreRange, CoreRangeSet)) else [coord(other)]
        return set(wanted) <= set(self.cores())

    def merge(self, other: CoreRangeSet | Iterable[CoreRange]) -> CoreRangeSet:
        more = other.ranges() if isinstance(other, CoreRangeSet) else list(other)
        return CoreRangeSet({*self._ranges, *more})

    def subtract(self, other: CoreRangeSet) -> CoreRangeSet:
        gone = set(other.cores())
        return CoreRangeSet(CoreRange(core, core) for core in self.cores() if core not in gone)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoreRangeSet) and set(self.cores()) == set(other.cores())

    def __hash__(self) -> int:
        return hash(frozenset(self.cores()))

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self._ranges)) + "}"

    def _plain(self) -> Any:
        return [one._plain() for one in self._ranges]

    @classmethod
    def _of(cls, data: Any) -> CoreRangeSet:
        return cls(map(CoreRange._of, data))


@dataclass(frozen=True)
class CoreGrid:
    """x columns and y rows of cores from the upper left."""

    x: int
    y: int

    def __init__(self, *, x: int, y: int):
        object.__setattr__(self, "x", int(x))
        object.__setattr__(self, "y", int(y))

    @property
    def num_cores(self) -> int:
        return self.x * self.y

    def __repr__(self) -> str:
        return f"ttnn.CoreGrid(x={self.x}, y={self.y})"


def corerange_to_cores(
    core_range_set: CoreRangeSet, max_cores: int | None = None, row_wise: bool = False
) -> list[CoreCoord]:
    """The cores of each rectangle in order, along rows or down columns."""
    found = []
    for one in core_range_set.ranges():
        found += sorted(one.cores(), key=(lambda c: (c.y, c.x)) if row_wise else (lambda c: (c.x, c.y)))
    return found[:max_cores]


def grid_to_cores(
    num_cores: Any, grid_size_x: Any, grid_size_y: Any = None, row_wise: bool = False
) -> list[CoreCoord]:
    """The first ``num_cores`` cores of a grid, along rows or down columns; grid_to_cores(start, end) gives
    the cores of the rectangle with these corners."""
    if grid_size_y is None:
        return corerange_to_cores(CoreRangeSet([CoreRange(num_cores, grid_size_x)]), None, row_wise)
    whole = CoreRangeSet([CoreRange((0, 0), (grid_size_x - 1, grid_size_y - 1))])
    return corerange_to_cores(whole, num_cores, row_wise)


def num_cores_to_corerangeset(target_num_cores: int, grid_size: Any, row_wise: bool = False) -> CoreRangeSet:
    """The first cores of a grid as rectangles: whole rows (or columns), then the part of the last row."""
    size = coord(grid_size)
    if target_num_cores > size.x * size.y:
        raise RuntimeError(f"Target number of cores {target_num_cores} is greater than total number of cores")
    line = size.x if row_wise else size.y
    whole, rest = divmod(target_num_cores, line)
    found = []
    if whole:
        found.append(CoreRange((0, 0), (line - 1, whole - 1) if row_wise else (whole - 1, line - 1)))
    if rest:
        found.append(
            CoreRange((0, whole), (rest - 1, whole)) if row_wise else CoreRange((whole, 0), (whole, rest - 1))
        )
    return CoreRangeSet(found)


def num_cores_to_corerangeset_in_subcoregrids(
    start_core: Any, target_num_cores: int, sub_core_grids: CoreRangeSet, row_wise: bool = False
) -> CoreRangeSet:
    """``target_num_cores`` cores of ``sub_core_grids``, from the core ``start_core`` on."""
    cores = corerange_to_cores(sub_core_grids, None, row_wise)
    first = cores.index(coord(start_core))
    if first + target_num_cores > len(cores):
        raise RuntimeError(f"there are fewer than {target_num_cores} cores from {start_core} on")
    return CoreRangeSet(CoreRange(core, core) for core in cores[first : first + target_num_cores])


def split_work_to_cores(grid_size: Any, units_to_divide: int, row_wise: bool = False) -> tuple[Any, ...]:
    """(number of cores used, all these cores, cores with more work, cores with less work, units of each core
    with more work, units of each core with less work)."""
    if isinstance(grid_size, CoreRangeSet):
        cores = corerange_to_cores(grid_size, None, row_wise)
    else:
        size = coord(grid_size)
        cores = grid_to_cores(size.x * size.y, size.x, size.y, row_wise)
    used = min(len(cores), units_to_divide)
    least, more = divmod(units_to_divide, used) if used else (0, 0)
    sets = [
        CoreRangeSet(CoreRange(c, c) for c in part) for part in (cores[:used], cores[:more], cores[more:used])
    ]
    if not more:
        return used, sets[0], sets[0], CoreRangeSet(), least, 0
    return used, *sets, least + 1, least
