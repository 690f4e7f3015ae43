"""Memory for requests' bodies, with a bound for each body and one for all bodies together. Only received
bytes count, not the bytes that a request announces: a large body gets its memory when a part of it has
arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...base.errors import RequestError

_MOST_DIGITS = 18
_FIRST = 64 << 10  # number of bytes allocated before any byte has arrived
_NOTHING = memoryview(b"")


def content_length(headers: Mapping[bytes, bytes]) -> int | None:
    """The number of bytes of a body; None if the request does not give it. Raises RequestError (400)."""
    said = headers.get(b"content-length")
    if said is None:
        return None
    text = said.decode("latin-1")
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise RequestError("Content-Length is not a number of bytes", got=text[:40])
    return int(text)


def _own_memory(nbytes: int) -> memoryview:
    return np.empty(nbytes, np.uint8).data


@dataclass(eq=False, slots=True)
class RequestBody:
    """A body of ``size`` bytes, filled from its beginning:

        body.room()[:count] = ...       memory for the next bytes, never empty before the body is whole
        body.fill(count)                these bytes have arrived

    ``memory``: the body's bytes, all of them once the body is whole. ``bodies``: the Bodies object that
    counts this body's bytes. ``refuse``: function that is called if the body must be dropped before it is
    whole."""

    size: int
    bodies: Bodies | None = None
    refuse: Callable[[RequestError], None] = lambda _: None
    filled: int = 0
    memory: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.memory = self._allocated(min(self.size, _FIRST))

    @property
    def whole(self) -> bool:
        """Whether all bytes have arrived."""
        return self.filled == self.size

    def room(self) -> memoryview:
        """Memory for the next bytes."""
        return self.memory[self.filled :]

    def fill(self, count: int) -> None:
        """Count ``count`` more bytes as arrived. Raises RequestError (429) if there is no memory for the
        rest."""
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
            text = f"there is not enough memory for a body of {self.size} bytes: send it again later"
            raise RequestError(text, status=429, retry_after=1, got=self.size) from None


@dataclass(eq=False)
class Bodies:
    """The bodies of a server. ``most``: most bytes of one body. ``most_held``: most bytes of all bodies that
    have arrived and are not answered; if there are more, the largest incomplete body is dropped.
    ``allocate``: function that allocates the memory of a body."""

    most: int = 256 << 20
    most_held: int = 1 << 30
    allocate: Callable[[int], memoryview] = _own_memory
    held: int = 0
    _coming: dict[RequestBody, None] = field(default_factory=dict)

    def open(self, headers: Mapping[bytes, bytes]) -> RequestBody:
        """A new body for the request with these headers; its bytes count as held until ``close``. Raises
        RequestError: 411, 413, 415, 429."""
        size = self._size(headers)
        whole = self.held - sum(body.filled for body in self._coming)
        if whole + size > self.most_held:
            text = f"requests of {whole} bytes are in progress: send it again later"
            raise RequestError(text, status=429, retry_after=1, got=size, wanted=self.most_held)
        body = RequestBody(size, self)
        if size:
            self._coming[body] = None
        return body

    def came(self, body: RequestBody, count: int) -> None:
        """Count ``count`` more bytes of a body; drop bodies while too many bytes are held."""
        self.held += count
        if body.whole:
            self._coming.pop(body, None)
        while self.held > self.most_held and self._coming:
            largest = max(self._coming, key=lambda one: one.filled)
            text = f"bodies of more than {self.most_held} bytes are in progress: send it again later"
            largest.refuse(RequestError(text, status=429, retry_after=1, wanted=self.most_held))
            self.close(largest)

    def close(self, body: RequestBody) -> None:
        """Release the memory of a body whose request is over."""
        self._coming.pop(body, None)
        self.held -= body.filled
        body.filled, body.size, body.memory = 0, 0, _NOTHING

    def _size(self, headers: Mapping[bytes, bytes]) -> int:
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
        if encoding.strip().lower() not in ("", "identity"):
            text = f"bodies in encoding {encoding} are not decoded: send it unencoded"
            raise RequestError(text, status=415)
        size = content_length(headers)
        if size is None:
            raise RequestError("the request has no Content-Length", status=411)
        if size > self.most:
            text = f"the body has {size} bytes, at most {self.most} are accepted"
            raise RequestError(text, status=413, wanted=self.most)
        return size
