"""HTTP/1.1 on asyncio, for an application that reads bodies straight into memory that it chooses.

    server = HttpServer(application)        an async function of a Head and of what fills a body's memory
    await server.start(listen(host, port), tls)
    await server.close(seconds)

Connections are bounded in number, in bytes of a head, and in the time of each: one that begins no request for
long ends, one that sends its head byte by byte, and one that does not read its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import cast

from ..base.errors import ClusterError, RequestError
from .http_heads import MOST_HEAD, Head, parse_head
from .request_bodies import Receive, content_length
from .responses import Response, error_response

__all__ = ["Application", "HttpServer", "listen"]

Application = Callable[[Head, Receive], Awaitable[Response]]
_HEAD_SECONDS = 30.0  # in which a request's head has to arrive
_IDLE_SECONDS = 60.0  # that a connection stays open between two requests
_WRITE_SECONDS = 60.0  # in which a client has to read some of its answer
_CONNECTIONS = 1024
_SCRATCH = 64 << 10
_SKIPPED = 4 << 20  # bytes of a body that was refused which are read over, so that the connection goes on
_FOREVER = float("inf")
_log = logging.getLogger("graph_runtime.cluster")


def listen(host: str, port: int) -> socket.socket:
    """A socket for HTTP. Raises ClusterError for an address that is taken, or is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets NODELAY by the protocol's number
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host.strip("[]"), port))
        made.listen(_CONNECTIONS)
    except OSError as error:
        made.close()
        text = f"cannot listen on {host}:{port}: {error.strerror or error}; give another --host or --port"
        raise ClusterError(text, got=port) from None
    return made


class HttpServer:
    """See the module."""

    def __init__(self, application: Application):
        self.application = application
        self.connections: set[_Connection] = set()
        self.ending = False
        self._server: asyncio.Server | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket, tls: tuple[str, str] | None = None) -> None:
        """Take connections. ``tls``: files of the certificate and its key."""
        context = None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*tls)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), sock=listening, ssl=context, backlog=_CONNECTIONS
        )
        self._watching = loop.create_task(self._watch())

    async def close(self, seconds: float) -> None:
        """Take no more, let those answer that have a request, for ``seconds`` at most."""
        self.ending = True
        if self._server is not None:
            self._server.close()
        end = asyncio.get_running_loop().time() + seconds
        while self.connections and asyncio.get_running_loop().time() < end:
            for connection in list(self.connections):
                connection.close_idle()
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            time = asyncio.get_running_loop().time()
            for connection in list(self.connections):
                if time > connection.until:
                    connection.abort()


