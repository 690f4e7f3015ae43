"""One end of a connection that carries messages, both ways. Any thread sends; one, or an event loop, reads.

    connection = connect(address, key, tls)         made, and both sides have proved to have the key
    connection.send(header, tensors)                waits; connection.post(...) never does
    while (message := connection.receive()) is not None: ...
    connection.close()                              the one that reads; others end() it

On one machine an end may share memory, by its descriptor: its messages then speak of arrays that lie there.
One that lends copies large arrays into memory of its own, and writes there again when the other end has them
no more.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import ClusterError, DocumentError
from . import limits
from .messages import Message, MessageReader, Part, free_message, message_parts
from .proofs import greet
from .shared_memory import AttachedMemory, SharedMemory
from .sockets import Address, Tls, end_socket, open_socket, shut

_DESCRIPTOR = socket.CMSG_SPACE(array.array("i", [0]).itemsize)
_Tensors = Mapping[str, np.ndarray] | None


class Connection:
    """See the module. ``near``: whether the other end is on this machine. ``memory``: what it shares."""

    def __init__(self, made: socket.socket, lends: bool = False):
        self.near = made.family == socket.AF_UNIX
        self.memory: SharedMemory | None = None
        self._lends = self.near and lends
        self._lent: dict[int, memoryview] = {}  # what the other end reads, by offset
        self._cause = ""  # why it ended here
        self._socket, self._reader = made, MessageReader()
        self._order = threading.Lock()  # of what is sent
        # TLS does not read and write at once, so only poll waits there; elsewhere reading itself does, and
        # the garbage collector may come in between
        self._tls = isinstance(made, ssl.SSLSocket)
        self._turn: Any = threading.Lock() if self._tls else contextlib.nullcontext()
        made.setblocking(not self._tls)
        self._at_once = () if self._tls else (socket.MSG_DONTWAIT,)
        self._patience: float | None = None  # seconds that reading waits
        self._emptied = False  # all that had come was read
        self._posted: deque[Sequence[Part]] = deque()  # what a thread sends
        self._posting = threading.Lock()
        self._there: Iterator[Message] = iter(())  # messages that have come
        self._files: list[int] = []  # descriptors that no message spoke of yet
        self._gone: deque[int] = deque()  # arrays of the other end's memory, which it is to hear of

    # **************** sending ****************

    def send(self, header: Mapping[str, Any], tensors: _Tensors = None, seconds: float = limits.SEND) -> None:
        """Send a message; arrays that lie in no shared memory may change afterwards. Raises OSError,
        TimeoutError among them."""
        if tensors and self._lends:
            tensors = {name: self._lend(value) for name, value in tensors.items()}
        parts = message_parts(header, tensors, self.memory)
        with self._order:
            if self._send_some(parts, seconds):
                self.end("it took no message")
                raise TimeoutError(f"nothing was taken for {seconds:.0f} s")
        if self._gone:
            self._tell_gone()

    def post(self, header: Mapping[str, Any], tensors: _Tensors = None) -> None:
        """The same at once, for an event loop; what is not taken a thread sends. Nothing where the connection
        has ended, which its reader hears. Not beside ``send``."""
        parts: Sequence[Part] = message_parts(header, tensors, self.memory)
        with self._posting, contextlib.suppress(OSError):
            if not self._posted and not (parts := self._send_some(parts, 0.0)):
                return
            self._posted.append(parts)
            if len(self._posted) == 1:
                threading.Thread(target=self._send_posted, name="gr-posted", daemon=True).start()

    def share(self, memory: SharedMemory) -> None:
        """Pass memory to the other end. Raises OSError."""
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory.file]))]
        text = b"".join(message_parts({"shares": self._lends}))
        with self._order:
            self._send_some([text[self._socket.sendmsg([text], passed) :]], limits.SEND)
        self.memory = memory

    def _lend(self, value: np.ndarray) -> np.ndarray:
        """A copy of a large array in the memory that the other end maps; itself where there is no room, or it
        is small."""
        if value.nbytes < limits.INLINE or not value.dtype.isnative:
            return value
        if self.memory is None:
            made = SharedMemory.where_possible(limits.SHARED)
            if made is None:
                self._lends = False
                return value
            self.share(made)
        assert self.memory is not None, "it is shared"
        view = self.memory.take(value.nbytes)
        if view is None:
            return value
        moved = np.frombuffer(view, value.dtype).reshape(value.shape)
        np.copyto(moved, value)
        offset = self.memory.offset_of(moved)
        assert offset is not None, "it lies in that memory"
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
        """Send pieces, each chunk of them within ``seconds``. What was not taken."""
        if sum(map(len, parts)) <= limits.INLINE:
            parts = [text := b"".join(parts)]
            if not self._tls:  # most messages
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
        """The next message, None where the other end is gone. Raises DocumentError for what is none,
        ClusterError for one that there is no memory for, OSError; TimeoutError where nothing comes."""
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
                raise TimeoutError(f"nothing came for {seconds:.0f} s")
            if not count:
                return None
            self._there = self._reader.filled(count)

    def serve(self, heard: Callable[[Message], None], seconds: float | None = None) -> str | None:
        """Give all messages to ``heard``, until the connection ends: the cause. In an event loop's reader
        ``seconds`` are 0: None as soon as no more has come."""
        try:
            while (message := self.receive(seconds)) is not None:
                heard(message)
                del message  # while the next one is waited for, its memory may be free
            cause = "its connection was closed"
        except OSError as error:
            if seconds == 0 and isinstance(error, TimeoutError):
                return None
            cause = f"its connection was closed: {error}"
        except (ClusterError, DocumentError, KeyError, TypeError, ValueError, IndexError) as error:
            cause = f"it sent a message that cannot be read: {error}"
        return self._cause or cause

    def _received(self, seconds: float | None) -> int | None:
        """Bytes that came, None where none did. Descriptors come with them."""
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
            raise DocumentError("a message says that memory is passed, and none is")
        self._reader.memory = AttachedMemory(self._files.pop(0), self._free if lends else None)

    def _free(self, offset: int) -> None:
        """An array is gone. In any thread, and in the middle of anything."""
        self._gone.append(offset)
        self._tell_gone()

    def _tell_gone(self) -> None:
        """The thread that sends now tells of these, too."""
        while self._gone and self._order.acquire(blocking=False):
            try:
                gone = [free_message(self._gone.popleft()) for _ in range(len(self._gone))]
                with contextlib.suppress(OSError):
                    self._send_some(gone, limits.SEND)
            finally:
                self._order.release()

    # **************** the socket ****************

    def _when_ready(self, ready: int, end: float | None, call: Callable[..., int], *words: Any) -> int | None:
        """What a call gives as soon as it need not wait, None where that is not before ``end``."""
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
        """Of its socket, for an event loop."""
        return self._socket.fileno()

    def end(self, cause: str = "") -> None:
        """End it, in any thread: ``receive`` gives None."""
        self._cause = self._cause or cause
        with self._turn:
            shut(self._socket)

    def close(self) -> None:
        """End it, and give back what it holds."""
        with self._turn:
            end_socket(self._socket)
        while self._files:
            os.close(self._files.pop())


def connect(
    to: Address, key: bytes, tls: Tls | None = None, seconds: float = limits.HELLO, lends: bool = False
) -> Connection:
    """A connection to a process that listens (listening.py). Raises OSError, EOFError, ClusterError."""
    made = open_socket(to, tls, max(0.001, min(limits.HELLO, seconds)))
    try:
        greet(made, key)
        return Connection(made, lends)
    except BaseException:
        made.close()
        raise
