"""Topologies: cables between chips, and links to the host. Each machine has a file in schemas/topologies; a
user's own file is given by its path.

Chip i is the device of ordinal i. A tensor goes from chip to chip over ethernet by the way with the fewest
hops; of several such ways, by the widest. If ethernet does not join the chips, the tensor goes through the
host. Between the host and a chip without a host link, a tensor goes through the nearest chip with a host
link. Links are full duplex: each direction counts as a link of its own, which a copy holds until the copy
ends."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import DeviceError, DocumentError, InputError, did_you_mean
from ..files.mapped import data_folder
from ..json_text import parse_json
from .devices import Device

_MOST_CHIPS = 4096
_FACTS = "$schema name doc arch chips host mesh links lane_gb_per_s hop_ns sources".split()


@dataclass(frozen=True, slots=True)
class Way:
    """A way between two chips, or between a chip and the host. ``links``: names of its directed links;
    ``hops``: number of links over ethernet; ``gb_per_s``: rate of the narrowest ethernet link, in 1e9 bytes a
    second (inf for a way without ethernet). ``by_host``: whether the way goes down to the host and up again.
    """

    links: tuple[str, ...]
    hops: int
    gb_per_s: float
    by_host: bool = False


@dataclass(frozen=True, eq=False)
class Topology:
    """``chips``: number of chips, all of the architecture ``arch``; ``lanes`` {(chip, chip): number of
    ethernet lanes}, an entry for each direction; ``host``: groups of chips, each of which shares one link to
    the host; ``lane_gb_per_s``: rate of a lane in one direction, in 1e9 bytes a second; ``hop_ns``: time of
    each hop in ns."""

    name: str
    arch: str
    chips: int
    lanes: Mapping[tuple[int, int], int]
    host: tuple[tuple[int, ...], ...]
    lane_gb_per_s: float
    hop_ns: float
    doc: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    _near: dict[int, list[int]] = field(default_factory=dict, init=False)
    _group: dict[int, int] = field(default_factory=dict, init=False)
    _found: dict[tuple[int, int], Way] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Raise DeviceError if a chip has no way to the host."""
        for a, b in sorted(self.lanes):
            self._near.setdefault(a, []).append(b)
        self._group.update({chip: i for i, group in enumerate(self.host) for chip in group})
        for chip in range(self.chips):
            if not self._path(chip, set(self._group)):
                text = f"topology {self.name}: chip {chip} reaches no chip that has a link to the host"
                raise DeviceError(text, path="$.host", got=chip)

    def __repr__(self) -> str:
        return f"<Topology {self.name}: {self.chips} chips, {len(self.lanes) // 2} links>"

    def __str__(self) -> str:
        return self.name

    def chip(self, device: Device) -> int:
        """The chip of a device, -1 for a device without an architecture, such as a host. Raises InputError
        for a device that the topology does not have."""
        board = device.descriptor
        if not board.arch:
            return -1
        if device.ordinal >= self.chips:
            text = (
                f"{device} is not of topology {self.name}: its chips are {device.kind}:0 to "
                f"{device.kind}:{self.chips - 1}"
            )
            raise InputError(text, device=str(device), got=device.ordinal, wanted=self.chips)
        if board.arch != self.arch:
            text = (
                f"{device} is a {board.name}, {board.arch}: the chips of topology {self.name} are {self.arch}"
            )
            raise InputError(text, device=str(device), got=board.arch, wanted=self.arch)
        return device.ordinal

    def way(self, source: int, target: int) -> Way:
        """The way from chip ``source`` to chip ``target``; -1 is the host."""
        if (source, target) not in self._found:
            self._found[source, target] = self._way(source, target)
        return self._found[source, target]

    def _way(self, source: int, target: int) -> Way:
        if source == target:
            return Way((), 0, math.inf)
        if source < 0 or target < 0:
            chip, down = max(source, target), target < 0
            path = self._path(chip, set(self._group))
            group = self._group[path[-1]]
            over = self._over(path if down else path[::-1])
            last = f"{path[-1]}>host" if down else f"host>{path[-1]}"
            if len(self.host[group]) > 1:  # the link has the name of the group that shares it
                last = f"host link {group}, {'out' if down else 'in'}"
            return Way((*over.links, last) if down else (last, *over.links), over.hops, over.gb_per_s)
        path = self._path(source, {target})
        if path:
            return self._over(path)
        first, then = self.way(source, -1), self.way(-1, target)
        rate = min(first.gb_per_s, then.gb_per_s)
        return Way(first.links + then.links, first.hops + then.hops, rate, True)

    def _over(self, path: list[int]) -> Way:
        steps = list(pairwise(path))
        rate = min((self.lanes[step] * self.lane_gb_per_s for step in steps), default=math.inf)
        return Way(tuple(f"{a}>{b}" for a, b in steps), len(steps), rate)

    def _path(self, source: int, targets: set[int]) -> list[int]:
        """The chips on the shortest path from ``source`` to the nearest of ``targets``; empty if there is no
        way."""
        heap, done = [(0, -_MOST_CHIPS, [source])], set[int]()
        while heap:
            hops, width, path = heapq.heappop(heap)
            at = path[-1]
            if at in targets:
                return path
            if at in done:
                continue
            done.add(at)
            for near in self._near.get(at, ()):
                if near not in done:
                    heapq.heappush(heap, (hops + 1, max(width, -self.lanes[at, near]), [*path, near]))
        return []


