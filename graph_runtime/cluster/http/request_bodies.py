"""The memory of requests' bodies, within bounds: of each, and of all at once. What counts is what has come,
not what was promised, and memory is taken for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...base.errors import RequestError

__all__ = ["Bodies", "RequestBody", "content_length"]

_MOST_DIGITS = 18
_FIRST = 64 << 10  # bytes for which there is memory before any have come
_NOTHING = memoryview(b"")


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
    return np.empty(nbytes, np.uint8).data


@dataclass(eq=False, slots=True)
class RequestBody:
    """A body of ``size`` bytes, which is filled from its beginning:

        body.room()[:count] = ...       memory for the next bytes, never empty before it is whole
        body.fill(count)                so many are there

    ``memory``: all of it, once it is whole. ``bodies``: those that it is one of. ``refuse``: what is called
    where it has to go before it is whole."""

    size: int
    bodies: Bodies | None = None
    refuse: Callable[[RequestError], None] = lambda _: None
    filled: int = 0
    memory: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.memory = self._allocated(min(self.size, _FIRST))

    @property
    def whole(self) -> bool:
        """Whether all of it is there."""
        return self.filled == self.size

    def room(self) -> memoryview:
        """Memory for the next bytes."""
        return self.memory[self.filled :]

    def fill(self, count: int) -> None:
        """``count`` bytes more are there. Raises RequestError (429): no memory for the rest."""
        self.filled += count
        if len(self.memory) < self.size and 2 * self.filled >= len(self.memory):
            first, self.memory = self.memory, self._allocated(self.size)
            self.memory[: self.filled] = first[: self.filled]
        if self.bodies is not None:
            self.bodies.came(self, count)

    def _allocated(self, nbytes: int) -> memoryview:
        try:
            return (_own_memory if self.bodies is None else self.bodies.allocate)(nbytes)
        except MemoryError:
            text = f"there is no memory for a body of {self.size} bytes: send it again later"
            raise RequestError(text, status=429, retry_after=1, got=self.size) from None


@dataclass(eq=False)
class Bodies:
    """``most``: bytes of one body. ``most_held``: of all that have come and are not answered; where more
    come, the largest of those that are not whole has to go. ``allocate``: memory for one."""

    most: int = 256 << 20
    most_held: int = 1 << 30
    allocate: Callable[[int], memoryview] = _own_memory
    held: int = 0
    _coming: dict[RequestBody, None] = field(default_factory=dict)

    def open(self, headers: Mapping[bytes, bytes]) -> RequestBody:
        """The body of a request, whose bytes count as held until ``close``. Raises RequestError: 411, 413,
        415, 429."""
        size = self._size(headers)
        whole = self.held - sum(body.filled for body in self._coming)
        if whole + size > self.most_held:
            text = f"requests of {whole} bytes are under way: send it again later"
            raise RequestError(text, status=429, retry_after=1, got=size, wanted=self.most_held)
        body = RequestBody(size, self)
        if size:
            self._coming[body] = None
        return body

    def came(self, body: RequestBody, count: int) -> None:
        """Of ``body``."""
        self.held += count
        if body.whole:
            self._coming.pop(body, None)
        while self.held > self.most_held and self._coming:
            largest = max(self._coming, key=lambda one: one.filled)
            text = f"bodies of more than {self.most_held} bytes are under way: send it again later"
            largest.refuse(RequestError(text, status=429, retry_after=1, wanted=self.most_held))
            self.close(largest)

    def close(self, body: RequestBody) -> None:
        """Its request is over."""
        self._coming.pop(body, None)
        self.held -= body.filled
        body.filled, body.size, body.memory = 0, 0, _NOTHING

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
