"""HTTP/1.1 on asyncio; bodies are read directly into memory chosen by the application.

    server = HttpServer(application)
    await server.start(listen(host, port), tls)
    await server.close(seconds)

There are bounds for the number of connections, the bytes of a head, the bytes of unread answers, and the time
of each step. A connection is closed if its client begins no request for long, sends its head or its body too
slowly, or does not read an answer. If there are too many connections, the one that has waited longest for its
client is closed.
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


class BegunRequest(Protocol):
    """A request that an application has accepted."""

    @property
    def body(self) -> RequestBody:
        """The body. Its size is the request's, or 0 if the application does not read the body."""


class Application(Protocol):
    """An application, whose requests a server receives and answers."""

    def begin(self, head: Head) -> Any:
        """The BegunRequest for a head. Raises RequestError to refuse the request; its body is then read and
        dropped."""

    async def answer(self, call: Any) -> Response:
        """The answer to a request whose body is complete."""

    def drop(self, call: Any) -> None:
        """Forget a request whose body will not be complete."""


_HEAD_SECONDS = 30.0  # seconds within which a request's head must arrive
_IDLE_SECONDS = 60.0  # seconds that a connection stays open between two requests
_WRITE_SECONDS = 60.0  # seconds within which a client must read some of its answer
_GRACE_SECONDS = 5.0  # seconds by which a body may be behind its schedule
_CONNECTIONS = 1024
_OTHER_FILES = 256  # number of file descriptors that this process needs for other things
_UNREAD = 512 << 20  # most bytes of unread answers of all clients together
_SCRATCH = 64 << 10
_SKIPPED = 4 << 20  # most bytes of a refused body that are read, to keep the connection open
_FOREVER = float("inf")
_STATUS_LINES = {int(status): f"HTTP/1.1 {int(status)} {status.phrase}" for status in HTTPStatus}
_log = logging.getLogger("graph_runtime.cluster")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket for HTTP. Raises ClusterError if the address is taken, or is not an address of this
    machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets NODELAY only on a socket that was created with this protocol's number
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
    """A server of one application. ``body_seconds``: time within which a body must arrive."""

    def __init__(self, application: Application, body_seconds: float = 60.0):
        self.application, self.body_seconds = application, body_seconds
        self.connections: set[_Connection] = set()
        self.most = min(_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES)
        self.ending = False
        self._server: asyncio.Server | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket, tls: tuple[str, str] | None = None) -> None:
        """Accept connections. ``tls``: paths of the certificate and of its key."""
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
        """Accept no more connections. Requests in progress are answered, for at most ``seconds``."""
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
        """Whether there is room for the connection ``new``. If there are too many, the connection that has
        waited longest for its client is closed."""
        if len(self.connections) <= self.most:
            return True
        waiting = [one for one in self.connections if one is not new and one.waits]
        if waiting:
            min(waiting, key=lambda one: one.since).abort()
        return bool(waiting)

    def bound_unread(self) -> None:
        """Close the connections with the largest unread answers until all unread answers together are within
        the bound."""
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
    """One connection, with one request after the other. Received bytes go to ``_into``, the body that is
    being received; without one, to ``_seen``, which has heads and bytes that came early. ``until``: time of
    the loop at which the connection is closed. ``since``: time since which the client owes the next bytes;
    the more of a body has come, the later it is."""

    def __init__(self, server: HttpServer):
        self.until, self.since = _FOREVER, 0.0
        self._server, self._loop = server, asyncio.get_running_loop()
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._seen = bytearray()
        self._into: RequestBody | None = None
        self._begun = 0.0  # time at which the body in ``_into`` began
        self._unread = 0  # bytes of a body that are still to be dropped
        self._call: BegunRequest | None = None  # the request whose body is not complete yet
        self._only_head = False  # whether the request is a HEAD
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._full = False  # whether the client reads too slowly
        self._reading = True
        self._last = False

    # **************** asyncio's calls ****************

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are not subclasses of it
        self._server.connections.add(self)
        self.since = self._loop.time()
        self.until = self.since + _HEAD_SECONDS
        if not self._server.make_room(self):
            text = f"{self._server.most} connections have requests in progress"
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
        """Begin the next requests, as long as a head is there and the last request is answered."""
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
        """Begin the request whose head is there. Return True if the request was refused, so that the next
        request may begin."""
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
        """Move the bytes of a body that are already here into the body; further bytes go there as they
        arrive."""
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
            assert self._transport is not None, "it is open"
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _filled(self, body: RequestBody, count: int) -> None:
        """Count ``count`` more bytes of a body, and answer the request if the body is complete."""
        try:
            body.fill(count)
        except RequestError as error:
            self._refuse_body(error)
        if self._into is not body:  # the body was refused
            return
        if body.whole:
            call, self._call, self._into, self.until = self._call, None, None, _FOREVER
            self._task = self._loop.create_task(self._answer(call))
            return
        seconds = self._server.body_seconds
        self.since = self._begun + seconds * body.filled / body.size
        self.until = min(self._begun + seconds, self.since + _GRACE_SECONDS)

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
        """Answer a request whose body will not be complete, and close the connection."""
        if self._into is not None:
            self._unread += self._into.size - self._into.filled
            self._drop()
            self._refuse(error)

    # **************** the connection ****************

    @property
    def waits(self) -> bool:
        """Whether the connection waits for its client, with no request being answered."""
        return self._task is None and not self._full

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not read."""
        return self._transport.get_write_buffer_size() if self._full and self._transport is not None else 0

    def _read(self, on: bool) -> None:
        if self._transport is None or self._transport.is_closing() or on == self._reading:
            return
        self._reading = on
        (self._transport.resume_reading if on else self._transport.pause_reading)()

    def _wait(self) -> None:
        self.since = self._loop.time()
        self.until = self.since + (_HEAD_SECONDS if self._seen else _IDLE_SECONDS)

    def _write(self, response: Response) -> None:
        if self._over():
            return
        assert self._transport is not None, "it is open"
        lines = [_STATUS_LINES[response.status], *(f"{name}: {value}" for name, value in response.headers)]
        lines.append(f"Content-Length: {response.nbytes}")
        if self._last:
            lines.append("Connection: close")
        text = "\r\n".join([*lines, "", ""])
        self._transport.writelines([text.encode("latin-1"), *(() if self._only_head else response.body)])

    def _refuse(self, error: RequestError) -> None:
        """Answer an invalid request, and close the connection."""
        self._last = True
        self._write(error_response(error))
        self._close()

    def _close(self) -> None:
        """Close the sending half, and the rest a moment later. An immediate close could reset the connection,
        and a client that is still sending would lose its answer."""
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
        """Close the connection, or refuse the body that it receives, because the time for it is over."""
        body = self._into
        if body is None:
            self.abort()
            return
        seconds = self._loop.time() - self._begun
        text = f"after {seconds:.1f} s {body.filled} bytes of the body have arrived, {body.size} are due"
        text += f" in {self._server.body_seconds:g} s"
        self._refuse_body(RequestError(text, status=408, got=body.filled, wanted=body.size))

    def close_idle(self) -> None:
        """Close the connection if it has no request in progress."""
        if self._task is None and self._call is None and not self._full and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
