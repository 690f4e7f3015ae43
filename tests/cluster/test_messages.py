"""What processes send each other: bytes of messages, in any pieces, and those that are none."""

from __future__ import annotations

import os
import random
import struct
import weakref
from typing import Any

import numpy as np
import orjson
import pytest

import graph_runtime as gr
from graph_runtime.base import dtypes
from graph_runtime.cluster.graphs.sheets import Sheet, StageSheet
from graph_runtime.cluster.ports import Port, Served
from graph_runtime.cluster.transport.messages import (
    Message,
    MessageReader,
    message_parts,
    read_message,
    write_message,
)
from graph_runtime.cluster.transport.records import read_record
from graph_runtime.cluster.transport.shared_memory import AttachedMemory, SharedMemory

linux = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory without a file is Linux's")
ARRAYS = {
    "x": np.arange(12, dtype=np.float32).reshape(3, 4),
    "none": np.zeros((0, 2), np.int64),
    "one": np.array(7),
    "turned": np.arange(6).reshape(2, 3).T,
    "every other": np.arange(9, dtype=np.float16)[::2],
    "big-endian": np.arange(5, dtype=">f4"),
    "wide": np.ones((5, 7), np.uint8),
}


def equal(got: Any, wanted: Any) -> None:
    assert list(got) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array)
        assert (got[name].dtype, got[name].shape) == (array.dtype.newbyteorder("="), array.shape)


def read(*pieces: bytes, memory: AttachedMemory | None = None) -> list[Message]:
    reader, found = MessageReader(memory), []
    for piece in pieces:
        while piece:
            into = reader.buffer()
            count = min(len(into), len(piece))
            into[:count] = piece[:count]
            piece = piece[count:]
            found += list(reader.filled(count))
    return found


def raw(tensors: Any, behind: int = 0, **words: Any) -> bytes:
    """A message whose header is written by hand."""
    text = orjson.dumps({"tensors": tensors, **words})
    return struct.pack("<3sBIQ", b"GRM", 2, len(text), behind) + text + bytes(min(behind, 1 << 20))


def test_a_message_comes_back_as_it_was() -> None:
    data = write_message({"do": "run", "run": 3}, ARRAYS)
    for back in (read_message(data), *read(data)):
        assert back.header == {"do": "run", "run": 3}
        equal(back.tensors, ARRAYS)
        assert all(a.ctypes.data % 64 == 0 and a.flags.writeable for a in back.tensors.values() if a.size)
    assert read_message(write_message({})) == Message({}, {})


@pytest.mark.parametrize("dtype", sorted(dtypes.BY_DTYPE))
def test_each_dtype_travels(dtype: str) -> None:
    array = np.frombuffer(bytes(range(64)), np.uint8).view(dtypes.to_numpy(dtype)).reshape(2, -1)
    back = read_message(write_message({}, {"x": array})).tensors["x"]
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


@pytest.mark.parametrize("seed", range(20))
def test_messages_are_read_in_any_pieces(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice((0, 1, 70_000, 200_000)) for _ in range(6)]
    sent = [
        ({"n": n, "t": "é" * n}, {"x": np.frombuffer(rng.randbytes(s), np.uint8)})
        for n, s in enumerate(sizes)
    ]
    text = b"".join(write_message(*one) for one in sent)
    ends = sorted(rng.sample(range(len(text)), 5))
    found = read(*(text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)))
    assert [message.header for message in found] == [header for header, _ in sent]
    for message, (_, tensors) in zip(found, sent, strict=True):
        equal(message.tensors, tensors)


def test_a_large_tensor_is_received_where_it_stays() -> None:
    data = write_message({}, {"x": np.ones(1 << 20, np.uint8)})
    reader, begin = MessageReader(), len(data) - (1 << 20)
    reader.buffer()[:begin] = data[:begin]
    assert not list(reader.filled(begin))
    into = reader.buffer()
    assert len(into) == 1 << 20
    into[:] = data[begin:]
    (message,) = reader.filled(1 << 20)
    assert np.shares_memory(message.tensors["x"], np.frombuffer(into, np.uint8))


@linux
def test_tensors_in_shared_memory_are_read_there() -> None:
    memory = SharedMemory(1 << 20)
    view = memory.take(800)
    shared = np.frombuffer(view, np.float64).reshape(10, 10)
    shared[:] = 3.0
    tensors = {"x": shared, "own": np.arange(3), "row": shared[2]}
    data = b"".join(message_parts({"n": 1}, tensors, memory))
    assert len(data) < 300
    other = AttachedMemory(os.dup(memory.file))
    (message,) = read(data, memory=other)
    equal(message.tensors, tensors)
    shared[2] = 4.0
    assert message.tensors["row"].tolist() == [4.0] * 10
    with pytest.raises(gr.DocumentError, match=r"bytes 0 to 800 of shared memory, there is none") as error:
        read(data)
    assert error.value.path == "$.tensors[0][3]"
    for end in (memory.size - 799, memory.size + 5, 1 << 39):
        with pytest.raises(gr.DocumentError, match="there is 1048576 bytes"):
            read(raw([["x", "float64", [100], end]]), memory=other)


