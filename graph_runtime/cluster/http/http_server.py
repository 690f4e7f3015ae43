"""HTTP/1.1 on asyncio, for an application whose bodies are read straight into memory that it chooses.

    server = HttpServer(application)
    await server.start(listen(host, port), tls)
    await server.close(seconds)

Connections are bounded in number, in bytes of a head and of answers that are not read, and in the time of
each: one that begins no request for long ends, one that sends its head byte by byte or its body slower than
would be in time, and one that does not read its answer. Where there are too many, the one ends that has
waited longest for its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from http import HTTPStatus
from typing import Any, Protocol, cast

from ...base.errors import ClusterError, RequestError
from .http_heads import MOST_HEAD, Head, parse_head
from .request_bodies import RequestBody, content_length
from .responses import Response, error_response

__all__ = ["Application", "BegunRequest", "HttpServer", "listen"]


class BegunRequest(Protocol):
    """A request that an application has begun."""

    @property
    def body(self) -> RequestBody:
        """Of as many bytes as the request has, or of none for one that is not read."""


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
_GRACE_SECONDS = 5.0  # that a body may be behind what would be in time
_CONNECTIONS = 1024
_OTHER_FILES = 256  # descriptors that this process has for other things
_UNREAD = 512 << 20  # bytes of answers that clients do not read
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
        self.most = min(_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES)
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

    def make_room(self, new: _Connection) -> bool:
        """Whether there is room for a connection: where there are too many, the one has ended that has waited
        longest for its client."""
        if len(self.connections) <= self.most:
            return True
        waiting = [one for one in self.connections if one is not new and one.waits]
        if waiting:
            min(waiting, key=lambda one: one.since).abort()
        return bool(waiting)

    def bound_unread(self) -> None:
        """End the connection whose client leaves most of its answer unread, while all leave too much."""
        unread = {one: one.unread for one in self.connections if one.unread}
        while sum(unread.values()) > _UNREAD:
            largest = max(unread, key=lambda one: unread[one])
            del unread[largest]
            largest.abort()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            time = asyncio.get_running_loop().time()
            for connection in list(self.connections):
                if time > connection.until:
                    connection.overdue()


class _Connection(asyncio.BufferedProtocol):
    """One request after the other. Bytes go to ``_into``, a body, or to ``_seen``: heads, and what comes
    early. ``until``: the loop's time at which it is closed; ``since``: from which on its client owes what
    comes next, later for a body of which much has come."""

    def __init__(self, server: HttpServer):
        self.until, self.since = _FOREVER, 0.0
        self._server, self._loop = server, asyncio.get_running_loop()
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._seen = bytearray()
        self._into: RequestBody | None = None
        self._begun = 0.0  # when it was
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
        self.since = self._loop.time()
        self.until = self.since + _HEAD_SECONDS
        if not self._server.make_room(self):
            text = f"{self._server.most} connections have requests under way"
            self._refuse(RequestError(text, status=503, retry_after=1))

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        self._drop()
        if self._task is not None:
            self._task.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch if self._into is None else self._into.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self._into is None:
            self._seen += self._scratch[:nbytes]
            self._advance()
        else:
            self._filled(self._into, nbytes)

    def pause_writing(self) -> None:
        self._full, self.until = True, self._loop.time() + _WRITE_SECONDS
        self._server.bound_unread()

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
                self._wait()
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
        self._call, self._unread = call, size - call.body.size
        self._fill(call.body, head)
        return False

    def _fill(self, body: RequestBody, head: Head) -> None:
        """Take what is there of a body, and what comes."""
        self._into, self._begun, body.refuse = body, self._loop.time(), self._refuse_body
        self._filled(body, 0)
        while self._into is body and self._seen:
            room = body.room()
            count = min(len(room), len(self._seen))
            room[:count] = self._seen[:count]
            del self._seen[:count]
            self._filled(body, count)
        waits = self._into is body and not body.filled
        if waits and head.headers.get(b"expect", b"").lower() == b"100-continue":
            assert self._transport is not None, "it is not over"
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _filled(self, body: RequestBody, count: int) -> None:
        """``count`` bytes more of a body are there."""
        try:
            body.fill(count)
        except RequestError as error:
            self._refuse_body(error)
        if self._into is not body:  # it was refused
            return
        if body.whole:
            self._run()
            return
        seconds = self._server.body_seconds
        self.since = self._begun + seconds * body.filled / body.size
        self.until = min(self._begun + seconds, self.since + _GRACE_SECONDS)

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

    def _refuse_body(self, error: RequestError) -> None:
        """Answer a request whose body is not there and will not be, and end."""
        if self._into is not None:
            self._unread += self._into.size - self._into.filled
            self._drop()
            self._refuse(error)

    # **************** the connection ****************

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn, and no answer is on its way."""
        return self._task is None and not self._full

    @property
    def unread(self) -> int:
        """Bytes of an answer that its client has not read."""
        return self._transport.get_write_buffer_size() if self._full and self._transport is not None else 0

    def _read(self, on: bool) -> None:
        if self._transport is None or self._transport.is_closing() or on == self._reading:
            return
        self._reading = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _wait(self) -> None:
        self.since = self._loop.time()
        self.until = self.since + (_HEAD_SECONDS if self._seen else _IDLE_SECONDS)

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
        body = self._into
        if body is None:
            self.abort()
            return
        seconds = self._loop.time() - self._begun
        text = f"after {seconds:.1f} s {body.filled} bytes of the body have come, {body.size} are due"
        text += f" in {self._server.body_seconds:g} s"
        self._refuse_body(RequestError(text, status=408, got=body.filled, wanted=body.size))

    def close_idle(self) -> None:
        """Close it where no request is there."""
        if self._task is None and self._call is None and not self._full and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()
