"""What a served model takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .datatypes import BY_DATATYPE, DATATYPES

__all__ = ["OPEN", "Port", "Served"]

OPEN = -1  # a size that a request chooses, as the protocol writes it


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output. ``dtype``: canonical; ``shape``: sizes, OPEN for those that a request chooses."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        """As the protocol's metadata have it."""
        return {"name": self.name, "datatype": DATATYPES[self.dtype], "shape": list(self.shape)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Port:
        """What as_json gave."""
        return cls(raw["name"], BY_DATATYPE[raw["datatype"]], tuple(raw["shape"]))

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of that shape fits."""
        return len(shape) == len(self.shape) and all(
            wanted in (OPEN, got) for wanted, got in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Served:
    """What a bundle serves. ``rows``: the sizes of the first dimension that it has programs for, ascending,
    where rows of different requests may run together; () where they may not: then ``why`` says the reason,
    and each request runs alone. ``shapes``: shapes of all inputs, in order, that it has programs for.
    ``sha256``: of the bundle's index, which names every other file's. ``seconds``: that a run of each of
    ``rows`` took on the replica, () where they were not measured.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    rows: tuple[int, ...]
    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    why: str = ""
    devices: tuple[str, ...] = ()
    sha256: str = ""
    seconds: tuple[float, ...] = ()

    def input_named(self) -> Mapping[str, Port]:
        """{name: input}"""
        return {port.name: port for port in self.inputs}

    def as_json(self) -> dict[str, Any]:
        """What a replica tells its server."""
        ports = {"inputs": self.inputs, "outputs": self.outputs}
        raw: dict[str, Any] = {name: [port.as_json() for port in found] for name, found in ports.items()}
        raw |= {"rows": self.rows, "shapes": self.shapes, "why": self.why}
        return {**raw, "devices": self.devices, "sha256": self.sha256, "seconds": self.seconds}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Served:
        """What as_json gave."""
        return cls(
            tuple(map(Port.from_json, raw["inputs"])),
            tuple(map(Port.from_json, raw["outputs"])),
            tuple(raw["rows"]),
            tuple(tuple(map(tuple, shapes)) for shapes in raw["shapes"]),
            raw["why"],
            tuple(raw["devices"]),
            raw["sha256"],
            tuple(raw["seconds"]),
        )
