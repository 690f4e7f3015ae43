"""Where a process listens for others: a Unix socket without a file, and for other machines TCP to its own
address, with TLS where Ray has it. No port is opened where only this machine is meant.

Only processes of this user are answered on one machine, and everywhere both sides prove that they have the
key (proofs.py) before a message is read.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakSet

from ...base.errors import ClusterError
from . import limits
from .connections import Connection
from .crew import Crew
from .proofs import welcome
from .sockets import Address, Tls, end_socket, listen, refuse_others, shut, tls_context, tune


@dataclass(frozen=True, slots=True)
class Door:
    """What a process needs to connect to a listener; it goes there by Ray, behind its token."""

    address: Address
    key: bytes = field(repr=False)


class Listener:
    """``serve(connection)`` is called in a thread of the connection's own, which closes it. ``name`` of the
    process, ``key`` that others prove to have. ``host``: the address at which other machines reach this one,
    None: only this machine does. ``crew``: its threads."""

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
        self._strangers: dict[socket.socket, None] = {}  # that have not proved yet to have the key, in order
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
            except OSError:  # it was closed, or this process has no descriptor left
                time.sleep(limits.PAUSE)
                continue
            self._strange(connection)
            self.crew.do(partial(self._let_in, connection))
        listening.close()

    def _strange(self, connection: socket.socket) -> None:
        """One more that has proved nothing yet. Where there are too many the first of them ends: those that
        have the key need some milliseconds."""
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
        """The connection of one that has the key; it is ended and an error raised for any other."""
        try:
            connection.settimeout(limits.HELLO)
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
            welcome(connection, self.door.key)
        except BaseException:
            end_socket(connection)
            raise
        finally:
            self._forget(connection)
        return connection
