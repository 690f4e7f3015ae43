"""Reading of binary records of unknown origin: every read is bounded, every error says what and at
which byte."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Cursor"]


class Cursor:
    """A position in little-endian bytes. ``fail(message, offset)`` makes the exception that a bad read
    raises."""

    __slots__ = ("_data", "_end", "_fail", "offset")

    offset: int

    def __init__(self, data: memoryview, fail: Callable[[str, int], Exception]):
        self._data, self._end, self._fail, self.offset = data, len(data), fail, 0

    def error(self, message: str) -> Exception:
        """The exception for a fault at the present position, for the caller to raise."""
        return self._fail(message, self.offset)

    @property
    def left(self) -> int:
        """Bytes that can still be read."""
        return self._end - self.offset

    def limit(self, nbytes: int, what: str) -> None:
        """Make the present position plus ``nbytes`` the end of what can be read."""
        if nbytes > self.left:
            raise self.error(f"{what} says it has {nbytes} bytes, {self.left} are left")
        self._end = self.offset + nbytes

    def take(self, nbytes: int, what: str) -> memoryview:
        """The next ``nbytes`` bytes, as a view."""
        if nbytes > self.left:
            raise self.error(f"truncated in {what}: it needs {nbytes} bytes, {self.left} are left")
        view = self._data[self.offset : self.offset + nbytes]
        self.offset += nbytes
        return view

    def unsigned(self, nbytes: int, what: str) -> int:
        """The next ``nbytes`` bytes as an unsigned integer."""
        return int.from_bytes(self.take(nbytes, what), "little")

    def signed(self, nbytes: int, what: str) -> int:
        """The next ``nbytes`` bytes in two's complement."""
        return int.from_bytes(self.take(nbytes, what), "little", signed=True)

    def u64(self, what: str) -> int:
        """The next eight bytes as an unsigned integer."""
        return self.unsigned(8, what)

    def count(self, least_bytes: int, what: str) -> int:
        """A u64 number of items of at least ``least_bytes`` each: more than can follow is refused before
        anything is allocated."""
        n = self.u64(what)
        if n * least_bytes > self.left:
            self.offset -= 8
            raise self.error(f"{what} is {n}, more than fits in the {self.left} bytes that are left")
        return n

    def text(self, what: str) -> str:
        """u64 length + UTF-8 bytes."""
        raw = self.take(self.count(1, f"length of the {what}"), what)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            self.offset -= len(raw)
            raise self.error(f"the {what} is not UTF-8") from None

    def texts(self, what: str, behind: int = 0) -> list[str]:
        """u64 count + so many texts, for each of which at least ``behind`` bytes more follow all of them."""
        return [self.text(what) for _ in range(self.count(8 + behind, f"number of {what}"))]

    def finished(self, what: str) -> None:
        """Raise if bytes are left."""
        if self.left:
            raise self.error(f"{self.left} bytes are left after {what}")
