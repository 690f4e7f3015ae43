"""One end of a connection that carries messages, in asyncio's terms."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from ..base.errors import ClusterError, DocumentError
from .messages import Message, MessageReader, message_parts
from .shared_memory import AttachedMemory, SharedMemory

__all__ = ["Channel"]

OnMessage = Callable[["Channel", Message], None]
OnEnd = Callable[["Channel", str], None]
OnBegin = Callable[["Channel"], None]


class Channel(asyncio.BufferedProtocol):
    """``on_message(channel, message)`` is called for each message; ``on_begin(channel)`` once, before the
    first, and ``on_end(channel, cause)`` after the last. A message that cannot be read ends it."""

    def __init__(self, on_message: OnMessage, on_end: OnEnd, on_begin: OnBegin = lambda _: None):
        self._on_message, self._on_end, self._on_begin = on_message, on_end, on_begin
        self._reader = MessageReader()
        self._transport: asyncio.Transport | None = None
        self._cause = "its connection was closed"

    @property
    def local(self) -> bool:
        """Whether the other end is on this machine: it came by a Unix socket."""
        found = None if self._transport is None else self._transport.get_extra_info("socket")
        return found is not None and bool(found.family == socket.AF_UNIX)

    def attach(self, memory: AttachedMemory) -> None:
        """Read tensors of messages from memory that the other end shares."""
        self._reader.memory = memory

    def send(
        self,
        header: Mapping[str, Any],
        tensors: Mapping[str, np.ndarray] | None = None,
        memory: SharedMemory | None = None,
    ) -> None:
        """Send a message; tensors that lie in ``memory`` are read there. Nothing where the channel has ended,
        which ``on_end`` tells."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(message_parts(header, tensors, memory))

    def abort(self, cause: str) -> None:
        """End it at once."""
        self._cause = cause
        if self._transport is not None:
            self._transport.abort()

    # **************** asyncio's calls ****************

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses
        if (found := transport.get_extra_info("socket")) is not None and not self.local:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._on_begin(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for message in self._reader.filled(nbytes):
                self._on_message(self, message)
        except (ClusterError, DocumentError, KeyError, TypeError, ValueError, IndexError) as error:
            self.abort(f"it sent a message that cannot be read: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._on_end(self, self._cause if error is None else f"{self._cause}: {error}")
