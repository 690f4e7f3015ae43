"""A process's end of the links to others: messages over sockets, tensors in shared memory where both are on
one machine.

    endpoint = Endpoint("node0", key, deliver)     deliver(message), in the thread of the connection; what it
                                                   returns is work for that thread: another one reads on
    endpoint.send(other.address, header, tensors, end)

Both sides of a connection prove that they have the cluster's ``key`` (proofs.py). On one machine a Unix
socket without a file is used, where only processes of this user are answered, and no port is opened. Between
machines it is TCP to the node's own address, with TLS where Ray has it.

Where memory is shared, the sender copies a tensor once, into memory whose descriptor it passes over the
socket before it is first used; the receiver's arrays are that memory. When one is gone the receiver says
where it was, in 8 bytes, and the sender may write there again.
"""

from __future__ import annotations

import array
import contextlib
import os
import secrets
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import ClusterError, DocumentError, WaitTimeoutError
from ..messages import Message, MessageReader, message_parts
from ..shared_memory import AttachedMemory, SharedMemory
from .crew import Crew
from .link_sockets import (
    LinkLost,
    Tls,
    end_socket,
    listen,
    refuse_others,
    send_parts,
    tls_context,
    tune,
)
from .proofs import greet, welcome

__all__ = ["Address", "Endpoint", "LinkLost", "Tls", "machine_id"]

Address = Mapping[str, Any]
Deliver = Callable[[Message], Callable[[], None] | None]
_INLINE = 1 << 16  # bytes below which a tensor goes over the socket
_SHARED = 1 << 36  # bytes of a link's shared memory: addresses, not memory, until they are used
_HELLO_SECONDS = 10.0
_MOST_STRANGERS = 64  # connections that have not proved yet to have the key
_PAUSE = 0.05  # seconds, where no connection can be accepted
_DESCRIPTOR = socket.CMSG_SPACE(array.array("i", [0]).itemsize)