@pytest.mark.parametrize(
    ("tensors", "says", "path"),
    [
        ({}, "a list of at most", "$.tensors"),
        ([["x", "float32"]], r"\[name, dtype, shape\]", "$.tensors[0]"),
        ([["x", "float32", [], 0, 0]], r"\[name, dtype, shape\]", "$.tensors[0]"),
        ([["x", "float32", [0]], [7, "float32", [1]]], r"\[name, dtype, shape\]", "$.tensors[1]"),
        ([["x", "object", [1]]], "of dtype 'object'", "$.tensors[0][1]"),
        ([["x", ["float32"], [1]]], "of dtype", "$.tensors[0][1]"),
        ([["x", "float32", [-1]]], "list of sizes", "$.tensors[0][2]"),
        ([["x", "float32", [True]]], "list of sizes", "$.tensors[0][2]"),
        ([["x", "float32", [1 << 50]]], "list of sizes", "$.tensors[0][2]"),
        ([["x", "float32", [0] * 33]], "list of sizes", "$.tensors[0][2]"),
        ([["x", "float32", [1], -1]], "a place in shared memory", "$.tensors[0][3]"),
        ([["x", "float32", [4]]], "take 64 bytes or more, it has 0", "$.tensors"),
        ([["x", "float32", [1 << 39] * 9]], "bytes or more, it has 0", "$.tensors"),
        ([["x", "float32", [0]], ["x", "int8", [0]]], "two tensors of one name", "$.tensors"),
    ],
)
def test_a_header_that_lies_about_tensors(tensors: Any, says: str, path: str) -> None:
    data = raw(tensors)
    for reading in (read_message, read):
        with pytest.raises(gr.DocumentError, match=says) as error:
            reading(data)
        assert error.value.path == path


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff" * 16, "not a message: it begins with"),
        (b"GET / HTTP/1.1\r\n\r\n", "not a message: it begins with b'GET'"),
        (
            struct.pack("<3sBIQ", b"GRM", 1, 2, 0) + b"{}",
            "version 1, version 2 is read here: install the same",
        ),
        (struct.pack("<3sBIQ", b"GRM", 2, 1 << 30, 0), "too large"),
        (struct.pack("<3sBIQ", b"GRM", 2, 2, 1 << 50) + b"{}", "too large"),
        (struct.pack("<3sBIQ", b"GRM", 2, 1, 0) + b"{", "header is not valid JSON"),
        (struct.pack("<3sBIQ", b"GRM", 2, 2, 0) + b"[]", "header must be an object"),
        (struct.pack("<3sBIQ", b"GRM", 2, 2, 64) + b"{}", "take 0 bytes or more, it has 64"),
    ],
)
def test_what_is_no_message_is_a_typed_error(data: bytes, says: str) -> None:
    with pytest.raises(gr.DocumentError, match=says):
        read(data)
    with pytest.raises(gr.DocumentError):
        read_message(data)


def test_a_message_that_promises_more_memory_than_there_is() -> None:
    with pytest.raises(gr.ClusterError, match="not enough memory for a message of 1099511627776 bytes"):
        read(raw([["x", "uint8", [1 << 40]]], 1 << 40))


def test_a_reader_keeps_nothing_of_a_message() -> None:
    reader, data = MessageReader(), write_message({}, {"x": np.ones(1 << 17, np.uint8)})
    gone = []
    while data:
        into = reader.buffer()
        count = min(len(into), len(data))
        into[:count] = data[:count]
        data = data[count:]
        for message in reader.filled(count):
            gone.append(weakref.ref(message.tensors["x"].base))
            del message
    del into
    assert [one() for one in gone] == [None]


SHEET = Sheet("n", (StageSheet("p", {"x": "x"}, {}, ("y",), (("m", 1),), {"m": {"y": "z"}}, ()),), ("y",))
SERVED = Served((Port("x", "float32", (-1, 3)),), (), (1, 4), (((4, 3),),), seconds=(0.5, 2))


@pytest.mark.parametrize("record", [SHEET, SERVED])
def test_records_come_back(record: Any) -> None:
    said = read_message(write_message({"record": record})).header["record"]
    assert read_record(type(record), said) == record


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"machine": 3}, "$.machine"),
        ({"stages": {}}, "$.stages"),
        ({"stages": [[]]}, "$.stages[0]"),
        ({"outputs": [None]}, "$.outputs[0]"),
        ({"outputs": None}, "$.outputs"),
    ],
)
def test_a_record_that_is_none_says_where(change: dict[str, Any], path: str) -> None:
    with pytest.raises(gr.DocumentError) as caught:
        read_record(Sheet, {**orjson.loads(orjson.dumps(SHEET)), **change})
    assert caught.value.path == path


@pytest.mark.parametrize("needs", [["m", "1"], ["m"], ["m", True], "m1"])
def test_pairs_of_a_record_have_their_types(needs: Any) -> None:
    said = orjson.loads(orjson.dumps(SHEET))
    said["stages"][0]["needs"] = [needs]
    with pytest.raises(gr.DocumentError, match="needs"):
        read_record(Sheet, said)
