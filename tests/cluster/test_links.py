"""Links between machines: sockets and shared memory, what is let in, and where messages wait."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import queue
import shutil
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graph_runtime.base.errors import RunCancelledError, WaitTimeoutError
from graph_runtime.cluster.graphs.mailbox import Key, Mailbox
from graph_runtime.cluster.transport import limits, shared_memory
from graph_runtime.cluster.transport.endpoint import Endpoint
from graph_runtime.cluster.transport.messages import Message
from graph_runtime.cluster.transport.shared_memory import SharedMemory
from graph_runtime.cluster.transport.sockets import LinkLost, Tls

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from certificates import make_certificates

KEY = bytes(range(32))
# **************** the mailbox ****************


def test_a_wait_ends_at_its_deadline_or_when_the_run_is_called_off() -> None:
    box, key = Mailbox(), Key("m", 3, 0, "node0", 0)
    with pytest.raises(WaitTimeoutError, match="message of node0 for run 3"):
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

    def __init__(self, far: bool, key: bytes = KEY, tls: Tls | None = None, other_tls: Tls | None = None):
        self.came: queue.Queue[Message] = queue.Queue()
        host = "127.0.0.1" if far else None
        self.a = Endpoint("a", key, lambda message: None, host, other_tls)
        self.b = Endpoint("b", KEY, self.came.put, host, tls)
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


def link_of(pair: Pair) -> Any:
    return next(iter(pair.a._out.values()))


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_arrived_does_not_change_while_it_is_held() -> None:
    pair = Pair(far=False)
    held = [pair.send({"x": np.full(1 << 16, i, np.float32), "few": np.ones(3)}) for i in range(4)]
    assert [float(message.tensors["x"][5]) for message in held] == [0, 1, 2, 3]
    link = link_of(pair)
    assert link._connection.memory.taken == 4 << 18  # small ones go over the socket
    kept = held[1].tensors["x"][7:9]
    held.clear()
    gc.collect()
    wait_until(lambda: link._connection.memory.taken == 1 << 18)  # the word has come back
    for i in range(20):  # memory is used again
        assert pair.send({"x": np.full(1 << 16, i, np.float32)}).tensors["x"][0] == i
    assert kept.tolist() == [1, 1]
    del kept
    wait_until(lambda: link._connection.memory.taken == 0)
    pair.a.close()
    pair.b.close()


def test_memory_that_is_free_again_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "_WARM", 1 << 19)
    memory = SharedMemory(1 << 30)

    def used() -> int:
        return os.stat(memory.file).st_blocks * 512

    views = [memory.take(1 << 18) for _ in range(8)]
    for view in views:
        view[:] = bytes(1 << 18)
    before = used()
    assert before >= 2 << 20
    del view
    views.clear()
    assert memory.taken == 0
    assert used() <= before - (3 << 19)
    assert memory.take(1 << 20) is not None


def test_a_tensor_goes_over_the_socket_where_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SHARED", 3 << 17)
    pair = Pair(far=False)
    held = [pair.send({"x": np.full(1 << 16, i, np.float32)}) for i in range(3)]
    assert link_of(pair)._connection.memory.taken == 1 << 18
    assert [float(message.tensors["x"][-1]) for message in held] == [0, 1, 2]
    monkeypatch.setattr(SharedMemory, "where_possible", lambda size: None)
    pair.a.close()
    again = Pair(far=False)
    assert again.send({"x": np.full(1 << 16, 5, np.float32)}).tensors["x"][0] == 5
    assert link_of(again)._connection.memory is None
    for one in (pair, again):
        one.a.close()
        one.b.close()


@pytest.mark.parametrize("far", [False, True])
def test_who_has_another_key_is_sent_away(far: bool) -> None:
    pair = Pair(far, key=os.urandom(32))
    with pytest.raises(LinkLost, match="link to b"):
        pair.send({})
    assert pair.came.empty()
    pair.a.close()
    pair.b.close()


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tls, Tls]:
    """Certificates of two clusters, each with an authority of its own."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    first, second = (make_certificates(tmp_path_factory.mktemp("tls")) for _ in range(2))
    return first, second


def test_machines_talk_by_tls(clusters: tuple[Tls, Tls]) -> None:
    own, _ = clusters
    pair = Pair(far=True, tls=own, other_tls=own)
    for size in (0, 3, 1 << 18):
        x = np.arange(size, dtype=np.float64)
        np.testing.assert_array_equal(pair.send({"x": x, "y": x[::2]}).tensors["x"], x)
    assert isinstance(link_of(pair)._connection._socket, ssl.SSLSocket)
    with socket.create_connection(("127.0.0.1", pair.b.address["port"]), 5) as stranger:
        stranger.sendall(b"GRM\2" + bytes(60))  # plain text
    assert pair.send({"n": np.ones(2)}).tensors["n"].sum() == 2
    pair.a.close()
    pair.b.close()


