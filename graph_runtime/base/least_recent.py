"""LeastRecent: a table that drops what was used longest ago, by count and by size.

programs = LeastRecent(64, 2**30)
program = programs.get(key)
if program is None:
    program = programs.put(key, compile(...), nbytes)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

__all__ = ["LeastRecent"]

Kept = TypeVar("Kept")


class LeastRecent(Generic[Kept]):
    """At most ``most`` values of at most ``most_bytes`` together (None: any size); the newest always stays.

    ``made`` counts what was put in, ``hits`` what was found again, ``dropped`` what had to go.
    ``forget(value)`` is called for each of these.
    """

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
        """The value of a key, which is the most recently used one now; None where it has none."""
        held = self._held.get(key)
        if held is None:
            return None
        self._held.move_to_end(key)
        self.hits += 1
        return held[0]

    def put(self, key: Hashable, value: Kept, nbytes: int = 0) -> Kept:
        """Keep a value under a key that has none, and drop what there is no room for; returns the value."""
        self.make_room(nbytes)
        self._held[key] = value, nbytes
        self._bytes += nbytes
        self.made += 1
        return value

    def make_room(self, nbytes: int = 0) -> None:
        """Drop values until one more of this size fits."""
        while self._held and (len(self._held) >= self.most or self._over(nbytes)):
            self.drop()

    def drop(self) -> None:
        """Drop the value that was used longest ago, if there is one."""
        if self._held:
            _, (value, nbytes) = self._held.popitem(last=False)
            self._bytes -= nbytes
            self.dropped += 1
            if self.forget is not None:
                self.forget(value)

    def clear(self) -> None:
        """Drop all."""
        while self._held:
            self.drop()

    def _over(self, nbytes: int) -> bool:
        return self.most_bytes is not None and self._bytes + nbytes > self.most_bytes
