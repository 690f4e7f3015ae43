"""Inputs and outputs of a served model, and the datatypes of the Open Inference Protocol (version 2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base import dtypes


def _named(dtype: str) -> str | None:
    """The protocol's name of a dtype (float32 -> FP32, int8 -> INT8, bool -> BOOL), None if it has no
    name."""
    if dtype == "bool":
        return "BOOL"
    found = re.fullmatch(r"(float|bfloat|int|uint)(8|16|32|64)", dtype)
    if found is None or dtype == "float8":
        return None
    kind, bits = found.groups()
    return {"float": "FP", "bfloat": "BF"}.get(kind, kind.upper()) + bits


# canonical dtype -> datatype, and datatype -> dtype; without BYTES, because bundles have no tensors of texts
DATATYPES = {dtype: name for dtype in dtypes.BY_DTYPE if (name := _named(dtype)) is not None}
BY_DATATYPE = {name: dtype for dtype, name in DATATYPES.items()}
OPEN = -1  # a size that the request chooses, as in the protocol


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output. ``dtype``: canonical name of the dtype; ``shape``: sizes of the dimensions, OPEN
    for each size that the request chooses."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        """The port as in the protocol's metadata."""
        return {"name": self.name, "datatype": DATATYPES[self.dtype], "shape": list(self.shape)}

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of that shape is accepted."""
        return len(shape) == len(self.shape) and all(
            wanted in (OPEN, got) for wanted, got in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Served:
    """The interface of a served bundle. ``rows``: the sizes of the first dimension for which there are
    programs, ascending, if rows of different requests may run together. Otherwise ``rows`` is (), each
    request runs alone, and ``why`` gives the reason. ``shapes``: for each program, the shapes of all inputs
    in order. ``sha256``: hash of the bundle's index, which contains the hashes of all other files.
    ``seconds``: time of a run on the replica for each size in ``rows``; () if not measured."""

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