# **************** files ****************


@cache
def topologies() -> dict[str, Topology]:
    """The package's topologies by name."""
    folder = data_folder("graph_runtime.schemas") / "topologies"
    return {file.stem: _read(file.read_bytes(), file.stem) for file in sorted(folder.glob("*.json"))}


def find_topology(given: Topology | str) -> Topology:
    """The topology that ``given`` means: a Topology, a topology's name, or the path of a file. Raises
    DeviceError for an unknown name, and, with the place, for an invalid file."""
    if isinstance(given, Topology):
        return given
    if not isinstance(given, str):
        text = f"topology is a name, a path or a Topology, got {given!r}"
        raise InputError(text, got=type(given).__name__)
    if not given.endswith(".json"):
        if given not in topologies():
            text = (
                f"there is no topology {given!r}{did_you_mean(given, topologies())}; a file of your own is "
                "named by its path, which ends in .json"
            )
            raise DeviceError(text, got=given, wanted=list(topologies()))
        return topologies()[given]
    try:
        return _read(Path(given).read_bytes(), given)
    except (OSError, ValueError, DocumentError) as error:
        raise DeviceError(f"cannot read topology {given}: {error}", got=given) from None


def _read(data: bytes, where: str) -> Topology:
    raw = parse_json(data, "a topology")
    reader = _Reader(raw, where)
    for name in raw:
        if name not in _FACTS:
            reader.fail(f"$.{name}", f"is not known{did_you_mean(name, _FACTS)}")
    chips = reader.number("chips", 1, _MOST_CHIPS)
    lanes: dict[tuple[int, int], int] = {}
    for a, b, count in (*reader.mesh(chips), *reader.links(chips)):
        lanes[a, b] = lanes[b, a] = count
    return Topology(
        reader.text("name"),
        reader.text("arch"),
        chips,
        lanes,
        reader.host(chips),
        reader.rate("lane_gb_per_s", above=True),
        reader.rate("hop_ns"),
        str(raw.get("doc", "")),
        raw.get("sources", {}),
    )


