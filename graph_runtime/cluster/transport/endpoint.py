"""A process's end of the links to others, each of which sends by a connection of its own.

    endpoint = Endpoint("node0", key, deliver)     deliver(message), in the thread of the connection; what it
                                                   returns is work for that thread: another one reads on
    endpoint.send(other.address, header, tensors, end)

On one machine the sender copies a large tensor once, into memory that the receiver maps, too; the receiver's
arrays are that memory, and where one is gone the sender may write there again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...base.errors import ClusterError, DocumentError, WaitTimeoutError
from . import limits
from .connections import Connection, connect
from .listening import Listener
from .messages import Message
from .sockets import Address, LinkLost, Tls

Deliver = Callable[[Message], Callable[[], None] | None]


class Endpoint:
    """``name``, ``key``, ``host`` and ``tls`` as Listener's."""

    def __init__(
        self, name: str, key: bytes, deliver: Deliver, host: str | None = None, tls: Tls | None = None
    ):
        self.name, self._key, self._deliver, self._tls = name, key, deliver, tls
        self._lock = threading.Lock()
        self._out: dict[str, _Outgoing] = {}
        self._closed = False
        self._listener = Listener(name, key, self._read, host, tls)
        self.address: Address = self._listener.door.address

    def send(
        self,
        to: Address,
        header: Mapping[str, Any],
        tensors: Mapping[str, np.ndarray] | None = None,
        end: float | None = None,
    ) -> None:
        """Send a message; it is on its way when this returns, and the arrays may change. ``end``: of the
        wait, by time.monotonic(). Raises LinkLost, which names the other end, and WaitTimeoutError."""
        end = time.monotonic() + limits.SEND if end is None else end
        if to["name"] == self.name and to["path"] == self.address["path"]:
            copied = {name: np.array(value) for name, value in (tensors or {}).items()}
            self._deliver(Message(dict(header), copied))
            return
        key = f"{to['path']}:{to.get('port')}"
        with self._lock:
            if self._closed:
                raise LinkLost(f"the links of {self.name} are closed")
            link = self._out.setdefault(key, _Outgoing(self.name, to, self._key, self._tls))
        link.send(header, tensors or {}, end)

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._closed = True
            links, self._out = list(self._out.values()), {}
        for link in links:
            link.close()
        self._listener.close()

    def _read(self, connection: Connection) -> None:
        """Read a connection until it ends, or until a message is work for this thread: no other thread has to
        wake up for it, and one that reads on does so meanwhile."""
        work: Callable[[], None] | None = None
        with contextlib.suppress(OSError, ClusterError, DocumentError, KeyError, TypeError, ValueError):
            while work is None and (message := connection.receive()) is not None:
                work = self._deliver(message)
                del message  # while the next one is waited for, its memory may be free
        if work is None:  # the other side is gone, or is none of ours
            connection.close()
            return
        self._listener.crew.do(partial(self._read, connection))
        del connection
        work()


class _Outgoing:
    """The connection to one other end; made when it is first used, and again after it broke."""

    def __init__(self, name: str, to: Address, key: bytes, tls: Tls | None):
        self._name, self._to, self._key, self._tls = name, to, key, tls
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def send(self, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray], end: float) -> None:
        if not self._lock.acquire(timeout=max(0.0, end - time.monotonic())):
            raise WaitTimeoutError(f"the link to {self._to['name']} was busy until the deadline")
        try:
            for last in (False, True):
                fresh = self._connection is None
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
            raise LinkLost(f"the links of {self._name} are closed")
        if self._connection is None:
            self._connection = connect(self._to, self._key, self._tls, end - time.monotonic(), lends=True)
            if self._connection.near:  # which hears what is no longer lent
                made = (self._connection,)
                threading.Thread(target=_take_back, args=made, name="gr-memory", daemon=True).start()
        self._connection.send(header, tensors, max(0.001, end - time.monotonic()))

    def _break(self) -> None:
        if self._connection is not None:
            (self._connection.end if self._connection.near else self._connection.close)()
        self._connection = None


def _take_back(connection: Connection) -> None:
    connection.serve(lambda _: None)
    connection.close()
