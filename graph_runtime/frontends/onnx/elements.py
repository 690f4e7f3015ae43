"""Element types of ONNX for which graphs have no dtype, and the numbers that encode them in a graph.

Integers of 4 and 2 bits are stored as int8 or uint8, small floats as their bit patterns, and a string as its
index in a table (Strings) that has each text once. An op that only moves elements or tests their equality
therefore works on the numbers unchanged; any other op needs a converter that handles these types, or is
refused (tape.py). Inputs and outputs of such types are arrays of ml_dtypes, or object arrays of str.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import InputError


@dataclass(frozen=True, slots=True)
class Element:
    """An element type. ``name``: name in ml_dtypes, or "string". ``code``: number in TensorProto.DataType.
    ``stored``: dtype of the encoding numbers in a graph. ``bits``: bits of an element in a file, 0 for a
    string. ``kind``: one of "int", "float" or "text".
    """

    name: str
    code: int
    stored: str
    bits: int
    kind: str

    @property
    def is_text(self) -> bool:
        return self.kind == "text"

    @property
    def range(self) -> tuple[int, int]:
        """(smallest, largest) integer of the type."""
        signed = self.name.startswith("int")
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if signed else (0, (1 << self.bits) - 1)

    def numpy(self) -> np.dtype:
        """numpy dtype of arrays of this type."""
        return np.dtype(object if self.is_text else getattr(import_module("ml_dtypes"), self.name))

    def encoded(self, array: np.ndarray) -> np.ndarray:
        """The graph's array of numbers for an array of this type."""
        stored = dtypes.to_numpy(self.stored)
        return array.astype(stored) if self.kind == "int" else np.ascontiguousarray(array).view(stored)

    def decoded(self, array: np.ndarray) -> np.ndarray:
        """The array of this type that the graph's array of numbers encodes; always a copy."""
        if self.kind == "int":
            return array.astype(self.numpy())
        return np.array(array, order="C").view(self.numpy())

    def unpacked(self, data: np.ndarray, count: int) -> np.ndarray:
        """The graph's array of numbers for ``count`` elements packed as in files, lowest bits first."""
        if self.bits == 8:
            return data[:count]
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        levels = (data[:, None] >> shifts & ((1 << self.bits) - 1)).reshape(-1)[:count]
        if self.stored == "uint8":
            return levels
        half = 1 << (self.bits - 1)
        return ((levels ^ half).astype(np.int8) - np.int8(half)).astype(np.int8)


def _small(name: str, code: int, bits: int) -> Element:
    stored = "int8" if name.startswith("int") else "uint8"
    return Element(name, code, stored, bits, "float" if name.startswith("float") else "int")


STRING = Element("string", 8, "int64", 0, "text")
ELEMENTS = {
    element.name: element
    for element in (
        STRING,
        _small("float8_e4m3fn", 17, 8),
        _small("float8_e4m3fnuz", 18, 8),
        _small("float8_e5m2", 19, 8),
        _small("float8_e5m2fnuz", 20, 8),
        _small("uint4", 21, 4),
        _small("int4", 22, 4),
        _small("float4_e2m1fn", 23, 4),
        _small("float8_e8m0fnu", 24, 8),
        _small("uint2", 25, 2),
        _small("int2", 26, 2),
    )
}
BY_CODE = {element.code: element for element in ELEMENTS.values()}


def element_name(dtype: np.dtype) -> str:
    """Name of an array's element type: a dtype or an Element. Raises DocumentError for an unsupported
    type."""
    if dtype.kind in "OUT":  # str in object arrays, in arrays of fixed width, and in numpy's StringDType
        return STRING.name
    return dtype.name if dtype.name in ELEMENTS else dtypes.from_numpy(dtype)


def numpy_dtype(name: str) -> np.dtype:
    """dtype of the arrays of a dtype or Element."""
    return ELEMENTS[name].numpy() if name in ELEMENTS else dtypes.to_numpy(name)


def elements_of(name: str, shape: Sequence[int]) -> np.ndarray:
    """An array of zeros of a dtype or Element. The array takes no memory, and serves where only its type
    matters."""
    if name == STRING.name:
        return np.broadcast_to(np.array("", object), tuple(shape))
    return np.broadcast_to(np.zeros((), numpy_dtype(name)), tuple(shape))


@dataclass(eq=False)
class Strings:
    """A table of texts and their numbers. ``within``: another table, which this table extends. A model's
    table persists; the texts of a run go into an extension that is dropped after the run."""

    within: Strings | None = None
    texts: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """Number of a text; a text that the table lacks is added."""
        found = self.within.numbers.get(text) if self.within is not None else None
        if found is None and (found := self.numbers.get(text)) is None:
            found = self.numbers[text] = len(self.texts) + (len(self.within.texts) if self.within else 0)
            self.texts.append(text)
        return found

    def encoded(self, array: np.ndarray, what: str) -> np.ndarray:
        """int64 numbers of an array of texts. Raises InputError if an element is not a text."""
        return np.array(self._numbers(array.reshape(-1).tolist(), what), np.int64).reshape(array.shape)

    def _numbers(self, texts: Iterable[Any], what: str) -> list[int]:
        found = []
        for text in texts:
            if not isinstance(text, str):
                text = _text(text, what)
            found.append(self.number(text))
        return found

    def decoded(self, array: np.ndarray) -> np.ndarray:
        """Object array of str for an array of numbers."""
        own = self.within.texts if self.within is not None else []
        start, made = len(own), np.empty(array.shape, object)
        numbers = array.reshape(-1).tolist()
        made.reshape(-1)[:] = [own[n] if n < start else self.texts[n - start] for n in numbers]
        return made


def _text(value: Any, what: str) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{what} has a text that is not UTF-8: {error}", got=value[:40]) from error
    raise InputError(f"{what} is of strings, and has {value!r}", got=type(value).__name__, wanted="str")