def machine_id() -> str:
    """Equal for processes that share memory and see each other's Unix sockets: one boot of one machine, one
    network and one file system of it."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "mnt")]
    return f"{boot}/{spaces[0]}/{spaces[1]}"


class Endpoint:
    """``name`` of the machine, ``key`` of the cluster. ``host``: the address at which other machines reach
    this one, None: only this machine does."""

    def __init__(
        self, name: str, key: bytes, deliver: Deliver, host: str | None = None, tls: Tls | None = None
    ):
        self.name, self._key, self._deliver, self._tls = name, key, deliver, tls
        self._lock = threading.Lock()
        self._out: dict[str, _Outgoing] = {}
        self._closed = False
        self._crew = Crew(f"gr-link-{name}")
        path = (
            f"\0graph_runtime/{secrets.token_hex(16)}"  # no file: nothing is left of a process that is killed
        )
        self._listening = [listen(socket.AF_UNIX, path)]
        address: dict[str, Any] = {"name": name, "machine": machine_id(), "path": path}
        if host is not None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listening.append(listen(family, (host, 0)))
            address |= {"host": host, "port": self._listening[1].getsockname()[1]}
        self.address: Address = address
        self._open: set[socket.socket] = set()
        self._strangers: dict[socket.socket, None] = {}  # that have not proved yet to have the key, in order
        for listening in self._listening:
            _thread(self._accept, listening, name=f"gr-accept-{name}")

    def send(
        self,
        to: Address,
        header: Mapping[str, Any],
        tensors: Mapping[str, np.ndarray] | None = None,
        end: float | None = None,
    ) -> None:
        """Send a message; it is on its way when this returns, and the arrays may change. ``end``: of the
        wait, by time.monotonic(). Raises LinkLost, which names the other end, and WaitTimeoutError."""
        end = time.monotonic() + 60.0 if end is None else end
        if to["name"] == self.name and to["path"] == self.address["path"]:
            copied = {name: np.array(value) for name, value in (tensors or {}).items()}
            self._deliver(Message(dict(header), copied))
            return
        key = f"{to['path']}:{to.get('port')}"
        with self._lock:
            if self._closed:
                raise LinkLost(f"the links of {self.name} are closed")
            link = self._out.setdefault(key, _Outgoing(self, to))
        link.send(header, tensors or {}, end)

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._closed = True
            links, self._out = list(self._out.values()), {}
            connections = [*self._listening, *self._open, *self._strangers]
        for link in links:
            link.close()
        for connection in connections:
            end_socket(connection)
        self._crew.close()

    # **************** the side that listens ****************

    def _accept(self, listening: socket.socket) -> None:
        while not self._closed:
            try:
                connection, _ = listening.accept()
            except OSError:  # it was closed, or this process has no descriptor left
                time.sleep(_PAUSE)
                continue
            self._strange(connection)
            self._crew.do(partial(self._serve, connection))

    def _strange(self, connection: socket.socket) -> None:
        """One more that has proved nothing yet. Where there are too many the first of them ends: those that
        have the key need some milliseconds."""
        with self._lock:
            self._strangers[connection] = None
            oldest = next(iter(self._strangers)) if len(self._strangers) > _MOST_STRANGERS else None
        if oldest is not None:
            self._forget(oldest)
            end_socket(oldest)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._strangers.pop(connection, None)

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection = self._let_in(connection)
        except (OSError, EOFError, ClusterError, ValueError):
            return
        with self._lock:
            self._open.add(connection)
            closed = self._closed
        if closed:
            end_socket(connection)
        self._read(_Incoming(connection))

    def _let_in(self, connection: socket.socket) -> socket.socket:
        """The connection of one that has the key; it is ended and an error raised for any other."""
        try:
            connection.settimeout(_HELLO_SECONDS)
            if connection.family == socket.AF_UNIX:
                refuse_others(connection)
            else:
                tune(connection)
                if self._tls is not None:
                    self._forget(connection)  # the socket moves into that of TLS
                    context = tls_context(self._tls, ssl.Purpose.CLIENT_AUTH)
                    connection = context.wrap_socket(
                        connection, server_side=True, do_handshake_on_connect=False
                    )
                    self._strange(connection)
                    connection.do_handshake()
            welcome(connection, self._key)
            connection.settimeout(None)
        except BaseException:
            end_socket(connection)
            raise
        finally:
            self._forget(connection)
        return connection

    def _read(self, incoming: _Incoming) -> None:
        """Read a connection until it ends, or until a message is work for this thread: no other thread has to
        wake up for it, and one that reads on does so meanwhile."""
        work: list[Callable[[], None]] = []
        with contextlib.suppress(OSError, ClusterError, DocumentError, KeyError, TypeError, ValueError):
            work = incoming.read(self._deliver)
        if work:
            self._crew.do(partial(self._read, incoming))
            for other in work[1:]:
                self._crew.do(other)
            work[0]()
            return
        with self._lock:  # the other side is gone, or is none of ours
            self._open.discard(incoming.socket)
        incoming.close()


class _Incoming:
    """The messages of one connection."""

    def __init__(self, connection: socket.socket):
        self.socket, self._files = connection, list[int]()
        self._sending = threading.RLock()  # the garbage collector may come in between
        self._reader = MessageReader()

    def read(self, deliver: Deliver) -> list[Callable[[], None]]:
        """Deliver what comes, until there is work to do; none where the other side is gone. Raises as
        MessageReader, and OSError."""
        work: list[Callable[[], None]] = []
        while not work and (count := self._receive(self._reader.buffer())):
            for message in self._reader.filled(count):
                if "shares" not in message.header:
                    if (found := deliver(message)) is not None:
                        work.append(found)
                    del found
                elif not self._files:
                    raise DocumentError("a message says that memory is passed, and none is")
                else:
                    self._reader.memory = AttachedMemory.by_file(self._files.pop(0), self._free)
                del message  # while the next one is waited for, its memory may be free
        return work

    def close(self) -> None:
        """End it, and give back descriptors that no message spoke of."""
        end_socket(self.socket)
        while self._files:
            os.close(self._files.pop())

    def _receive(self, into: memoryview) -> int:
        """Bytes that came; descriptors come with them."""
        if self.socket.family != socket.AF_UNIX:
            return self.socket.recv_into(into)
        count, passed, _, _ = self.socket.recvmsg_into([into], _DESCRIPTOR)
        for level, kind, data in passed:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._files += array.array("i", data[: len(data) // 4 * 4])
        return count

    def _free(self, offset: int) -> None:
        with contextlib.suppress(OSError), self._sending:
            self.socket.sendall(offset.to_bytes(8, "little"))


# **************** the side that sends ****************


class _Outgoing:
    """The connection to one other end; made when it is first used, and again after it broke."""

    def __init__(self, endpoint: Endpoint, to: Address):
        self._endpoint, self._to = endpoint, to
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._shares = self._closed = False
        self._memory: SharedMemory | None = None
        self._held: dict[int, memoryview] = {}  # regions that the other side reads, by their offsets

    def send(self, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray], end: float) -> None:
        if not self._lock.acquire(timeout=max(0.0, end - time.monotonic())):
            raise WaitTimeoutError(f"the link to {self._to['name']} was busy until the deadline")
        try:
            for last in (False, True):
                fresh = self._socket is None
                try:
                    self._send(header, tensors, end)
                    return
                except TimeoutError as error:
                    self._break()
                    raise WaitTimeoutError(
                        f"{self._to['name']} took no message before the deadline"
                    ) from error
                except (OSError, EOFError, ClusterError) as error:
                    self._break()
                    if fresh or last:  # one that was idle may have ended long ago
                        text = f"the link to {self._to['name']}: {str(error) or 'it was refused there'}"
                        raise LinkLost(text, got=self._to["name"]) from error
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._break()

    def _send(self, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray], end: float) -> None:
        if self._closed:
            raise LinkLost(f"the links of {self._endpoint.name} are closed")
        if self._socket is None:
            self._socket = self._connect(end)
        connection = self._socket
        connection.settimeout(max(0.001, end - time.monotonic()))
        if self._shares:
            tensors = {name: self._moved(connection, value) for name, value in tensors.items()}
        send_parts(connection, message_parts(header, tensors, self._memory))

    def _moved(self, connection: socket.socket, value: np.ndarray) -> np.ndarray:
        """A copy of a large tensor in the memory that the other side maps; the tensor itself where there is
        no room, or it is small."""
        if value.nbytes < _INLINE or not value.dtype.isnative:
            return value
        if self._memory is None:
            self._memory = SharedMemory.where_possible(_SHARED)
            if self._memory is None:
                self._shares = False
                return value
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._memory.file]))]
            text = b"".join(message_parts({"shares": True}))
            connection.sendall(text[connection.sendmsg([text], passed) :])
        view = self._memory.take(value.nbytes)
        if view is None:
            return value
        moved = np.frombuffer(view, value.dtype).reshape(value.shape)
        np.copyto(moved, value)
        offset = self._memory.offset_of(moved)
        assert offset is not None, "it lies in that memory"
        self._held[offset] = view
        return moved

    def _connect(self, end: float) -> socket.socket:
        to, near = self._to, self._to["machine"] == self._endpoint.address["machine"]
        if not near and "host" not in to:
            raise LinkLost(f"{to['name']} is on another machine and has no address there", got=to["name"])
        family = socket.AF_UNIX if near else socket.AF_INET6 if ":" in to["host"] else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(max(0.001, min(_HELLO_SECONDS, end - time.monotonic())))
            connection.connect(to["path"] if near else (to["host"], to["port"]))
            if not near:
                tune(connection)
                if self._endpoint._tls is not None:
                    context = tls_context(self._endpoint._tls, ssl.Purpose.SERVER_AUTH)
                    connection = context.wrap_socket(connection, server_hostname=to["host"])
            greet(connection, self._endpoint._key)
        except BaseException:
            connection.close()
            raise
        self._shares, self._held = near, {}
        if near:
            _thread(_take_back, connection, self._held, name="gr-memory")
        return connection

    def _break(self) -> None:
        if self._socket is not None:
            end_socket(self._socket)
        self._held.clear()
        self._socket = self._memory = None


def _take_back(connection: socket.socket, held: dict[int, memoryview]) -> None:
    """Let go of regions that the other side needs no more: it sends their offsets, 8 bytes each."""
    came, waiting = b"", select.poll()
    waiting.register(connection, select.POLLIN)  # timeouts of the socket are for those that send
    with contextlib.suppress(OSError, ValueError):
        while True:
            waiting.poll()
            data = connection.recv(1 << 12, socket.MSG_DONTWAIT)
            if not data:
                return
            came += data
            while len(came) >= 8:
                offset, came = int.from_bytes(came[:8], "little"), came[8:]
                held.pop(offset, None)


def _thread(call: Callable[..., None], *args: Any, name: str) -> None:
    threading.Thread(target=call, args=args, name=name, daemon=True).start()
