"""One connection: what is sent before the other end reads, bounds of waits, memory that is passed, ends."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from graph_runtime.base.errors import DocumentError
from graph_runtime.cluster.transport.connections import Connection
from graph_runtime.cluster.transport.messages import free_message, write_message
from graph_runtime.cluster.transport.shared_memory import SharedMemory

LARGE = np.arange(1 << 20)  # more than a socket holds


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Connection]]:
    a, b = (Connection(made) for made in socket.socketpair())
    yield a, b
    a.close()
    b.close()


def test_what_is_posted_comes_in_its_order_though_it_is_read_later(ends) -> None:
    a, b = ends
    begin = time.monotonic()
    for n in range(6):
        a.post({"n": n}, {"x": LARGE} if n % 2 else None)
    assert time.monotonic() < begin + 5
    for n in range(6):
        message = b.receive(5)
        assert message.header["n"] == n
        assert np.array_equal(message.tensors["x"], LARGE) if n % 2 else not message.tensors
    a.post({"n": 6})
    assert b.receive(5).header == {"n": 6}


def test_both_ends_send_at_once(ends) -> None:
    senders = [
        threading.Thread(target=one.send, args=({"n": n}, {"x": LARGE})) for one in ends for n in range(3)
    ]
    heard: list[list[int]] = [[], []]

    def read(one: Connection, into: list[int]) -> None:
        for _ in range(3):
            into.append(one.receive(20).header["n"])

    readers = [threading.Thread(target=read, args=pair) for pair in zip(ends, heard, strict=True)]
    for thread in (*senders, *readers):
        thread.start()
    for thread in (*senders, *readers):
        thread.join(20)
    assert [sorted(numbers) for numbers in heard] == [[0, 1, 2], [0, 1, 2]]


def test_waits_end_and_a_message_that_was_sent_in_part_ends_the_connection(ends) -> None:
    a, b = ends
    with pytest.raises(TimeoutError, match="sent nothing"):
        b.receive(0.05)
    assert b.serve(lambda _: None, 0.0) is None
    a.send({"n": 1})
    assert b.receive(0.05).header == {"n": 1}
    with pytest.raises(TimeoutError, match="the other end took nothing"):
        a.send({"n": 2}, {"x": LARGE}, 0.05)
    assert b.serve(lambda _: pytest.fail("it is not whole")) == "its connection was closed"
    assert a.serve(lambda _: None) == "it took no message"


def test_an_end_wakes_its_reader_which_hears_why(ends) -> None:
    a, b = ends
    found: list[str | None] = []
    reader = threading.Thread(target=lambda: found.append(a.serve(lambda _: None)))
    reader.start()
    time.sleep(0.02)
    a.end("it is enough")
    reader.join(5)
    assert found == ["it is enough"]
    assert b.receive(5) is None
    b.post({"n": 1})  # nothing, and nothing is raised
    with pytest.raises(OSError):  # noqa: PT011  a socket's own
        b.send({"n": 1})


@pytest.mark.parametrize(
    "text",
    [
        write_message({"shares": True}),
        b"GRM\2" + bytes(7) + b"\xff" * 5,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_message_is_said(text) -> None:
    raw, made = socket.socketpair()
    with contextlib.closing(raw), contextlib.closing(Connection(made)) as connection:
        raw.sendall(text)
        assert "cannot be read" in connection.serve(lambda _: None, 5.0)


def test_descriptors_that_no_message_speaks_of_are_given_back() -> None:
    raw, made = socket.socketpair()
    before = len(os.listdir("/proc/self/fd"))
    with contextlib.closing(raw), contextlib.closing(Connection(made)) as connection:
        with open(os.devnull) as file:
            socket.send_fds(raw, [write_message({"n": 1})], [file.fileno()] * 3)
        assert connection.receive(5).header == {"n": 1}
        raw.sendall(free_message(1 << 30))  # which it never lent
        with pytest.raises(TimeoutError):
            connection.receive(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_memory_that_is_no_memory_is_refused() -> None:
    raw, made = socket.socketpair()
    with contextlib.closing(raw), contextlib.closing(Connection(made)) as connection:
        with open(os.devnull) as file:
            socket.send_fds(raw, [write_message({"shares": False})], [file.fileno()])
        assert "Invalid argument" in connection.serve(lambda _: None, 5.0)


def test_arrays_in_memory_that_is_shared_and_not_lent_are_read_only(ends) -> None:
    a, b = ends
    memory = SharedMemory(1 << 20)
    a.share(memory)
    view = memory.take(80)
    x = np.frombuffer(view, np.int64)
    x[:] = 7
    a.send({"n": 1}, {"x": x})
    found = b.receive(5).tensors["x"]
    assert found.tolist() == [7] * 10
    assert not found.flags.writeable
    x[:] = 8
    assert found[0] == 8
    b.send({"tensors": [["x", "int64", [1], 0]]})  # b shares none
    with pytest.raises(DocumentError, match="of shared memory, there is none"):
        a.receive(5)
