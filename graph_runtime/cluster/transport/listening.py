"""The listening side of a process: a Unix socket without a file and, for other machines, TCP at this
machine's address, with TLS if Ray uses TLS. If only this machine connects, no port is opened.

On one machine only processes of this user are answered. Before any message is read, both sides prove that
they have the key (sockets.py).
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from weakref import WeakSet

from ...base.errors import ClusterError
from . import limits
from .connections import Connection
from .sockets import Address, Tls, end_socket, listen, refuse_others, shut, tls_context, tune, welcome

_IDLE = 8  # most idle threads that are kept for later calls


@dataclass(frozen=True, slots=True)
class Door:
    """The address and key that a process needs to connect to a listener. Ray sends it, protected by Ray's
    token."""

    address: Address
    key: bytes = field(repr=False)


class Listener:
    """A listener. ``serve(connection)`` is called in a thread of its own for each connection, and closes the
    connection. ``name``: name of this process; ``key``: secret that others must prove to have. ``host``: this
    machine's address for other machines; None if only processes of this machine connect. ``crew``: threads
    that run the calls."""

    def __init__(
        self,
        name: str,
        key: bytes,
        serve: Callable[[Connection], None],
        host: str | None = None,
        tls: Tls | None = None,
    ):
        self._serve, self._tls = serve, tls
        self._lock = threading.Lock()
        self._closed = False
        self.crew = Crew(f"gr-link-{name}")
        self._listening, address = listen(name, host)
        self.door = Door(address, key)
        self._open: WeakSet[Connection] = WeakSet()
        self._strangers: dict[socket.socket, None] = {}  # sockets that have not proved the key yet
        for listening in self._listening:
            threading.Thread(
                target=self._accept, args=(listening,), name=f"gr-accept-{name}", daemon=True
            ).start()

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._closed = True
            sockets, connections = [*self._listening, *self._strangers], list(self._open)
        for one in sockets:
            shut(one)
        for connection in connections:
            connection.end("its other end was closed")
        self.crew.close()

    def _accept(self, listening: socket.socket) -> None:
        while not self._closed:
            try:
                connection, _ = listening.accept()
            except OSError:  # the socket was closed, or no file descriptor is left
                time.sleep(limits.PAUSE)
                continue
            self._strange(connection)
            self.crew.do(partial(self._let_in, connection))
        listening.close()

    def _strange(self, connection: socket.socket) -> None:
        """Add a connection without a proof of the key. If there are too many, the oldest is ended: a side
        that has the key needs only some milliseconds for its proof."""
        with self._lock:
            self._strangers[connection] = None
            oldest = next(iter(self._strangers)) if len(self._strangers) > limits.STRANGERS else None
        if oldest is not None:
            self._forget(oldest)
            shut(oldest)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._strangers.pop(connection, None)

    def _let_in(self, stranger: socket.socket) -> None:
        try:
            connection = Connection(self._proved(stranger))
        except (OSError, EOFError, ClusterError, ValueError):
            return
        with self._lock:
            self._open.add(connection)
            closed = self._closed
        if closed:
            connection.end()
        self._serve(connection)

    def _proved(self, connection: socket.socket) -> socket.socket:
        """The connection, after the proof of the key. Without a proof, the connection is closed and an error
        raised."""
        try:
            connection.settimeout(limits.HELLO)
            if connection.family == socket.AF_UNIX:
                refuse_others(connection)
            else:
                tune(connection)
                if self._tls is not None:
                    self._forget(connection)  # the TLS socket takes over this socket
                    context = tls_context(self._tls, ssl.Purpose.CLIENT_AUTH)
                    connection = context.wrap_socket(
                        connection, server_side=True, do_handshake_on_connect=False
                    )
                    self._strange(connection)
                    connection.do_handshake()
            welcome(connection, self.door.key)
        except BaseException:
            end_socket(connection)
            raise
        finally:
            self._forget(connection)
        return connection


class Crew:
    """Threads that begin calls at once: one for each call in progress, and a few idle threads. In a pool of
    fixed size, calls that wait for messages could occupy all threads, and the messages would not be read.
    ``name``: name of the threads."""

    def __init__(self, name: str):
        self._name, self._lock = name, threading.Lock()
        self._given: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle, self._closed = 0, False

    def do(self, call: Callable[[], None]) -> None:
        """Run a call, which raises nothing, in a thread that does nothing else meanwhile."""
        with self._lock:
            fresh = not self._idle
            self._idle -= not fresh
        if fresh:
            threading.Thread(target=self._work, args=([call],), name=self._name, daemon=True).start()
        else:
            self._given.put(call)

    def close(self) -> None:
        """End idle threads now, and other threads after their calls."""
        with self._lock:
            self._closed = True
            waiting, self._idle = self._idle, 0
        for _ in range(waiting):
            self._given.put(None)

    def _work(self, calls: list[Callable[[], None]]) -> None:
        while True:
            calls.pop()()  # keeps no reference to the call, as it may hold shared memory
            with self._lock:
                if self._closed or self._idle >= _IDLE:
                    return
                self._idle += 1
            if (call := self._given.get()) is None:
                return
            calls.append(call)
            del call
