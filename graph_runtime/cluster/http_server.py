"""HTTP/1.1 on asyncio, for an application whose bodies are read straight into memory that it chooses.

    server = HttpServer(application)
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
from http import HTTPStatus
from typing import Any, Protocol, cast

from ..base.errors import ClusterError, RequestError
from .http_heads import MOST_HEAD, Head, parse_head
from .request_bodies import content_length
from .responses import Response, error_response

__all__ = ["Application", "BegunRequest", "HttpServer", "listen"]


class BegunRequest(Protocol):
    """A request that an application has begun. ``body``: memory that is filled with its body's bytes."""

    @property
    def body(self) -> memoryview:
        """As many bytes as the request has, or none for a body that is not read."""


class Application(Protocol):
    """What is served."""

    def begin(self, head: Head) -> Any:
        """A BegunRequest. Raises RequestError for a request that is refused; its body is read over."""

    async def answer(self, call: Any) -> Response:
        """The answer to a request whose body is there."""

    def drop(self, call: Any) -> None:
        """Its body will not be there."""


_HEAD_SECONDS = 30.0  # in which a request's head has to arrive
_IDLE_SECONDS = 60.0  # that a connection stays open between two requests
_WRITE_SECONDS = 60.0  # in which a client has to read some of its answer
_CONNECTIONS = 1024
_SCRATCH = 64 << 10
_SKIPPED = 4 << 20  # bytes of a body that was refused which are read over, so that the connection goes on
_FOREVER = float("inf")
_STATUS_LINES = {int(status): f"HTTP/1.1 {int(status)} {status.phrase}" for status in HTTPStatus}
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
    """See the module. ``body_seconds``: in which a body has to arrive."""

    def __init__(self, application: Application, body_seconds: float = 60.0):
        self.application, self.body_seconds = application, body_seconds
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
                    connection.overdue()


class _Connection(asyncio.BufferedProtocol):
    """One request after the other. Bytes go to ``_into``, a body's memory, or to ``_seen``: heads, and what
    comes early. ``until``: the loop's time at which it is closed."""

    def __init__(self, server: HttpServer):
        self.until = _FOREVER
        self._server, self._loop = server, asyncio.get_running_loop()
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._seen = bytearray()
        self._into: memoryview | None = None
        self._at = 0
        self._unread = 0  # bytes of a body that is read over
        self._call: BegunRequest | None = None  # whose body is not there yet
        self._only_head = False  # the request is a HEAD
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
        self._drop()
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
            self._run()

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
        """Begin the next requests, as long as their heads are there and the last one is answered."""
        while not self._over():
            if self._task is not None or self._full:
                self._read(len(self._seen) < _SCRATCH)
                return
            taken = min(self._unread, len(self._seen))
            self._unread -= taken
            del self._seen[:taken]
            if self._unread or not self._begin():
                return
        self._seen.clear()

    def _over(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _begin(self) -> bool:
        """Whether a head was there, and was refused, so that another may follow."""
        end = self._seen.find(b"\r\n\r\n", 0, MOST_HEAD + 4)
        if end < 0:
            if len(self._seen) > MOST_HEAD:
                text = f"the request's head has more than {MOST_HEAD} bytes"
                self._refuse(RequestError(text, status=431, wanted=MOST_HEAD))
            elif self._seen and self.until > self._loop.time() + _HEAD_SECONDS:
                self.until = self._loop.time() + _HEAD_SECONDS
            return False
        try:
            head = parse_head(bytes(self._seen[:end]))
            size = content_length(head.headers) or 0
        except RequestError as error:
            self._refuse(error)
            return False
        del self._seen[: end + 4]
        self._last, self._only_head = not head.keeps, head.method == "HEAD"
        try:
            call = self._server.application.begin(head)
        except RequestError as error:
            self._unread = size
            self._answered(error_response(error))
            return not self._last
        self._call, self._unread = call, size - len(call.body)
        self._fill(call.body, head)
        return False

    def _fill(self, body: memoryview, head: Head) -> None:
        """Take what is there of a body, and what comes."""
        self._at = min(len(body), len(self._seen))
        body[: self._at] = self._seen[: self._at]
        del self._seen[: self._at]
        self._into = body
        if self._at == len(body):
            self._run()
            return
        self.until = self._loop.time() + self._server.body_seconds
        if not self._at and head.headers.get(b"expect", b"").lower() == b"100-continue":
            assert self._transport is not None, "it is not over"
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _run(self) -> None:
        """The body is there."""
        call, self._call, self._into, self.until = self._call, None, None, _FOREVER
        self._task = self._loop.create_task(self._answer(call))

    async def _answer(self, call: BegunRequest | None) -> None:
        response = await self._server.application.answer(call)
        self._task = None
        self._answered(response)
        if not self._last:
            self._advance()
            self._read(True)

    def _answered(self, response: Response) -> None:
        self._last = self._last or self._server.ending or self._unread > _SKIPPED
        self._write(response)
        if self._last:
            self._close()
        elif not self._full:
            self._wait()

    def _drop(self) -> None:
        call, self._call, self._into = self._call, None, None
        if call is not None:
            self._server.application.drop(call)

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

    def _write(self, response: Response) -> None:
        if self._over():
            return
        assert self._transport is not None, "it is not closing"
        lines = [_STATUS_LINES[response.status], *(f"{name}: {value}" for name, value in response.headers)]
        lines.append(f"Content-Length: {response.nbytes}")
        if self._last:
            lines.append("Connection: close")
        text = "\r\n".join([*lines, "", ""])
        self._transport.writelines([text.encode("latin-1"), *(() if self._only_head else response.body)])

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

    def overdue(self) -> None:
        """It has taken too long."""
        if self._call is None:
            self.abort()
            return
        self._drop()
        text = f"the body did not arrive in {self._server.body_seconds:g} s"
        self._refuse(RequestError(text, status=408))

    def close_idle(self) -> None:
        """Close it where no request is there."""
        if self._task is None and self._call is None and not self._full and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()
