"""The part of ELF needed to judge a shared object before it is opened: the machine that the object is for,
whether the file is whole, and the object's exports."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import ForeignMachineError, LibraryError
from ...base.machine import isa

Bytes = bytes | mmap.mmap | memoryview

BLOB = "__tvm_dev_mblob"  # symbol in TVM's libraries: parameters and a graph, perhaps most of the file

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MACHINES = {3: "i686", 20: "ppc", 21: "ppc64le", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_SHARED, _DYNSYM, _UNDEFINED = 3, 11, 0
_FUNCTION_TYPES = (2, 10)  # symbol types STT_FUNC, STT_GNU_IFUNC
_OBJECT_TYPES = (0, 1)  # symbol types STT_NOTYPE (hand-written assembly), STT_OBJECT
_LOAD = 1
_MOST_SYMBOLS = 1 << 19
_NAME_SHARE = 4  # most bytes of symbols' names, per byte of the file


@dataclass(frozen=True, slots=True)
class SharedObject:
    """Description of a shared object: ``arch``: architecture as platform.machine() spells it; ``functions``:
    names of exported functions; ``objects`` {name of a data symbol: (address, bytes)}; ``segments``: (first
    address, bytes in the file, offset in the file) of each mapped part; ``undefined``: names that other
    libraries must define."""

    arch: str
    functions: frozenset[str]
    objects: Mapping[str, tuple[int, int]]
    segments: tuple[tuple[int, int, int], ...]
    undefined: frozenset[str]

    def view(self, name: str, data: Bytes) -> memoryview:
        """A read-only view of a data symbol's bytes. ``data``: bytes of the file. The view has the symbol's
        size, but ends with the symbol's segment at the latest; the view is empty if the file has no bytes for
        the symbol."""
        value, size = self.objects[name]
        for first, in_file, offset in self.segments:
            if first <= value < first + in_file:
                left, begin = first + in_file - value, offset + value - first
                return memoryview(data)[begin : begin + (min(left, size) if size else left)].toreadonly()
        return memoryview(b"")

    def beside(self, name: str, size: int) -> list[tuple[int, int]]:
        """[(first byte, end)] of the parts of the file that are outside the data symbol ``name``: the whole
        file if it has no such symbol. ``size``: number of bytes of the file."""
        value, nbytes = self.objects.get(name, (0, 0))
        for first, in_file, offset in self.segments:
            if nbytes and first <= value < first + in_file:
                begin = offset + value - first
                return [(0, begin), (min(begin + nbytes, size), size)]
        return [(0, size)]


def read_elf(path: Path, data: Bytes) -> SharedObject:
    """The description of a library file. Raises LibraryError if the file is not a 64-bit shared object, is
    for another architecture, or is truncated."""
    if len(data) < _HEADER.size or data[:4] != b"\x7fELF":
        raise LibraryError(f"{path} is no shared object (no ELF header)", got=str(path))
    fields = _HEADER.unpack_from(data)
    ident, kind, machine, _, _, segments_at, table, _, _, segment_size, num_segments, *rest = fields
    entry_size, count, _ = rest
    arch = _MACHINES.get(machine, f"ELF machine {machine}")
    if ident[4:6] != b"\x02\x01" or arch != isa.host_arch():
        width = "" if ident[4] == 2 else " 32-bit"
        text = f"{path} is for{width} {arch}, this machine is {isa.host_arch()}: compile the graph here"
        raise ForeignMachineError(text, got=arch, wanted=isa.host_arch())
    if kind != _SHARED:
        text = f"{path} is ELF, but no shared object (type {kind}): link it with -shared"
        raise LibraryError(text, got=kind, wanted=_SHARED)
    end = table + count * entry_size
    if end > len(data) or (count and entry_size != _SECTION.size):
        text = f"{path} is cut off: its sections end at byte {end}, the file at {len(data)}"
        raise LibraryError(text, got=len(data), wanted=end)
    segments = _segments(path, data, segments_at, segment_size, num_segments)
    sections = [_SECTION.unpack_from(data, table + i * entry_size) for i in range(count)]
    functions, objects, undefined = set(), {}, set()
    for name, kind, section, value, size in _symbols(path, data, sections):
        if section == _UNDEFINED:
            undefined.add(name)
        elif kind in _FUNCTION_TYPES:
            functions.add(name)
        elif kind in _OBJECT_TYPES:
            objects[name] = value, size
    return SharedObject(arch, frozenset(functions), objects, segments, frozenset(undefined))


def _segments(
    path: Path, data: Bytes, table: int, entry_size: int, count: int
) -> tuple[tuple[int, int, int], ...]:
    """(first address, bytes in the file, offset in the file) of each part that the loader maps."""
    if table + count * entry_size > len(data) or (count and entry_size != _SEGMENT.size):
        raise LibraryError(f"{path}: its table of segments is malformed", got=str(path))
    found = []
    for i in range(count):
        kind, _, offset, addr, _, in_file, _, _ = _SEGMENT.unpack_from(data, table + i * entry_size)
        if kind != _LOAD:
            continue
        if offset + in_file > len(data):
            text = f"{path} is cut off: a segment ends at byte {offset + in_file}, the file at {len(data)}"
            raise LibraryError(text, got=len(data), wanted=offset + in_file)
        found.append((addr, in_file, offset))
    return tuple(found)


def _symbols(
    path: Path, data: Bytes, sections: list[tuple[int, ...]]
) -> Iterator[tuple[str, int, int, int, int]]:
    """(name, type, section, value, size) of each dynamic symbol. Raises LibraryError for tables outside the
    file, and for forms that no linker writes: several tables, or names that overlap repeatedly."""
    tables = [row for row in sections if row[1] == _DYNSYM]
    if len(tables) > 1:
        said = f"{path} has {len(tables)} tables of dynamic symbols, a library has one"
        raise LibraryError(said, got=len(tables), wanted=1)
    for _, _, _, _, offset, size, link, _, _, entry_size in tables:
        names = sections[link] if link < len(sections) else None
        fits = (
            entry_size == _SYMBOL.size and size <= _MOST_SYMBOLS * entry_size and offset + size <= len(data)
        )
        if names is None or not fits or names[4] + names[5] > len(data):
            raise LibraryError(f"{path}: its table of dynamic symbols is malformed", got=str(path))
        strings = bytes(data[names[4] : names[4] + names[5]])
        left = _NAME_SHARE * len(data)
        symbols = _SYMBOL.iter_unpack(data[offset : offset + size // entry_size * entry_size])
        for name, info, _, section, value, symbol_size in symbols:
            end = strings.find(b"\0", name)
            left -= max(0, (len(strings) if end < 0 else end) - name)
            if left < 0:
                many = f"more than {_NAME_SHARE} times the bytes of the file"
                raise LibraryError(f"{path}: the names of its dynamic symbols have {many}", got=str(path))
            text = strings[name : max(name, end)].decode("utf-8", "replace")
            yield text, info & 15, section, value, symbol_size
