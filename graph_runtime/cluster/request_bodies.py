"""The body of a request, read within bounds: of its own size, of all bodies at once, and of time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from ..base.errors import RequestError

__all__ = ["Bodies", "Receive"]

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
_MOST_DIGITS = 18


@dataclass
class Bodies:
    """``most``: bytes of one body. ``most_held``: of all that are read or worked on. ``seconds``: in which a
    body has to arrive."""

    most: int = 256 << 20
    most_held: int = 1 << 30
    seconds: float = 60.0
    held: int = 0

    @asynccontextmanager
    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> AsyncIterator[bytearray]:
        """The body, which counts as held until the block ends. Raises RequestError: 408, 411, 413, 415, 429;
        ConnectionError where the client has gone."""
        size = self._size(headers)
        if self.held + size > self.most_held:
            text = f"requests of {self.held} bytes are under way: send it again later"
            raise RequestError(text, status=429, retry_after=1, got=size, wanted=self.most_held)
        self.held += size
        try:
            async with asyncio.timeout(self.seconds):
                body = await _read(size, receive)
            yield body
        except TimeoutError:
            text = f"the body did not arrive in {self.seconds:g} s"
            raise RequestError(text, status=408) from None
        finally:
            self.held -= size

    def _size(self, headers: Mapping[bytes, bytes]) -> int:
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
        if encoding.strip().lower() not in ("", "identity"):
            raise RequestError(f"bodies are not decoded from {encoding}: send it as it is", status=415)
        said = headers.get(b"content-length")
        if said is None:
            raise RequestError("the request has no Content-Length", status=411)
        text = said.decode("latin-1")
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
            raise RequestError("Content-Length is no number of bytes", got=text[:40])
        if int(text) > self.most:
            text = f"the body has {int(text)} bytes, at most {self.most} are read"
            raise RequestError(text, status=413, wanted=self.most)
        return int(text)


async def _read(size: int, receive: Receive) -> bytearray:
    """All of a body. Memory grows as bytes arrive, not as they are promised."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionResetError("the client has gone")
        body += message.get("body", b"")
        if len(body) > size:
            raise RequestError("the body is longer than its Content-Length", got=len(body), wanted=size)
        if not message.get("more_body", False):
            break
    if len(body) != size:
        raise RequestError("the body is shorter than its Content-Length", got=len(body), wanted=size)
    return body
