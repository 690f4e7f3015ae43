"""Just enough of ELF to judge a shared object before it is opened: whose machine it is for, whether it is
whole, what it exports."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import ForeignMachineError, LibraryError
from . import isa

__all__ = ["SharedObject", "read_elf"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MACHINES = {3: "i686", 20: "ppc", 21: "ppc64le", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_SHARED, _DYNSYM, _UNDEFINED = 3, 11, 0
_FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_OBJECT_TYPES = (0, 1)  # STT_NOTYPE (hand-written assembly), STT_OBJECT
_LOAD = 1
_MOST_SYMBOLS = 1 << 22


@dataclass(frozen=True, slots=True)
class SharedObject:
    """``arch`` as platform.machine() spells it, ``functions`` the names of the functions it defines for
    others, ``objects`` {name: (offset in the file, bytes)} of its data,
    ``undefined`` the names that others must define."""

    arch: str
    functions: frozenset[str]
    objects: Mapping[str, tuple[int, int]]
    undefined: frozenset[str]

    def view(self, name: str, data: bytes | mmap.mmap) -> memoryview:
        """The bytes of a data symbol in the file's ``data``, read-only; none where the file has none for
        it."""
        offset, size = self.objects[name]
        return memoryview(data)[offset : offset + size].toreadonly()


def read_elf(path: Path, data: bytes | mmap.mmap) -> SharedObject:
    """What a library file says of itself.

    Raises LibraryError for one that is no 64-bit shared object, is for another architecture, or is cut off.
    """
    if len(data) < _HEADER.size or data[:4] != b"\x7fELF":
        raise LibraryError(f"{path} is no shared object (no ELF header)", got=str(path))
    fields = _HEADER.unpack_from(data)
    ident, kind, machine, _, _, segments_at, table, _, _, segment_size, num_segments, *rest = fields
    entry_size, count, _ = rest
    arch = _MACHINES.get(machine, f"ELF machine {machine}")
    if ident[4:6] != b"\x02\x01" or arch != isa.host_arch():
        width = "" if ident[4] == 2 else " 32-bit"
        raise ForeignMachineError(
            f"{path} is for{width} {arch}, this machine is {isa.host_arch()}: compile the graph here",
            got=arch,
            wanted=isa.host_arch(),
        )
    if kind != _SHARED:
        raise LibraryError(
            f"{path} is ELF, but no shared object (type {kind}): link it with -shared",
            got=kind,
            wanted=_SHARED,
        )
    if table + count * entry_size > len(data) or (count and entry_size != _SECTION.size):
        raise LibraryError(
            f"{path} is cut off: its sections end at byte {table + count * entry_size}, the file at "
            f"{len(data)}",
            got=len(data),
            wanted=table + count * entry_size,
        )
    segments = _segments(path, data, segments_at, segment_size, num_segments)
    sections = [_SECTION.unpack_from(data, table + i * entry_size) for i in range(count)]
    functions, objects, undefined = set(), {}, set()
    for name, kind, section, value, size in _symbols(path, data, sections):
        if section == _UNDEFINED:
            undefined.add(name)
        elif kind in _FUNCTION_TYPES:
            functions.add(name)
        elif kind in _OBJECT_TYPES:
            objects[name] = _extent(segments, value, size)
    return SharedObject(arch, frozenset(functions), objects, frozenset(undefined))


def _segments(
    path: Path, data: bytes | mmap.mmap, table: int, entry_size: int, count: int
) -> list[tuple[int, int, int]]:
    """(first address, bytes in the file, their offset) of each part that the loader maps."""
    if table + count * entry_size > len(data) or (count and entry_size != _SEGMENT.size):
        raise LibraryError(f"{path}: its table of segments is malformed", got=str(path))
    found = []
    for i in range(count):
        kind, _, offset, addr, _, in_file, _, _ = _SEGMENT.unpack_from(data, table + i * entry_size)
        if kind != _LOAD:
            continue
        if offset + in_file > len(data):
            raise LibraryError(
                f"{path} is cut off: a segment ends at byte {offset + in_file}, the file at {len(data)}",
                got=len(data),
                wanted=offset + in_file,
            )
        found.append((addr, in_file, offset))
    return found


def _extent(segments: list[tuple[int, int, int]], value: int, size: int) -> tuple[int, int]:
    """Where a symbol's bytes stand in the file: as many as it says, never beyond its segment."""
    for first, in_file, offset in segments:
        if first <= value < first + in_file:
            left = first + in_file - value
            return offset + value - first, min(left, size) if size else left
    return 0, 0


def _symbols(
    path: Path, data: bytes | mmap.mmap, sections: list[tuple[int, ...]]
) -> Iterator[tuple[str, int, int, int, int]]:
    """(name, type, section, value, size) of each dynamic symbol."""
    for _, section_type, _, _, offset, size, link, _, _, entry_size in sections:
        if section_type != _DYNSYM:
            continue
        names = sections[link] if link < len(sections) else None
        if (
            names is None
            or entry_size != _SYMBOL.size
            or size > _MOST_SYMBOLS * entry_size
            or offset + size > len(data)
            or names[4] + names[5] > len(data)
        ):
            raise LibraryError(f"{path}: its table of dynamic symbols is malformed", got=str(path))
        strings = data[names[4] : names[4] + names[5]]
        for at in range(offset, offset + size - entry_size + 1, entry_size):
            name, info, _, section, value, symbol_size = _SYMBOL.unpack_from(data, at)
            text = strings[name : max(name, strings.find(b"\0", name))].decode("utf-8", "replace")
            yield text, info & 15, section, value, symbol_size
