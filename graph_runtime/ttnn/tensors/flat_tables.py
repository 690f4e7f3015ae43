"""FlatBuffers, as far as files of tensors need them: tables of numbers, other tables, and lists of both.

A table begins with the distance back to its vtable, which has the place in the table of each field (0: the
field is absent). A field that is not a number holds the distance from its place forward to the value
(https://flatbuffers.dev/internals). Reading outside of the buffer raises IndexError or struct.error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 1 << 16  # most elements of a list in a header; a longer list means a damaged file


@dataclass(frozen=True)
class Inline:
    """A struct of 8-byte numbers, as bytes."""

    data: bytes


@dataclass(frozen=True)
class Table:
    """``fields``: {number of the field: value}. A value is (format code of struct, number), a Table, an
    Inline, or a list of u32 or of Tables."""

    fields: Mapping[int, Any]


# **************** writing ****************


def written(root: Table) -> bytes:
    """The buffer of a table, a multiple of 8 bytes long. The values that are not numbers follow their
    table."""
    out = bytearray(4)
    _offset(out, 0, _table(out, root))
    _align(out, 8)
    return bytes(out)


def _align(out: bytearray, to: int) -> None:
    out.extend(bytes(-len(out) % to))


def _offset(out: bytearray, at: int, target: int) -> None:
    struct.pack_into("<I", out, at, target - at)


def _table(out: bytearray, table: Table) -> int:
    fields = {k: v if isinstance(v, tuple) else ("I", v) for k, v in table.fields.items()}
    order = sorted(fields, key=lambda k: -struct.calcsize("<" + fields[k][0]))
    places, size = {}, 4
    for key in order:
        places[key] = size
        size += struct.calcsize("<" + fields[key][0])
    count = max(fields, default=-1) + 1
    _align(out, 4)
    vtable = len(out)
    entries = [places.get(key, 0) for key in range(count)]
    out.extend(struct.pack(f"<{count + 2}H", 4 + 2 * count, size, *entries))
    _align(out, 4)
    start = len(out)
    out.extend(bytes(size))
    struct.pack_into("<i", out, start, start - vtable)
    for key, (code, value) in fields.items():
        if isinstance(table.fields[key], tuple):
            struct.pack_into("<" + code, out, start + places[key], value)
    for key, value in table.fields.items():
        if not isinstance(value, tuple):
            _offset(out, start + places[key], _child(out, value))
    return start


def _child(out: bytearray, value: Any) -> int:
    if isinstance(value, Table):
        return _table(out, value)
    if isinstance(value, Inline):
        _align(out, 8)
        out.extend(value.data)
        return len(out) - len(value.data)
    _align(out, 4)
    start = len(out)
    out.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
    for at, one in enumerate(value):
        place = start + 4 + 4 * at
        if isinstance(one, Table):
            _offset(out, place, _table(out, one))
        else:
            struct.pack_into("<I", out, place, one)
    return start


# **************** reading ****************


class ReadTable:
    def __init__(self, data: bytes, start: int):
        self.data, self.start = data, start
        self.vtable = start - struct.unpack_from("<i", data, start)[0]
        if not 0 <= self.vtable <= len(data):
            raise IndexError("a vtable outside of the buffer")
        self.length = struct.unpack_from("<H", data, self.vtable)[0]

    def _place(self, field: int) -> int:
        """The position of a field in the buffer, 0 if the field is absent."""
        at = 4 + 2 * field
        if at + 2 > self.length:
            return 0
        found = int(struct.unpack_from("<H", self.data, self.vtable + at)[0])
        return self.start + found if found else 0

    def _target(self, place: int) -> int:
        return place + int(struct.unpack_from("<I", self.data, place)[0])

    def scalar(self, field: int, code: str) -> Any:
        """The number in a field, 0 if the field is absent."""
        place = self._place(field)
        return struct.unpack_from("<" + code, self.data, place)[0] if place else 0

    def inline(self, field: int, nbytes: int) -> bytes:
        """The bytes of a struct that is the value of a union."""
        place = self._target(self._place(field))
        found = self.data[place : place + nbytes]
        if len(found) != nbytes:
            raise IndexError("a struct outside of the buffer")
        return found

    def child(self, field: int) -> Any:
        """The table in a field, None if the field is absent."""
        place = self._place(field)
        return ReadTable(self.data, self._target(place)) if place else None

    def _list(self, field: int) -> Iterator[int]:
        place = self._place(field)
        if not place:
            return
        start = self._target(place)
        count = struct.unpack_from("<I", self.data, start)[0]
        if count > _MOST:
            raise IndexError("a list longer than its buffer")
        yield from range(start + 4, start + 4 + 4 * count, 4)

    def numbers(self, field: int) -> list[int]:
        """The list of u32 in a field."""
        return [int(struct.unpack_from("<I", self.data, place)[0]) for place in self._list(field)]

    def children(self, field: int) -> list[ReadTable]:
        return [ReadTable(self.data, self._target(place)) for place in self._list(field)]


def read_root(data: bytes) -> ReadTable:
    """The root table of a buffer."""
    return ReadTable(data, int(struct.unpack_from("<I", data, 0)[0]))
