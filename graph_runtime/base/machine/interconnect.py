"""Links between machines: latency and rate between any two of them.

``cluster.interconnect`` has measured links; a file for ``--interconnect`` describes links, to plan and
estimate for machines that are not available:

    {"links": [{"nodes": ["node0", "node1"], "latency_us": 60, "gb_per_s": 1.1}],
     "default": {"latency_us": 200, "gb_per_s": 0.117}}

A node is named as devices name it; "" is the caller's own machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import DeviceError, DocumentError, InputError, did_you_mean
from ..json_text import parse_json

CALLER = "the caller"  # the name of the machine "" in texts


@dataclass(frozen=True, slots=True)
class NodeLink:
    """One direction of a link: ns from the first byte sent to the first received, the rate in 1e9 bytes a
    second, and the basis of both numbers (costs.BASES)."""

    latency_ns: float
    gb_per_s: float
    basis: str = "assumed"

    def ns(self, nbytes: int) -> float:
        """Time in ns of one message of ``nbytes``."""
        return self.latency_ns + nbytes / self.gb_per_s


@dataclass(frozen=True, eq=False)
class Interconnect:
    """``links`` {(node, node): the link}, one for each direction; ``default``: the link of all other pairs;
    if it is not given, a link of 1 Gbit/s and 0.2 ms."""

    links: Mapping[tuple[str, str], NodeLink] = field(default_factory=lambda: MappingProxyType({}))
    default: NodeLink = field(default_factory=lambda: NodeLink(200e3, 0.117))

    def __repr__(self) -> str:
        return f"<Interconnect of {len({name for pair in self.links for name in pair})} nodes>"

    def link(self, source: str, target: str) -> NodeLink:
        """The link from one machine to another."""
        return self.links.get((source, target), self.default)

    @staticmethod
    def name(source: str, target: str) -> str:
        """Name of one direction of a link, for displays of the link that copies share."""
        return f"{source or CALLER} > {target or CALLER}"

    def as_json(self) -> dict[str, Any]:
        """The interconnect as the JSON of a file. A file has one link for both directions, which gets the
        numbers of the slower direction."""
        pairs = sorted({tuple(sorted(pair)) for pair in self.links})
        rows = []
        for a, b in pairs:
            both = [self.link(a, b), self.link(b, a)]
            slower = max(one.latency_ns for one in both), min(one.gb_per_s for one in both)
            rows.append({"nodes": [a, b], "latency_us": slower[0] / 1e3, "gb_per_s": slower[1]})
        default = {"latency_us": self.default.latency_ns / 1e3, "gb_per_s": self.default.gb_per_s}
        return {"links": rows, "default": default}


def find_interconnect(given: Interconnect | str | None) -> Interconnect:
    """The Interconnect that ``given`` means. ``given``: an Interconnect, the path of a file, or None for an
    Interconnect of default links. Raises DeviceError, with the place, for an invalid file; InputError for
    another type."""
    if given is None:
        return Interconnect()
    if isinstance(given, Interconnect):
        return given
    if not isinstance(given, str):
        text = f"interconnect is an Interconnect or the path of a file, got {type(given).__name__}"
        raise InputError(text, got=type(given).__name__)
    try:
        return _read(parse_json(Path(given).read_bytes(), "an interconnect"), given)
    except (OSError, ValueError, DocumentError) as error:
        raise DeviceError(f"cannot read interconnect {given}: {error}", got=given) from None


def _read(raw: Any, where: str) -> Interconnect:
    _known(raw, ("links", "default"), "$", where)
    links: dict[tuple[str, str], NodeLink] = {}
    rows = raw.get("links", [])
    if not isinstance(rows, list):
        raise DeviceError(f"interconnect {where}: $.links is a list, got {rows!r}", path="$.links")
    for i, row in enumerate(rows):
        at = f"$.links[{i}]"
        _known(row, ("nodes", "latency_us", "gb_per_s"), at, where)
        pair = row.get("nodes")
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(n, str) for n in pair):
            text = f"interconnect {where}: {at}.nodes are two names, got {pair!r}"
            raise DeviceError(text, path=at, got=pair)
        links[pair[0], pair[1]] = links[pair[1], pair[0]] = _link(row, at, where)
    if "default" not in raw:
        return Interconnect(links)
    _known(raw["default"], ("latency_us", "gb_per_s"), "$.default", where)
    return Interconnect(links, _link(raw["default"], "$.default", where))


def _known(row: Any, names: tuple[str, ...], at: str, where: str) -> None:
    if not isinstance(row, Mapping):
        raise DeviceError(f"interconnect {where}: {at} is an object, got {row!r}", path=at)
    for name in row:
        if name not in names:
            text = f"interconnect {where}: {at}.{name} is not known{did_you_mean(name, names)}"
            raise DeviceError(text, path=at, got=name)


def _link(row: Mapping[str, Any], at: str, where: str) -> NodeLink:
    found = []
    for name, above in (("latency_us", False), ("gb_per_s", True)):
        value = row.get(name)
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        number = float(value) if plain and value is not None else math.nan
        if not 0 <= number < math.inf or (above and number == 0):
            wanted = "a number above 0" if above else "a number from 0"
            text = f"interconnect {where}: {at}.{name} is {wanted}, got {value!r}"
            raise DeviceError(text, path=at, got=value)
        found.append(number)
    return NodeLink(found[0] * 1e3, found[1], "measured")
