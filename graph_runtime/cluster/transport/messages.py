"""What processes of this package send each other: messages, of a JSON header and of tensors.

    "GRM", u8 version, u32 bytes of the header, u64 bytes behind it                    little-endian
    header       {..., "tensors": [[name, dtype, shape], ...]}
    behind it    those tensors, row major, each at a multiple of 64 bytes

A tensor whose row has a fourth value is not behind the header, but in memory that both ends share: there it
says where. Where the header has no bytes nothing follows: the array at that place of the other end's memory
is needed no more, which is read as ``{"free": place}``. The same bytes go over sockets and in calls of Ray.
Reading them makes no object of this package: nothing is unpickled, and every size is compared before memory
is taken.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import orjson

from ...base import dtypes
from ...base.errors import ClusterError, DocumentError
from ...base.json_text import parse_text
from ...run.tensors.host_values import ALIGNMENT, aligned_empty
from .shared_memory import AttachedMemory, SharedMemory

Part = bytes | memoryview
_PREFIX = struct.Struct("<3sBIQ")
_MAGIC, _VERSION = b"GRM", 2
_MOST_HEADER = 16 << 20
_MOST_BEHIND = 1 << 40  # above what any machine has
_MOST_TENSORS, _MOST_RANK = 1 << 16, 32
_SCRATCH = 64 << 10
_NOTHING = aligned_empty((0,), np.uint8)


@dataclass(frozen=True, slots=True)
class Message:
    """A header, and tensors by name."""

    header: Mapping[str, Any]
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)


# **************** writing ****************


def message_parts(
    header: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray] | None = None,
    memory: SharedMemory | None = None,
) -> list[Part]:
    """A message as pieces, which are sent one after the other. Tensors that lie in ``memory`` are not among
    them. No tensor is copied, but for those that are not contiguous."""
    rows: list[list[Any]] = []
    parts: list[Part] = []
    behind = 0
    for name, array in (tensors or {}).items():
        row: list[Any] = [name, dtypes.from_numpy(array.dtype), array.shape]
        rows.append(row)
        offset = memory.offset_of(array) if memory is not None and array.nbytes else None
        if offset is not None:
            row.append(offset)
        elif array.nbytes:
            native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
            parts.append(np.ascontiguousarray(native).reshape(-1).view(np.uint8).data)
            behind += array.nbytes
            if gap := -behind % ALIGNMENT:
                parts.append(bytes(gap))
                behind += gap
    text = orjson.dumps({**header, "tensors": rows} if rows else header)
    return [_PREFIX.pack(_MAGIC, _VERSION, len(text), behind) + text, *parts]


def free_message(place: int) -> bytes:
    """Tells the other end that the array there, in memory that it shares, is needed no more."""
    return _PREFIX.pack(_MAGIC, _VERSION, 0, place)


def write_message(header: Mapping[str, Any], tensors: Mapping[str, np.ndarray] | None = None) -> bytes:
    """A whole message."""
    return b"".join(message_parts(header, tensors))


# **************** reading ****************


@dataclass(frozen=True, slots=True)
class _Row:
    """A tensor that a header lists. ``begin``: where it lies, in shared memory or behind the header."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    shared: bool

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_message(data: bytes) -> Message:
    """What write_message made; its tensors are copies. Raises DocumentError, ClusterError."""
    size, behind = _sizes(data)
    begin = _PREFIX.size + size
    if len(data) != begin + behind:
        raise DocumentError(f"a message of {begin + behind} bytes has {len(data)}", got=len(data))
    header, rows = _read_header(data[_PREFIX.size : begin], behind)
    memory = _take(behind)
    memory[:] = np.frombuffer(data, np.uint8)[begin:]
    return _message(header, rows, memory, None)


class MessageReader:
    """Messages from bytes as they arrive, large ones into their own memory at once:

        count = receive_into(reader.buffer())
        for message in reader.filled(count): ...

    ``memory``: what both ends share; it may be set until the first message comes that speaks of it."""

    def __init__(self, memory: AttachedMemory | None = None) -> None:
        self.memory = memory
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._seen = bytearray()
        self._begun: tuple[dict[str, Any], list[_Row]] | None = None
        self._behind = _take(0)
        self._at = 0

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        return self._scratch if self._begun is None else self._behind.data[self._at :]

    def filled(self, count: int) -> Iterator[Message]:
        """The messages that are whole with ``count`` bytes more. Raises DocumentError for what is none, with
        the place; ClusterError for one that there is no memory for."""
        if self._begun is None:
            self._seen += self._scratch[:count]
        else:
            self._at += count
        while self._begin() and self._at == len(self._behind):
            yield self._whole()  # a reader keeps nothing of a message

    def _whole(self) -> Message:
        assert self._begun is not None, "_begin has read it"
        (header, rows), behind = self._begun, self._behind
        self._begun, self._behind = None, _take(0)
        return _message(header, rows, behind, self.memory)

    def _begin(self) -> bool:
        """Whether the header of a message is there."""
        if self._begun is not None:
            return True
        seen = self._seen
        if len(seen) < _PREFIX.size:
            return False
        size, behind = _sizes(seen)
        begin = _PREFIX.size + size
        if len(seen) < begin:
            return False
        if not size:
            self._begun, self._at = ({"free": behind}, []), 0
            del seen[:begin]
            return True
        self._begun = _read_header(bytes(seen[_PREFIX.size : begin]), behind)
        self._behind = _take(behind)
        self._at = min(behind, len(seen) - begin)
        self._behind[: self._at] = np.frombuffer(seen, np.uint8, self._at, begin)
        del seen[: begin + self._at]
        return True


