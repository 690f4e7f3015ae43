"""Accuracy limits from a file (schemas/thresholds.schema.json), and the values that violate them."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import InputError, did_you_mean
from ..base.json_text import parse_json
from ..ir.documents.document import check_schema
from .differences import Comparison, EntryDifference
from .sweeping import Sweep

MEASURES = {  # {measure: the field of EntryDifference}
    "pcc": "correlation",
    "cosine": "cosine",
    "nmse": "nmse",
    "max_abs": "max_abs",
    "max_rel": "max_rel",
    "max_ulp": "max_ulp",
    "p99_ulp": "p99_ulp",
}
AT_LEAST = ("pcc", "cosine", "exact")  # measures whose limit is a minimum
_OF_NODES = {"outputs": "outputs", "accumulated": "accumulated", "alone": "isolated"}


def measure(one: EntryDifference, name: str) -> float:
    """The value of one of MEASURES for an entry."""
    return float(getattr(one, MEASURES[name]))


@dataclass(frozen=True, slots=True)
class Missed:
    """A violated limit. ``part``: the part of the thresholds that contains the limit. ``value``: the value of
    the node, output or op, which violates the limit. ``limit``: the limit itself."""

    part: str
    name: str
    precision: str
    measure: str
    value: float
    limit: float

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        wanted = "at least" if self.measure in AT_LEAST else "at most"
        return (
            f"{self.part} {self.name} ({self.precision}): {self.measure} is {self.value:.6g}, {wanted} "
            f"{self.limit:.6g} is asked for"
        )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits as {part: {glob: {measure: limit}}}."""

    parts: Mapping[str, Mapping[str, Mapping[str, float]]]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Thresholds:
        """Read thresholds from a file. Raises DocumentError if the schema rejects it, OSError if it cannot be
        read."""
        document = parse_json(Path(path).read_bytes(), str(path))
        check_schema(document, "thresholds", str(path))
        return cls(document)

    def of_model(self, precision: str, comparison: Comparison) -> list[Missed]:
        """The limits that a comparison violates. Raises InputError for a glob that matches nothing."""
        found: list[Missed] = []
        for part, field in _OF_NODES.items():
            rows = getattr(comparison, field)
            for glob, limits in self.parts.get(part, {}).items():
                named = [
                    d for d in rows if fnmatch.fnmatchcase(d.name, glob) or fnmatch.fnmatchcase(d.op, glob)
                ]
                _require(named, part, glob, (name for d in rows for name in (d.name, d.op)))
                for row in named:
                    values = {name: measure(row, name) for name in limits}
                    found += _missed(part, row.name, precision, values, limits)
        return found

    def of_sweeps(self, sweeps: Iterable[Sweep]) -> list[Missed]:
        """The limits that sweeps violate. A glob may match no swept op, but a name without wildcards must be
        the name of an op."""
        return [
            missed
            for glob, limits in self.parts.get("ops", {}).items()
            for one in sweeps
            if fnmatch.fnmatchcase(one.op, glob)
            for missed in _missed(
                "ops", one.op, one.precision, {name: float(getattr(one, name)) for name in limits}, limits
            )
        ]


def _require(named: list[Any], part: str, glob: str, known: Iterable[str]) -> None:
    if not named:
        raise InputError(
            f"thresholds: {glob!r} of {part!r} matches no node"
            f"{did_you_mean(glob, list(dict.fromkeys(known)))}",
            got=glob,
            path=f"$.{part}",
        )


def _missed(
    part: str, name: str, precision: str, values: Mapping[str, float], limits: Mapping[str, float]
) -> list[Missed]:
    """The limits that a value violates; NaN violates every limit."""
    return [
        Missed(part, name, precision, key, values[key], limit)
        for key, limit in limits.items()
        if not (values[key] >= limit if key in AT_LEAST else values[key] <= limit)
    ]
