"""A process's end of its links to other processes. Each direction of a link is a connection of its own.

    endpoint = Endpoint("node0", key, deliver)     deliver(message), in the connection's thread; may return
                                                   work for that thread, while another one reads on
    endpoint.send(other.address, header, tensors, end)

On one machine a large tensor is copied only once, by the sender, into memory that the receiver maps, too. The
receiver's array is in that memory; once the array is released, the sender may reuse its place.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from ...base.errors import ClusterError, DocumentError, WaitTimeoutError
from . import limits
from .connections import Connection, connect
from .listening import Listener
from .messages import Header, Message, Tensors
from .sockets import Address, LinkLost, Tls

Deliver = Callable[[Message], Callable[[], None] | None]


class Endpoint:
    """An end of links. ``deliver``: function that is called with each message. ``name``, ``key``, ``host``
    and ``tls``: arguments of Listener."""

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
        self, to: Address, header: Header, tensors: Tensors | None = None, end: float | None = None
    ) -> None:
        """Send a message. When it returns, the message is on its way, and the arrays may be changed. ``end``:
        end of the wait, by time.monotonic(). Raises LinkLost, which names the other end, and
        WaitTimeoutError."""
        end = time.monotonic() + limits.SEND if end is None else end
        if to["name"] == self.name and to["path"] == self.address["path"]:
            copied = {name: np.array(value) for name, value in (tensors or {}).items()}
            if (work := self._deliver(Message(dict(header), copied))) is not None:
                self._listener.crew.do(work)
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
        """Read a connection until it ends, or until a message gives this thread work. In that case another
        thread reads on: this thread does the work at once, without waking up another."""
        work: Callable[[], None] | None = None
        with contextlib.suppress(OSError, ClusterError, DocumentError, KeyError, TypeError, ValueError):
            while work is None and (message := connection.receive()) is not None:
                work = self._deliver(message)
                del message  # frees the message's memory while the next message is awaited
        if work is None:  # the other side is gone, or is not a process of ours
            connection.close()
            return
        self._listener.crew.do(partial(self._read, connection))
        del connection
        work()


class _Outgoing:
    """The connection for messages to one other end. It is made when first used, and made again after it
    broke."""

    def __init__(self, name: str, to: Address, key: bytes, tls: Tls | None):
        self._name, self._to, self._key, self._tls = name, to, key, tls
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def send(self, header: Header, tensors: Tensors, end: float) -> None:
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
                    text = f"{self._to['name']} accepted no message before the deadline"
                    raise WaitTimeoutError(text) from error
                except (OSError, EOFError, ClusterError) as error:
                    self._break()
                    if fresh or last:  # an old connection may have ended long ago
                        text = f"the link to {self._to['name']}: {str(error) or 'it was refused there'}"
                        raise LinkLost(text, got=self._to["name"]) from error
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._break()

    def _send(self, header: Header, tensors: Tensors, end: float) -> None:
        if self._closed:
            raise LinkLost(f"the links of {self._name} are closed")
        if self._connection is None:
            self._connection = connect(self._to, self._key, self._tls, end - time.monotonic(), lends=True)
            if self._connection.near:  # messages of the other end report released arrays
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