def _sizes(data: bytes | bytearray) -> tuple[int, int]:
    """Bytes of the header, and behind it."""
    if len(data) < _PREFIX.size:
        raise DocumentError(f"a message begins with {_PREFIX.size} bytes, got {len(data)}", got=len(data))
    magic, version, size, behind = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise DocumentError(f"what came is no message: it begins with {magic!r}", got=magic, wanted=_MAGIC)
    if version != _VERSION:
        raise DocumentError(
            f"a message of version {version}, version {_VERSION} is read here: install the same package on "
            "all machines",
            got=version,
            wanted=_VERSION,
        )
    if size > _MOST_HEADER or behind > _MOST_BEHIND:
        raise DocumentError(f"a message with a header of {size} bytes and {behind} behind it is too large")
    return size, behind


def _read_header(text: bytes, behind: int) -> tuple[dict[str, Any], list[_Row]]:
    header, _ = parse_text(text, "a message's header")
    if not isinstance(header, dict):
        raise DocumentError("a message's header is an object", path="$")
    listed = header.pop("tensors", [])
    if not isinstance(listed, list) or len(listed) > _MOST_TENSORS:
        raise DocumentError(f"a message has a list of at most {_MOST_TENSORS} tensors", path="$.tensors")
    rows, end = [], 0
    for i, raw in enumerate(listed):
        row = _read_row(raw, f"$.tensors[{i}]", end)
        rows.append(row)
        if not row.shared:
            end = row.begin + row.nbytes + -row.nbytes % ALIGNMENT
            if end > behind:
                break
    if end != behind:
        raise DocumentError(
            f"the tensors of a message take {end} bytes or more, it has {behind}",
            path="$.tensors",
            got=behind,
            wanted=end,
        )
    if len({row.name for row in rows}) != len(rows):
        raise DocumentError("a message has two tensors of one name", path="$.tensors")
    return header, rows


def _read_row(raw: Any, path: str, begin: int) -> _Row:
    """A row of the header; one without a place begins at ``begin``."""
    if not isinstance(raw, list) or len(raw) not in (3, 4) or not isinstance(raw[0], str):
        raise DocumentError("a tensor of a message is [name, dtype, shape] or has a place, too", path=path)
    name, kind, shape = raw[:3]
    dtype = _dtype(kind) if isinstance(kind, str) and kind in dtypes.BY_DTYPE else None
    if dtype is None:
        raise DocumentError(
            f"a message has a tensor of dtype {str(kind)[:40]!r}", path=f"{path}[1]", got=kind
        )
    if not isinstance(shape, list) or len(shape) > _MOST_RANK or not all(map(_is_size, shape)):
        raise DocumentError(
            "the shape of a message's tensor is a list of sizes", path=f"{path}[2]", got=shape
        )
    if len(raw) == 4 and not _is_size(raw[3]):
        raise DocumentError("a place in shared memory is a number", path=f"{path}[3]", got=raw[3])
    return _Row(name, dtype, tuple(shape), raw[3] if len(raw) == 4 else begin, len(raw) == 4)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_BEHIND


@cache
def _dtype(name: str) -> np.dtype:
    return dtypes.to_numpy(name)


def _take(nbytes: int) -> np.ndarray:
    """uint8 [nbytes]; pages are there when they are written, not when they are promised."""
    if not nbytes:  # most messages
        return _NOTHING
    try:
        return aligned_empty((nbytes,), np.uint8)
    except MemoryError:
        raise ClusterError(f"there is no memory for a message of {nbytes} bytes", got=nbytes) from None


def _message(
    header: dict[str, Any], rows: Sequence[_Row], behind: np.ndarray, memory: AttachedMemory | None
) -> Message:
    tensors = {}
    for i, row in enumerate(rows):
        if not row.shared:
            part = behind[row.begin : row.begin + row.nbytes]
            tensors[row.name] = part.view(row.dtype).reshape(row.shape)
            continue
        if memory is None or row.begin + row.nbytes > memory.size:
            text = f"a message speaks of bytes {row.begin} to {row.begin + row.nbytes} of shared memory"
            there = "none" if memory is None else f"{memory.size} bytes"
            raise DocumentError(f"{text}, there is {there}", path=f"$.tensors[{i}][3]", got=row.begin)
        tensors[row.name] = memory.array(row.dtype, row.shape, row.begin)
    return Message(header, tensors)
