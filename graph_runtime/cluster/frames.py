"""What a server and its replicas send each other: frames, of a JSON object and of raw bytes behind it.

    <I: bytes of the JSON> <Q: bytes behind it> JSON, bytes            little-endian

Arrays are rows of the JSON, [dtype, shape, offset]. An offset that is not negative is one in shared memory;
-1 - n is byte n of the bytes behind the JSON. Nothing is unpickled.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from ..base import dtypes
from ..base.errors import ClusterError
from .shared_memory import AttachedMemory, SharedMemory

__all__ = ["FrameReader", "Part", "frame", "pack_arrays", "read_arrays"]

Part = bytes | memoryview
_PREFIX = struct.Struct("<IQ")
_MOST_HEAD, _MOST_BYTES = 16 << 20, 1 << 34
_ALIGN = 64
_SCRATCH = 64 << 10


def frame(head: Mapping[str, Any], parts: Sequence[Part] = ()) -> list[Part]:
    """The pieces of a frame, which are sent one after the other."""
    text = orjson.dumps(head)
    return [_PREFIX.pack(len(text), sum(len(part) for part in parts)) + text, *parts]


def pack_arrays(
    arrays: Sequence[np.ndarray], memory: SharedMemory | None = None
) -> tuple[list[list[Any]], list[Part]]:
    """The rows of arrays, and the bytes of those that are not in ``memory``."""
    rows: list[list[Any]] = []
    parts: list[Part] = []
    at = 0
    for array in arrays:
        offset = memory.offset_of(array) if memory is not None else None
        if offset is None:
            array = np.ascontiguousarray(array).reshape(array.shape)
            offset = -1 - at
            parts.append(array.reshape(-1).view(np.uint8).data)
            if gap := -array.nbytes % _ALIGN:
                parts.append(bytes(gap))
            at += array.nbytes + gap
        rows.append([dtypes.from_numpy(array.dtype), list(array.shape), offset])
    return rows, parts


def read_arrays(
    rows: Sequence[Sequence[Any]], data: memoryview, memory: AttachedMemory | None = None
) -> list[np.ndarray]:
    """The arrays of rows, not copied. ``data``: the bytes behind the JSON. Raises ClusterError for rows that
    do not fit them."""
    found = []
    for name, shape, offset in rows:
        dtype = dtypes.to_numpy(name)
        if offset >= 0:
            if memory is None:
                raise ClusterError("a frame speaks of shared memory, and there is none")
            found.append(memory.array(dtype, tuple(shape), offset))
            continue
        begin = -1 - offset
        end = begin + math.prod(shape) * dtype.itemsize
        if end > len(data):
            raise ClusterError(f"a frame has {len(data)} bytes, an array in it ends at {end}", got=end)
        found.append(np.frombuffer(data[begin:end], dtype).reshape(shape))
    return found


class FrameReader:
    """Frames from bytes as they arrive, large ones into their own memory at once:

    count = receive_into(reader.buffer()); for head, data in reader.filled(count): ..."""

    def __init__(self) -> None:
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._seen = bytearray()
        self._head: dict[str, Any] | None = None
        self._data = memoryview(b"")
        self._at = 0

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        return self._scratch if self._head is None else self._data[self._at :]

    def filled(self, count: int) -> Iterator[tuple[dict[str, Any], memoryview]]:
        """The frames that are whole with ``count`` bytes more. Raises ClusterError for what is no frame."""
        if self._head is None:
            self._seen += self._scratch[:count]
        else:
            self._at += count
        while self._begin() and self._at == len(self._data):
            head, self._head = self._head, None
            assert head is not None, "_begin has read it"
            yield head, self._data

    def _begin(self) -> bool:
        """Whether the JSON of a frame is there."""
        if self._head is not None:
            return True
        seen = self._seen
        if len(seen) < _PREFIX.size:
            return False
        size, behind = _PREFIX.unpack_from(seen)
        if size > _MOST_HEAD or behind > _MOST_BYTES:
            raise ClusterError(f"a frame of {size} and {behind} bytes", got=behind, wanted=_MOST_BYTES)
        begin = _PREFIX.size + size
        if len(seen) < begin:
            return False
        try:
            self._head = orjson.loads(seen[_PREFIX.size : begin])
        except orjson.JSONDecodeError as error:
            raise ClusterError(f"a frame's head is no JSON: {error}") from None
        if not isinstance(self._head, dict):
            raise ClusterError("a frame's head is no JSON object")
        self._data = np.empty(behind, np.uint8).data
        self._at = min(behind, len(seen) - begin)
        self._data[: self._at] = seen[begin : begin + self._at]
        del seen[: begin + self._at]
        return True