class _Connection(asyncio.BufferedProtocol):
    """One request after the other. Bytes go to ``_into``, a body's memory, or to ``_seen``: heads, and what
    comes before it is wanted. ``until``: the loop's time at which it is closed."""

    def __init__(self, server: HttpServer):
        self.until = _FOREVER
        self._server, self._loop = server, asyncio.get_running_loop()
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._seen = bytearray()
        self._into: memoryview | None = None
        self._at = 0
        self._filled: asyncio.Future[None] | None = None
        self._unread = 0  # bytes of the body that have no place yet
        self._expects = False
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._full = False  # the client does not read
        self._reading = True
        self._last = False

    # **************** asyncio's calls ****************

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses
        self._server.connections.add(self)
        self.until = self._loop.time() + _HEAD_SECONDS
        if len(self._server.connections) > _CONNECTIONS:
            self._refuse(RequestError(f"{_CONNECTIONS} connections are open", status=503, retry_after=1))

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._filled is not None and not self._filled.done():
            self._filled.set_exception(ConnectionResetError("the client has gone"))
        if self._task is not None:
            self._task.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch if self._into is None else self._into[self._at :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._into is None:
            self._seen += self._scratch[:nbytes]
            self._advance()
            return
        self._at += nbytes
        if self._at == len(self._into):
            self._into = None
            if self._filled is not None and not self._filled.done():
                self._filled.set_result(None)

    def pause_writing(self) -> None:
        self._full, self.until = True, self._loop.time() + _WRITE_SECONDS

    def resume_writing(self) -> None:
        self._full = False
        if self._task is None:
            self._wait()
            self._advance()
        else:
            self.until = _FOREVER

    # **************** requests ****************

    def _advance(self) -> None:
        """Begin the next request, when its head is there and the last one is answered."""
        if self._last_was_said():
            self._seen.clear()
            return
        if self._task is not None or self._full:
            self._read(len(self._seen) < _SCRATCH)
            return
        self._skip()
        if self._unread:
            return
        end = self._seen.find(b"\r\n\r\n", 0, MOST_HEAD + 4)
        if end < 0:
            if len(self._seen) > MOST_HEAD:
                text = f"the request's head has more than {MOST_HEAD} bytes"
                self._refuse(RequestError(text, status=431, wanted=MOST_HEAD))
            elif self._seen and self.until > self._loop.time() + _HEAD_SECONDS:
                self.until = self._loop.time() + _HEAD_SECONDS
            return
        try:
            head = parse_head(bytes(self._seen[:end]))
            self._unread = content_length(head.headers) or 0
        except RequestError as error:
            self._refuse(error)
            return
        del self._seen[: end + 4]
        self._expects = head.headers.get(b"expect", b"").lower() == b"100-continue"
        self._last, self.until = not head.keeps, _FOREVER
        self._task = self._loop.create_task(self._answer(head))

    def _last_was_said(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    async def _answer(self, head: Head) -> None:
        try:
            response = await self._server.application(head, self._receive)
        except ConnectionError:
            self.abort()
            return
        self._last = self._last or self._server.ending or self._unread > _SKIPPED
        self._write(response, head.method == "HEAD")
        self._task = None
        if self._last:
            self._close()
        elif not self._full:
            self._wait()
            self._advance()
        self._read(True)

    async def _receive(self, into: memoryview) -> None:
        """Fill memory with the body's next bytes. Raises ConnectionError, RequestError."""
        if len(into) > self._unread:
            text = f"the body has {self._unread} bytes"
            raise RequestError(text, got=self._unread, wanted=len(into))
        self._unread -= len(into)
        have = min(len(into), len(self._seen))
        into[:have] = self._seen[:have]
        del self._seen[:have]
        if have == len(into):
            return
        if self._last_was_said():
            raise ConnectionResetError("the client has gone")
        if self._expects and not have:
            assert self._transport is not None, "it is not closing"
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._expects = False
        self._into, self._at, self._filled = into, have, self._loop.create_future()
        self._read(True)
        try:
            await self._filled
        except asyncio.CancelledError:  # a timeout: what still comes goes nowhere
            self._unread, self._into = len(into) - self._at, None
            raise
        finally:
            self._filled = None

    def _skip(self) -> None:
        """Read over a body that was refused."""
        taken = min(self._unread, len(self._seen))
        self._unread -= taken
        del self._seen[:taken]

    # **************** the connection ****************

    def _read(self, on: bool) -> None:
        if self._transport is None or self._transport.is_closing() or on == self._reading:
            return
        self._reading = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _wait(self) -> None:
        self.until = self._loop.time() + (_HEAD_SECONDS if self._seen else _IDLE_SECONDS)

    def _write(self, response: Response, head_only: bool = False) -> None:
        if self._last_was_said():
            return
        assert self._transport is not None, "it is not closing"
        rows = [*response.headers, ("Content-Length", str(response.nbytes))]
        if self._last:
            rows.append(("Connection", "close"))
        lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
        text = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in rows), "", ""])
        self._transport.writelines([text.encode("latin-1"), *(() if head_only else response.body)])

    def _refuse(self, error: RequestError) -> None:
        """Answer what is no request, and end."""
        self._last = True
        self._write(error_response(error))
        self._close()

    def _close(self) -> None:
        """End the sending half, and the rest a moment later: a client that is still sending would lose its
        answer by a reset."""
        self._last = True
        if self._transport is None or self._transport.is_closing():
            return
        if self._unread and self._transport.can_write_eof():
            self._transport.write_eof()
            self._unread, self.until = 1 << 62, self._loop.time() + 1.0
            self._advance()
        else:
            self._transport.close()

    def close_idle(self) -> None:
        """Close it where no request is there."""
        if self._task is None and not self._full and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()