@pytest.mark.parametrize(
    ("listens", "connects", "key"),  # (whose certificate, which authority is believed)
    [
        ((0, 0), None, KEY),
        (None, (0, 0), KEY),
        ((0, 0), (1, 1), KEY),
        ((0, 0), (1, 0), KEY),
        ((1, 0), (0, 0), KEY),
        ((0, 0), (0, 0), bytes(32)),
    ],
    ids=[
        "plain text",
        "to plain text",
        "another cluster",
        "its certificate is foreign",
        "the other is",
        "key",
    ],
)
def test_tls_lets_nobody_else_in(
    clusters: tuple[Tls, Tls], listens: tuple[int, int] | None, connects: tuple[int, int] | None, key: bytes
) -> None:
    def files(which: tuple[int, int] | None) -> Tls | None:
        return None if which is None else (*clusters[which[0]][:2], clusters[which[1]][2])

    pair = Pair(far=True, key=key, tls=files(listens), other_tls=files(connects))
    with pytest.raises((LinkLost, WaitTimeoutError), match=r"link to b|b accepted no message"):
        pair.send({}, 1.0)  # plain text waits for an answer that TLS has none for
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


def test_strangers_that_say_nothing_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELLO", 60.0)  # threads of those that were ended do not wait for it
    pair = Pair(far=True)
    with contextlib.ExitStack() as stack:
        where = ("127.0.0.1", pair.b.address["port"])
        silent = [stack.enter_context(socket.create_connection(where, 5)) for _ in range(200)]
        assert pair.send({"x": np.ones(3)}).tensors["x"].sum() == 3
        wait_until(lambda: len(pair.b._listener._strangers) <= limits.STRANGERS)
        wait_until(lambda: threading.active_count() < limits.STRANGERS + 36)
        silent[0].settimeout(5)
        assert silent[0].recv(100)[32:] == b""  # what it is asked for; it was ended then
        assert silent[0].recv(100) == b""
    pair.a.close()
    pair.b.close()


def test_a_listener_goes_on_where_descriptors_were_short(monkeypatch: pytest.MonkeyPatch) -> None:
    real, short = socket.socket.accept, list[int]()

    def accept(listening: socket.socket) -> Any:
        if len(short) < 3:
            short.append(1)
            raise OSError(errno.EMFILE, "Too many open files")
        return real(listening)

    monkeypatch.setattr(socket.socket, "accept", accept)
    pair = Pair(far=False)
    assert pair.send({"x": np.ones(3)}).tensors["x"].sum() == 3
    assert len(short) == 3
    pair.a.close()
    pair.b.close()


def test_another_users_process_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(far=False)
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *words: struct.pack("3i", 77, 4242, 4242))
    with pytest.raises(LinkLost, match="link to b"):
        pair.send({})
    assert pair.came.empty()
    pair.a.close()
    pair.b.close()


def test_work_does_not_hold_up_what_comes_after_it() -> None:
    """Each message is work that lasts until the last one came: all by one connection."""
    count, last, done = 30, threading.Event(), threading.Semaphore(0)

    def deliver(message: Message) -> Callable[[], None]:
        if message.header["n"] == count - 1:
            last.set()
        return lambda: (last.wait(10) and done.release()) or None

    a, b = Endpoint("a", KEY, lambda message: None), Endpoint("b", KEY, deliver)
    for i in range(count):
        a.send(b.address, {"n": i}, {"x": np.full(1 << 15, i, np.float32)})
    for _ in range(count):
        assert done.acquire(timeout=10)
    a.close()
    b.close()


def test_what_work_has_read_is_free_when_it_is_over() -> None:
    done = threading.Semaphore(0)

    def deliver(message: Message) -> Callable[[], None]:
        return lambda: done.release() if message.tensors["x"][0] == 1 else None

    a, b = Endpoint("a", KEY, lambda message: None), Endpoint("b", KEY, deliver)
    for _ in range(3):
        a.send(b.address, {}, {"x": np.ones(1 << 16, np.float32)})
        assert done.acquire(timeout=10)
    link: Any = next(iter(a._out.values()))
    wait_until(lambda: link._connection.memory.taken == 0)
    a.close()
    b.close()


def test_a_link_that_broke_is_made_again() -> None:
    pair = Pair(far=False)
    pair.send({})
    for connection in list(pair.b._listener._open):
        connection.end()
    time.sleep(0.05)
    assert pair.send({"x": np.ones(1 << 15)}).tensors["x"].sum() == 1 << 15
    pair.b.close()
    time.sleep(0.05)
    with pytest.raises(LinkLost, match="link to b"):
        pair.a.send(pair.to, {}, {}, time.monotonic() + 5)
    pair.a.close()
