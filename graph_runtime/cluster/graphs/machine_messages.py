"""Messages between machines: a header that is JSON, and tensors behind it as they lie in memory.

    "GRM1", u32 bytes of the header, u64 bytes of what follows it     little endian
    header        {..., "tensors": [[name, dtype, shape], ...]}
    tensors       row major, each at a multiple of 64 bytes

The same bytes go over sockets, through shared memory and in calls of Ray. Reading them makes no object of
this package: nothing is unpickled, and each size is compared before memory is taken.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ...base import dtypes
from ...base.errors import DocumentError
from ...base.json_text import parse_json
from ...run.tensors.host_values import aligned_empty

__all__ = [
    "MOST_HEADER",
    "PREFIX",
    "Message",
    "MessageHead",
    "pack",
    "read_head",
    "read_message",
    "write_message",
]

PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"GRM1"
_ALIGNMENT = 64
MOST_HEADER = 4 << 20
MOST_BYTES = 1 << 40  # of tensors: above what any machine has
_MOST_TENSORS, _MOST_RANK = 1 << 16, 32


@dataclass(frozen=True, slots=True)
class MessageHead:
    """What comes before the tensors: the ``header``, and of each tensor (name, dtype, shape, where it
    begins). ``nbytes``: of all of them."""

    header: Mapping[str, Any]
    tensors: tuple[tuple[str, np.dtype, tuple[int, ...], int], ...]
    nbytes: int

    def views(self, memory: np.ndarray) -> dict[str, np.ndarray]:
        """The tensors in uint8 [nbytes] memory; nothing is copied."""
        found = {}
        for name, dtype, shape, at in self.tensors:
            part = memory[at : at + math.prod(shape) * dtype.itemsize]
            found[name] = part.view(dtype).reshape(shape)
        return found


@dataclass(frozen=True, slots=True)
class Message:
    """A header, and tensors by name."""

    header: Mapping[str, Any]
    tensors: Mapping[str, np.ndarray]


def pack(
    header: Mapping[str, Any], tensors: Mapping[str, np.ndarray]
) -> tuple[bytes, list[tuple[int, np.ndarray]], int]:
    """(prefix and header, [(where it begins, uint8 [bytes] of a tensor)], bytes of all tensors)."""
    rows, pieces, at = [], [], 0
    for name, array in tensors.items():
        plain = np.ascontiguousarray(array)
        rows.append([name, dtypes.from_numpy(plain.dtype), list(np.shape(array))])
        pieces.append((at, plain.reshape(-1).view(np.uint8)))
        at += -(-plain.nbytes // _ALIGNMENT) * _ALIGNMENT
    text = orjson.dumps({**header, "tensors": rows})
    return PREFIX.pack(_MAGIC, len(text), at) + text, pieces, at


def sizes(prefix: bytes) -> tuple[int, int]:
    """(bytes of the header, of the tensors). Raises DocumentError for what is no message."""
    if len(prefix) != PREFIX.size:
        raise DocumentError(f"a message begins with {PREFIX.size} bytes, got {len(prefix)}", got=len(prefix))
    magic, header, nbytes = PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise DocumentError(f"no message of this version: it begins with {magic!r}", got=magic, wanted=_MAGIC)
    if header > MOST_HEADER or nbytes > MOST_BYTES:
        raise DocumentError(f"a message with a header of {header} bytes and {nbytes} behind it is too large")
    return header, nbytes


def read_head(text: bytes, nbytes: int) -> MessageHead:
    """The head of a message whose prefix says ``nbytes``. Raises DocumentError, with the place."""
    raw = parse_json(text, "a message")
    if not isinstance(raw, dict):
        raise DocumentError("a message's header is an object", path="$")
    rows = raw.pop("tensors", None)
    if not isinstance(rows, list) or len(rows) > _MOST_TENSORS:
        raise DocumentError("a message lists its tensors", path="$.tensors")
    found, at = [], 0
    for i, row in enumerate(rows):
        path = f"$.tensors[{i}]"
        if (
            not isinstance(row, list)
            or len(row) != 3
            or not isinstance(row[0], str)
            or not isinstance(row[1], str)
        ):
            raise DocumentError("a tensor of a message is [name, dtype, shape]", path=path)
        name, text_of, shape = row
        if text_of not in dtypes.BY_DTYPE:
            raise DocumentError(f"a message has a tensor of dtype {text_of[:40]!r}", path=path, got=text_of)
        whole = isinstance(shape, list) and len(shape) <= _MOST_RANK
        if not whole or not all(type(n) is int and 0 <= n <= MOST_BYTES for n in shape):
            raise DocumentError("the shape of a message's tensor is a list of sizes", path=path, got=shape)
        dtype = dtypes.to_numpy(text_of)
        found.append((name, dtype, tuple(shape), at))
        at += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        if at > nbytes:
            break
    if at != nbytes:
        raise DocumentError(
            f"the tensors of a message take {at} bytes, it has {nbytes}", got=nbytes, wanted=at
        )
    if len({name for name, *_ in found}) != len(found):
        raise DocumentError("a message has two tensors of one name", path="$.tensors")
    return MessageHead(raw, tuple(found), nbytes)


def write_message(header: Mapping[str, Any], tensors: Mapping[str, np.ndarray] | None = None) -> bytes:
    """A whole message."""
    head, pieces, nbytes = pack(header, tensors or {})
    if not pieces:
        return head
    made = bytearray(len(head) + nbytes)
    made[: len(head)] = head
    memory = np.frombuffer(made, np.uint8)[len(head) :]
    for at, piece in pieces:
        memory[at : at + len(piece)] = piece
    return bytes(made)


def read_message(data: bytes) -> Message:
    """What write_message made; its tensors can only be read. Raises DocumentError."""
    header, nbytes = sizes(bytes(data[: PREFIX.size]))
    begin = PREFIX.size + header
    if len(data) != begin + nbytes:
        raise DocumentError(f"a message of {begin + nbytes} bytes has {len(data)}", got=len(data))
    head = read_head(bytes(data[PREFIX.size : begin]), nbytes)
    memory = aligned_empty((nbytes,), np.uint8)
    memory[:] = np.frombuffer(data, np.uint8)[begin:]
    return Message(head.header, head.views(memory))
