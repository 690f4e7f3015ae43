"""Messages between machines: their bytes, sockets and shared memory, and what is let in."""

from __future__ import annotations

import gc
import os
import queue
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import DocumentError, RunCancelledError, WaitTimeoutError
from graph_runtime.cluster.graphs.endpoint import Endpoint, LinkLost
from graph_runtime.cluster.graphs.machine_messages import Message, read_message, write_message
from graph_runtime.cluster.graphs.mailbox import Key, Mailbox

KEY = bytes(range(32))
ARRAYS = {
    "x": np.arange(12, dtype=np.float32).reshape(3, 4),
    "none": np.zeros((0, 2), np.int64),
    "one": np.array(7),
}

# **************** bytes ****************


def test_a_message_comes_back_as_it_was() -> None:
    arrays = {**ARRAYS, "turned": np.arange(6).reshape(2, 3).T, "wide": np.ones((5, 7), np.uint8)}
    back = read_message(write_message({"do": "run", "run": 3}, arrays))
    assert back.header == {"do": "run", "run": 3}
    assert list(back.tensors) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.tensors[name], array)
        assert back.tensors[name].dtype == array.dtype
        assert back.tensors[name].ctypes.data % 64 == 0 or not array.size


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_other_bytes_are_a_document_error(data: st.DataObject) -> None:
    good = bytearray(write_message({"do": "run"}, ARRAYS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(good) - 1))
        good[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    for piece in (bytes(good), bytes(good[:cut])):
        try:
            message = read_message(piece)
        except DocumentError:
            continue
        assert all(isinstance(value, np.ndarray) for value in message.tensors.values())


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({}, "lists its tensors"),
        ([["x", "float32"]], r"\[name, dtype, shape\]"),
        ([["x", "object", [1]]], "of dtype 'object'"),
        ([["x", "float32", [-1]]], "list of sizes"),
        ([["x", "float32", [1 << 50]]], "list of sizes"),
        ([["x", "float32", [4]]], "take 64 bytes, it has 0"),
    ],
)
def test_a_header_that_lies_about_tensors(tensors: Any, says: str) -> None:
    import orjson

    text = orjson.dumps({"tensors": tensors})
    data = b"GRM1" + len(text).to_bytes(4, "little") + bytes(8) + text
    with pytest.raises(DocumentError, match=says):
        read_message(data)


# **************** the mailbox ****************


def test_a_wait_ends_at_its_deadline_or_when_the_run_is_called_off() -> None:
    box, key = Mailbox(), Key("m", 3, 0, "node0", 0)
    with pytest.raises(WaitTimeoutError, match="node0 sends for run 3"):
        box.take(key, time.monotonic() + 0.01)
    box.call_off("m", 3, 0, "node1 was lost")
    with pytest.raises(RunCancelledError, match="node1 was lost"):
        box.take(key, time.monotonic() + 60)
    box.put(key, Message({}, {}))  # it is late
    with pytest.raises(RunCancelledError):
        box.take(key, time.monotonic() + 60)
    later = key._replace(attempt=1)
    box.put(later, Message({"n": 1}, {}))
    assert box.take(later, time.monotonic()).header == {"n": 1}
    box.over("m", 3)
    with pytest.raises(RunCancelledError, match="it is over"):
        box.take(later, time.monotonic() + 60)


# **************** links ****************


class Pair:
    """Two ends; what ``b`` gets is in ``came``. ``far``: they think that they are on two machines."""

    def __init__(self, far: bool, key: bytes = KEY):
        self.came: queue.Queue[Message] = queue.Queue()
        host = "127.0.0.1" if far else None
        self.a = Endpoint("a", key, lambda message: None, host)
        self.b = Endpoint("b", KEY, self.came.put, host)
        self.to = dict(self.b.address) | ({"machine": "another"} if far else {})

    def send(self, tensors: dict[str, np.ndarray], seconds: float = 5.0) -> Message:
        self.a.send(self.to, {"n": 1}, tensors, time.monotonic() + seconds)
        return self.came.get(timeout=seconds)


@pytest.fixture(params=[False, True], ids=["shared memory", "tcp"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(request.param)
    yield made
    made.a.close()
    made.b.close()


@pytest.mark.parametrize("size", [0, 3, 1 << 13, 1 << 18])
def test_tensors_arrive(pair: Pair, size: int) -> None:
    x = np.arange(size, dtype=np.float64)
    for _ in range(3):
        got = pair.send({"x": x, "y": x[::2]})
        np.testing.assert_array_equal(got.tensors["x"], x)
        np.testing.assert_array_equal(got.tensors["y"], x[::2])


def test_what_arrived_does_not_change_while_it_is_held() -> None:
    pair = Pair(far=False)
    held = [pair.send({"x": np.full(1 << 16, i, np.float32)}) for i in range(4)]
    assert [float(message.tensors["x"][5]) for message in held] == [0, 1, 2, 3]
    segments = next(iter(pair.a._out.values()))._segments
    assert segments is not None
    assert len(segments._segments) == 4
    held.clear()
    gc.collect()
    for i in range(20):  # memory is used again, once the word that it is free has come back
        end = time.monotonic() + 10
        while all(s.busy for s in segments._segments.values()) and time.monotonic() < end:
            time.sleep(0.001)
        assert pair.send({"x": np.full(1 << 16, i, np.float32)}).tensors["x"][0] == i
    assert len(segments._segments) <= 5
    pair.a.close()
    pair.b.close()


@pytest.mark.parametrize("far", [False, True])
def test_who_has_another_key_is_sent_away(far: bool) -> None:
    pair = Pair(far, key=os.urandom(32))
    with pytest.raises(LinkLost, match="link to b"):
        pair.send({})
    assert pair.came.empty()
    pair.a.close()
    pair.b.close()


def test_noise_does_not_end_a_listener() -> None:
    pair = Pair(far=True)
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(500)):
        with socket.create_connection(("127.0.0.1", pair.b.address["port"]), 5) as stranger:
            stranger.sendall(noise)
    assert pair.send({"x": np.ones(3)}).tensors["x"].sum() == 3
    pair.a.close()
    pair.b.close()


def test_a_link_that_broke_is_made_again() -> None:
    pair = Pair(far=False)
    pair.send({})
    for connection in list(pair.b._open):
        connection.shutdown(socket.SHUT_RDWR)
    time.sleep(0.05)
    assert pair.send({"x": np.ones(1 << 15)}).tensors["x"].sum() == 1 << 15
    pair.b.close()
    time.sleep(0.05)
    with pytest.raises(LinkLost, match="link to b"):
        pair.a.send(pair.to, {}, {}, time.monotonic() + 5)
    pair.a.close()
