"""The memory of requests' bodies, within bounds: of each, and of all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..base.errors import RequestError

__all__ = ["Bodies", "content_length"]

_MOST_DIGITS = 18


def content_length(headers: Mapping[bytes, bytes]) -> int | None:
    """The bytes of a body, None where its request does not say. Raises RequestError (400)."""
    said = headers.get(b"content-length")
    if said is None:
        return None
    text = said.decode("latin-1")
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise RequestError("Content-Length is no number of bytes", got=text[:40])
    return int(text)


def _own_memory(nbytes: int) -> memoryview:
    """Memory that grows as bytes arrive, not as they are promised: pages are there when they are written."""
    return np.empty(nbytes, np.uint8).data


@dataclass
class Bodies:
    """``most``: bytes of one body. ``most_held``: of all that are read or worked on. ``allocate``: memory for
    one."""

    most: int = 256 << 20
    most_held: int = 1 << 30
    allocate: Callable[[int], memoryview] = _own_memory
    held: int = 0

    def open(self, headers: Mapping[bytes, bytes]) -> memoryview:
        """Memory for the body of a request, which counts as held until ``close``. Raises RequestError: 411,
        413, 415, 429."""
        size = self._size(headers)
        if self.held + size > self.most_held:
            text = f"requests of {self.held} bytes are under way: send it again later"
            raise RequestError(text, status=429, retry_after=1, got=size, wanted=self.most_held)
        body = self.allocate(size)
        self.held += size
        return body

    def close(self, body: memoryview) -> None:
        """Its request is over."""
        self.held -= len(body)

    def _size(self, headers: Mapping[bytes, bytes]) -> int:
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
        if encoding.strip().lower() not in ("", "identity"):
            raise RequestError(f"bodies are not decoded from {encoding}: send it as it is", status=415)
        size = content_length(headers)
        if size is None:
            raise RequestError("the request has no Content-Length", status=411)
        if size > self.most:
            text = f"the body has {size} bytes, at most {self.most} are read"
            raise RequestError(text, status=413, wanted=self.most)
        return size
