"""LeastRecent: a table that drops the least recently used values, by count and by size.

kept = LeastRecent(64, 2**30)
one = kept.get(key)
if one is None:
    one = kept.put(key, compile(...), nbytes)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class LeastRecent(Generic[Kept]):
    """At most ``most`` values, whose sizes add up to at most ``most_bytes`` (None: any size). The newest
    value always stays.

    ``made`` counts values put in, ``hits`` values found again, ``dropped`` values dropped; ``forget(value)``
    is called for each dropped value."""

    def __init__(
        self, most: int, most_bytes: int | None = None, forget: Callable[[Kept], object] | None = None
    ):
        self.most, self.most_bytes, self.forget = most, most_bytes, forget
        self.made = self.hits = self.dropped = 0
        self._held: OrderedDict[Hashable, tuple[Kept, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[Kept]:
        """The values, the least recently used first."""
        return iter([value for value, _ in self._held.values()])

    def get(self, key: Hashable) -> Kept | None:
        """The value of a key, which becomes the most recently used one; None if the key has no value."""
        held = self._held.get(key)
        if held is None:
            return None
        self._held.move_to_end(key)
        self.hits += 1
        return held[0]

    def put(self, key: Hashable, value: Kept, nbytes: int = 0) -> Kept:
        """Keep a value under a new key, after dropping other values to make room. Returns the value."""
        self.make_room(nbytes)
        self._held[key] = value, nbytes
        self._bytes += nbytes
        self.made += 1
        return value

    def make_room(self, nbytes: int = 0) -> None:
        """Drop values until a further value of this size fits."""
        while self._held and (len(self._held) >= self.most or self._over(nbytes)):
            self.drop()

    def drop(self) -> None:
        """Drop the least recently used value, if there is one."""
        if self._held:
            _, (value, nbytes) = self._held.popitem(last=False)
            self._bytes -= nbytes
            self.dropped += 1
            if self.forget is not None:
                self.forget(value)

    def clear(self) -> None:
        """Drop all values."""
        while self._held:
            self.drop()

    def _over(self, nbytes: int) -> bool:
        return self.most_bytes is not None and self._bytes + nbytes > self.most_bytes