class _Reader:
    """The checked fields of a topology file. Raises DeviceError with the place."""

    def __init__(self, raw: Mapping[str, Any], where: str):
        self.raw, self.where = raw, where

    def fail(self, path: str, wanted: str, got: Any = None) -> Any:
        raise DeviceError(f"topology {self.where}: {path} {wanted}", path=path, got=got)

    def text(self, name: str) -> str:
        value = self.raw.get(name)
        return value if isinstance(value, str) and value else self.fail(f"$.{name}", "is a name", value)

    def number(self, name: str, least: int, most: int) -> int:
        return self.whole(f"$.{name}", self.raw.get(name), least, most)

    def whole(self, path: str, value: Any, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.fail(path, f"is a whole number from {least} to {most}, got {value!r}", value)
        return int(value)

    def rate(self, name: str, above: bool = False) -> float:
        value = self.raw.get(name)
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
        if not 0 <= number < math.inf or (above and number == 0):
            self.fail(f"$.{name}", f"is a number {'above 0' if above else 'from 0'}, got {value!r}", value)
        return number

    def rows(self, path: str, value: Any) -> list[Any]:
        return value if isinstance(value, list) else self.fail(path, f"is a list, got {value!r}", value)

    def mesh(self, chips: int) -> Iterator[tuple[int, int, int]]:
        """(chip, chip, lanes) for each pair of neighbours in a row-major grid. If the file has ``wrap``, the
        two ends of a dimension are neighbours, too."""
        mesh = self.raw.get("mesh")
        if mesh is None:
            return
        if not isinstance(mesh, Mapping) or set(mesh) - {"shape", "wrap", "lanes"}:
            self.fail("$.mesh", "has shape, wrap and lanes", mesh)
        shape = self.rows("$.mesh.shape", mesh.get("shape"))
        shape = [self.whole(f"$.mesh.shape[{i}]", n, 1, chips) for i, n in enumerate(shape)]
        if math.prod(shape) != chips:
            self.fail("$.mesh.shape", f"has {math.prod(shape)} places for {chips} chips", shape)
        wrap = self.rows("$.mesh.wrap", mesh.get("wrap", [False] * len(shape)))
        if len(wrap) != len(shape) or not all(isinstance(one, bool) for one in wrap):
            self.fail("$.mesh.wrap", f"is true or false for each of {len(shape)} dimensions", wrap)
        lanes = self.whole("$.mesh.lanes", mesh.get("lanes"), 1, 1024)
        strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        for chip in range(chips):
            for size, stride, ring in zip(shape, strides, wrap, strict=True):
                at = chip // stride % size
                if at + 1 < size:
                    yield chip, chip + stride, lanes
                elif ring and size > 2:  # in a ring of two, the ends are neighbours already
                    yield chip, chip - at * stride, lanes

    def links(self, chips: int) -> Iterator[tuple[int, int, int]]:
        """(chip, chip, lanes) of each row of "links" in the file; a row overrides the mesh's number of lanes
        between the same chips."""
        for i, row in enumerate(self.rows("$.links", self.raw.get("links", []))):
            at = f"$.links[{i}]"
            if not isinstance(row, Mapping) or set(row) - {"chips", "lanes"}:
                self.fail(at, "has chips and lanes", row)
            pair = self.rows(f"{at}.chips", row.get("chips"))
            pair = [self.whole(f"{at}.chips[{j}]", chip, 0, chips - 1) for j, chip in enumerate(pair)]
            if len(pair) != 2 or pair[0] == pair[1]:
                self.fail(f"{at}.chips", f"are two chips, got {pair}", pair)
            yield pair[0], pair[1], self.whole(f"{at}.lanes", row.get("lanes"), 1, 1024)

    def host(self, chips: int) -> tuple[tuple[int, ...], ...]:
        groups = []
        for i, row in enumerate(self.rows("$.host", self.raw.get("host"))):
            group = self.rows(f"$.host[{i}]", row)
            groups.append(
                tuple(self.whole(f"$.host[{i}][{j}]", c, 0, chips - 1) for j, c in enumerate(group))
            )
        named = [chip for group in groups for chip in group]
        if not named or len(named) != len(set(named)) or not all(groups):
            self.fail("$.host", "is a list of groups of chips, each chip in one at most, one chip at least")
        return tuple(groups)
