"""Messages between processes of this package: a JSON header and tensors.

    "GRM", u8 version, u32 bytes of the header, u64 bytes after it                     little-endian
    header       {..., "tensors": [[name, dtype, shape], ...]}
    tensors      the values of these tensors, row major, each at a multiple of 64 bytes

A tensor whose row has a fourth value is not after the header, but in shared memory at that offset. A message
with a header of 0 bytes tells that an array was released; the u64 is the array's offset in the memory of the
process that receives the message, which reads ``{"free": place}``. The same bytes go over sockets and in
calls of Ray. Reading them creates no object of this package: nothing is unpickled, and every size is checked
before memory is allocated.
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
from ...run.tensors.tensor import ALIGNMENT, aligned_empty
from .shared_memory import AttachedMemory, SharedMemory

Part = bytes | memoryview
Header = Mapping[str, Any]
Tensors = Mapping[str, np.ndarray]
_PREFIX = struct.Struct("<3sBIQ")
_MAGIC, _VERSION = b"GRM", 2
_MOST_HEADER = 16 << 20
_MOST_BEHIND = 1 << 40  # bytes after a header: more than any machine has
_MOST_TENSORS, _MOST_RANK = 1 << 16, 32
_SCRATCH = 64 << 10
_NOTHING = aligned_empty((0,), np.uint8)


@dataclass(frozen=True, slots=True)
class Message:
    """A header, and tensors by name."""

    header: Header
    tensors: Tensors = field(default_factory=dict)


# **************** writing ****************


def message_parts(
    header: Header, tensors: Tensors | None = None, memory: SharedMemory | None = None
) -> list[Part]:
    """A message in pieces, which are sent one after the other. Tensors in ``memory`` are not sent. Only
    tensors that are not contiguous are copied."""
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
    """The message that an array was released. ``place``: the array's offset in the memory that the receiver
    of the message shares."""
    return _PREFIX.pack(_MAGIC, _VERSION, 0, place)


def write_message(header: Header, tensors: Tensors | None = None) -> bytes:
    """A whole message."""
    return b"".join(message_parts(header, tensors))


# **************** reading ****************


@dataclass(frozen=True, slots=True)
class _Row:
    """A tensor listed in a header. ``begin``: the tensor's offset in shared memory, or after the header."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    shared: bool

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_message(data: bytes) -> Message:
    """The inverse of write_message; tensors are copies. Raises DocumentError, ClusterError."""
    size, behind = _sizes(data)
    begin = _PREFIX.size + size
    if len(data) != begin + behind:
        raise DocumentError(f"a message of {begin + behind} bytes has {len(data)}", got=len(data))
    header, rows = _read_header(data[_PREFIX.size : begin], behind)
    memory = _take(behind)
    memory[:] = np.frombuffer(data, np.uint8)[begin:]
    return _message(header, rows, memory, None)


class MessageReader:
    """Messages from bytes as they arrive; large ones are received directly into their own memory:

        count = receive_into(reader.buffer())
        for message in reader.filled(count): ...

    ``memory``: memory that both ends share; it must be set before the first message that refers to it."""

    def __init__(self, memory: AttachedMemory | None = None) -> None:
        self.memory = memory
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._seen = bytearray()
        self._begun: tuple[dict[str, Any], list[_Row]] | None = None
        self._behind = _take(0)
        self._at = 0

    def buffer(self) -> memoryview:
        """Memory for the next bytes."""
        return self._scratch if self._begun is None else self._behind.data[self._at :]

    def filled(self, count: int) -> Iterator[Message]:
        """The messages completed by ``count`` more bytes. Raises DocumentError, with the place, for an
        invalid message; ClusterError if there is no memory for a message."""
        if self._begun is None:
            self._seen += self._scratch[:count]
        else:
            self._at += count
        while self._begin() and self._at == len(self._behind):
            yield self._whole()  # a reader keeps no reference to the message

    def _whole(self) -> Message:
        assert self._begun is not None, "_begin has set it"
        (header, rows), behind = self._begun, self._behind
        self._begun, self._behind = None, _take(0)
        return _message(header, rows, behind, self.memory)

    def _begin(self) -> bool:
        """Whether the header of a message is complete. If it is, the memory for the message's tensors is
        allocated."""
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
    """(bytes of the header, bytes after the header)."""
    if len(data) < _PREFIX.size:
        raise DocumentError(f"a message begins with {_PREFIX.size} bytes, got {len(data)}", got=len(data))
    magic, version, size, behind = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise DocumentError(f"not a message: it begins with {magic!r}", got=magic, wanted=_MAGIC)
    if version != _VERSION:
        text = (
            f"a message of version {version}, version {_VERSION} is read here: install the same package on "
            "all machines"
        )
        raise DocumentError(text, got=version, wanted=_VERSION)
    if size > _MOST_HEADER or behind > _MOST_BEHIND:
        raise DocumentError(f"a message with a header of {size} bytes and {behind} after it is too large")
    return size, behind


def _read_header(text: bytes, behind: int) -> tuple[dict[str, Any], list[_Row]]:
    header, _ = parse_text(text, "a message's header")
    if not isinstance(header, dict):
        raise DocumentError("a message's header must be an object", path="$")
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
        said = f"the tensors of a message take {end} bytes or more, it has {behind}"
        raise DocumentError(said, path="$.tensors", got=behind, wanted=end)
    if len({row.name for row in rows}) != len(rows):
        raise DocumentError("a message has two tensors of one name", path="$.tensors")
    return header, rows


def _read_row(raw: Any, path: str, begin: int) -> _Row:
    """A row of the header. A tensor whose row gives no offset begins at ``begin``."""
    if not isinstance(raw, list) or len(raw) not in (3, 4) or not isinstance(raw[0], str):
        text = "a tensor of a message must be [name, dtype, shape] or [name, dtype, shape, place]"
        raise DocumentError(text, path=path)
    name, kind, shape = raw[:3]
    dtype = _dtype(kind) if isinstance(kind, str) and kind in dtypes.BY_DTYPE else None
    if dtype is None:
        text = f"a message has a tensor of dtype {str(kind)[:40]!r}"
        raise DocumentError(text, path=f"{path}[1]", got=kind)
    if not isinstance(shape, list) or len(shape) > _MOST_RANK or not all(map(_is_size, shape)):
        text = "the shape of a message's tensor must be a list of sizes"
        raise DocumentError(text, path=f"{path}[2]", got=shape)
    if len(raw) == 4 and not _is_size(raw[3]):
        raise DocumentError("a place in shared memory must be a number", path=f"{path}[3]", got=raw[3])
    return _Row(name, dtype, tuple(shape), raw[3] if len(raw) == 4 else begin, len(raw) == 4)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_BEHIND


@cache
def _dtype(name: str) -> np.dtype:
    return dtypes.to_numpy(name)


def _take(nbytes: int) -> np.ndarray:
    """A new array uint8 [nbytes]. The system allocates the array's pages when they are written."""
    if not nbytes:  # most messages have no tensors
        return _NOTHING
    try:
        return aligned_empty((nbytes,), np.uint8)
    except MemoryError:
        text = f"there is not enough memory for a message of {nbytes} bytes"
        raise ClusterError(text, got=nbytes) from None


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
            text = f"a message refers to bytes {row.begin} to {row.begin + row.nbytes} of shared memory"
            there = "none" if memory is None else f"{memory.size} bytes"
            raise DocumentError(f"{text}, there is {there}", path=f"$.tensors[{i}][3]", got=row.begin)
        tensors[row.name] = memory.array(row.dtype, row.shape, row.begin)
    return Message(header, tensors)
