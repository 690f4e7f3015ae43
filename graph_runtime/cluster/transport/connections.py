"""One end of a connection that carries messages in both directions. Any thread sends; one thread, or an event
loop, reads.

    connection = connect(address, key, tls)         connected, and both sides have proved to have the key
    connection.send(header, tensors)                waits; connection.post(...) never does
    while (message := connection.receive()) is not None: ...
    connection.close()                              by the reading thread; others call end()

On one machine an end may share memory, by passing the memory's descriptor; its messages then refer to arrays
in that memory. An end that shares memory copies large arrays into it, and reuses the place of an array once
the other end has released the array.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...base.errors import ClusterError, DocumentError
from . import limits
from .messages import Header, Message, MessageReader, Part, Tensors, free_message, message_parts
from .shared_memory import AttachedMemory, SharedMemory
from .sockets import Address, Tls, end_socket, greet, open_socket, shut

_DESCRIPTOR = socket.CMSG_SPACE(array.array("i", [0]).itemsize)


class Connection:
    """One end of a connection. ``near``: whether the other end is on this machine. ``memory``: memory that
    this end shares with the other end."""

    def __init__(self, made: socket.socket, lends: bool = False):
        self.near = made.family == socket.AF_UNIX
        self.memory: SharedMemory | None = None
        self._lends = self.near and lends
        self._lent: dict[int, memoryview] = {}  # offset -> region of the memory that the other end still uses
        self._cause = ""  # why this end ended the connection
        self._socket, self._reader = made, MessageReader()
        self._order = threading.Lock()  # lock that keeps the bytes of messages from mixing
        # TLS cannot read and write at the same time, so a reader waits in poll and holds the lock only to
        # read. Without TLS, the read itself waits, and the garbage collector may run in between
        self._tls = isinstance(made, ssl.SSLSocket)
        self._turn: Any = threading.Lock() if self._tls else contextlib.nullcontext()
        made.setblocking(not self._tls)
        self._at_once = () if self._tls else (socket.MSG_DONTWAIT,)
        self._patience: float | None = None  # seconds that a read waits
        self._emptied = False  # whether all bytes received so far were read
        self._posted: deque[Sequence[Part]] = deque()  # messages that wait for the sending thread
        self._posting = threading.Lock()
        self._there: Iterator[Message] = iter(())  # received messages that were not taken yet
        self._files: list[int] = []  # file descriptors that no message has announced yet
        self._gone: deque[int] = deque()  # released arrays of the other end's memory, to be reported

    # **************** sending ****************

    def send(self, header: Header, tensors: Tensors | None = None, seconds: float = limits.SEND) -> None:
        """Send a message. When it returns, arrays outside shared memory may be changed. Raises OSError,
        including TimeoutError."""
        if tensors and self._lends:
            tensors = {name: self._lend(value) for name, value in tensors.items()}
        parts = message_parts(header, tensors, self.memory)
        with self._order:
            if self._send_some(parts, seconds):
                self.end("it took no message")
                raise TimeoutError(f"the other end took nothing for {seconds:.0f} s")
        if self._gone:
            self._tell_gone()

    def post(self, header: Header, tensors: Tensors | None = None) -> None:
        """Send a message without waiting, for event loops; what cannot be sent at once is sent by a thread.
        Does nothing if the connection has ended, which the reader notices. Not to be mixed with ``send``."""
        parts: Sequence[Part] = message_parts(header, tensors, self.memory)
        with self._posting, contextlib.suppress(OSError):
            if not self._posted and not (parts := self._send_some(parts, 0.0)):
                return
            self._posted.append(parts)
            if len(self._posted) == 1:
                threading.Thread(target=self._send_posted, name="gr-posted", daemon=True).start()

    def share(self, memory: SharedMemory) -> None:
        """Pass memory to the other end, which maps it. Raises OSError."""
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory.file]))]
        text = b"".join(message_parts({"shares": self._lends}))
        with self._order:
            self._send_some([text[self._socket.sendmsg([text], passed) :]], limits.SEND)
        self.memory = memory

    def _lend(self, value: np.ndarray) -> np.ndarray:
        """A copy of the array in memory that the other end maps; the array itself if it is small, or if that
        memory has no room."""
        if value.nbytes < limits.INLINE or not value.dtype.isnative:
            return value
        if self.memory is None:
            made = SharedMemory.where_possible(limits.SHARED)
            if made is None:
                self._lends = False
                return value
            self.share(made)
        assert self.memory is not None, "share() has set it"
        view = self.memory.take(value.nbytes)
        if view is None:
            return value
        moved = np.frombuffer(view, value.dtype).reshape(value.shape)
        np.copyto(moved, value)
        offset = self.memory.offset_of(moved)
        assert offset is not None, "it was taken from that memory"
        self._lent[offset] = view
        return moved

    def _send_posted(self) -> None:
        with contextlib.suppress(OSError):
            while not self._send_some(self._posted[0], limits.SEND):
                with self._posting:
                    self._posted.popleft()
                    if not self._posted:
                        return
        self.end("it took no message")

    def _send_some(self, parts: Sequence[Part], seconds: float) -> list[Part]:
        """Send ``parts``, each chunk within ``seconds``. Return the parts that were not sent."""
        if sum(map(len, parts)) <= limits.INLINE:
            parts = [text := b"".join(parts)]
            if not self._tls:  # tried first, because most messages can be sent at once
                with contextlib.suppress(BlockingIOError):
                    text = text[self._socket.send(text, socket.MSG_DONTWAIT) :]
                parts = [text] if text else []
        for at, part in enumerate(parts):
            view = memoryview(part)
            while len(view):
                chunk, end = view[: limits.CHUNK], time.monotonic() + seconds
                view = view[limits.CHUNK :]
                while len(chunk):
                    sent = self._when_ready(select.POLLOUT, end, self._socket.send, chunk, *self._at_once)
                    if sent is None:
                        return [chunk, view, *parts[at + 1 :]]
                    chunk = chunk[sent:]
        return []

    # **************** receiving ****************

    def receive(self, seconds: float | None = None) -> Message | None:
        """The next message; None if the other end is gone. Raises DocumentError for an invalid message,
        ClusterError if there is no memory for it, OSError, and TimeoutError if nothing comes."""
        while True:
            message = next(self._there, None)
            if message is not None:
                if "shares" in message.header:
                    self._attach(bool(message.header["shares"]))
                elif "free" in message.header:
                    self._lent.pop(message.header["free"], None)
                else:
                    return message
                continue
            emptied, self._emptied = self._emptied, False
            count = None if emptied and seconds == 0 else self._received(seconds)
            if count is None:
                raise TimeoutError(f"the other end sent nothing for {seconds:.0f} s")
            if not count:
                return None
            self._there = self._reader.filled(count)

    def serve(self, heard: Callable[[Message], None], seconds: float | None = None) -> str | None:
        """Pass all messages to ``heard`` until the connection ends, and return the reason why it ended. With
        ``seconds`` 0, for an event loop, return None as soon as no more has arrived."""
        try:
            while (message := self.receive(seconds)) is not None:
                heard(message)
                del message  # frees the message's memory while the next message is awaited
            cause = "its connection was closed"
        except OSError as error:
            if seconds == 0 and isinstance(error, TimeoutError):
                return None
            cause = f"its connection was closed: {error}"
        except (ClusterError, DocumentError, KeyError, TypeError, ValueError, IndexError) as error:
            cause = f"it sent a message that cannot be read: {error}"
        return self._cause or cause

    def _received(self, seconds: float | None) -> int | None:
        """Receive bytes, and the file descriptors that come with them. Return the number of bytes; None if no
        byte came in time."""
        into = self._reader.buffer()
        if self._tls:
            end = None if seconds is None else time.monotonic() + seconds
            return self._when_ready(select.POLLIN, end, self._socket.recv_into, into)
        if seconds != 0 and seconds != self._patience:
            self._patience = seconds
            whole = struct.pack("ll", *divmod(int(1e6 * (seconds or 0)), 1_000_000))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, whole)
        flags = socket.MSG_DONTWAIT if seconds == 0 else 0
        passed: list[Any] = []
        try:
            if self.near:
                count, passed, _, _ = self._socket.recvmsg_into([into], _DESCRIPTOR, flags)
            else:
                count = self._socket.recv_into(into, 0, flags)
        except BlockingIOError:
            return None
        self._emptied = 0 < count < len(into)
        for level, kind, data in passed:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._files += array.array("i", data[: len(data) // 4 * 4])
        return count

    def _attach(self, lends: bool) -> None:
        if not self._files:
            raise DocumentError("a message announces shared memory, but no descriptor came with it")
        self._reader.memory = AttachedMemory(self._files.pop(0), self._free if lends else None)

    def _free(self, offset: int) -> None:
        """Report that the array at ``offset`` was released. The garbage collector may call this in any thread
        at any point."""
        self._gone.append(offset)
        self._tell_gone()

    def _tell_gone(self) -> None:
        """Report released arrays. If another thread is sending, that thread reports them."""
        while self._gone and self._order.acquire(blocking=False):
            try:
                gone = [free_message(self._gone.popleft()) for _ in range(len(self._gone))]
                with contextlib.suppress(OSError):
                    self._send_some(gone, limits.SEND)
            finally:
                self._order.release()

    # **************** the socket ****************

    def _when_ready(self, ready: int, end: float | None, call: Callable[..., int], *words: Any) -> int | None:
        """The result of ``call``, which is called as soon as it need not wait; None if ``end`` comes
        first."""
        while True:
            try:
                with self._turn:
                    return call(*words)
            except ssl.SSLWantReadError:
                wanted = select.POLLIN
            except ssl.SSLWantWriteError:
                wanted = select.POLLOUT
            except BlockingIOError:
                wanted = ready
            left = None if end is None else end - time.monotonic()
            waiting = select.poll()
            try:
                waiting.register(self._socket, wanted)
            except ValueError:
                raise OSError("it was closed") from None
            if not waiting.poll(None if left is None else max(0.0, 1e3 * left)) and left is not None:
                return None

    def fileno(self) -> int:
        """The socket's descriptor, for an event loop."""
        return self._socket.fileno()

    def end(self, cause: str = "") -> None:
        """End the connection, in any thread; ``receive`` then returns None."""
        self._cause = self._cause or cause
        with self._turn:
            shut(self._socket)

    def close(self) -> None:
        """End the connection, and release its resources."""
        with self._turn:
            end_socket(self._socket)
        while self._files:
            os.close(self._files.pop())


def connect(
    to: Address, key: bytes, tls: Tls | None = None, seconds: float = limits.HELLO, lends: bool = False
) -> Connection:
    """A connection to a listening process (listening.py). Raises OSError, EOFError, ClusterError."""
    made = open_socket(to, tls, max(0.001, min(limits.HELLO, seconds)))
    try:
        greet(made, key)
        return Connection(made, lends)
    except BaseException:
        made.close()
        raise
