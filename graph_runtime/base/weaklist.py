"""WeakList: what is alive of all that was put into it. Adding is cheap: every tensor does it."""

from __future__ import annotations

from typing import Any

from .locks import new_rlock

__all__ = ["WeakList"]

_LEAST = 256  # references that may lie in a list before it is swept
_lock = new_rlock()  # while a list is read or swept; adding needs none


class WeakList(list[Any]):
    """Of ``weakref.ref`` objects, which are appended; with more than ``most`` of them, sweep."""

    __slots__ = ("most",)

    most: int

    def __init__(self) -> None:
        super().__init__()
        self.most = _LEAST

    def sweep(self) -> None:
        """Take out the references to what is gone. What other threads append meanwhile stays, at the end."""
        with _lock:
            count = len(self)
            self[:count] = [ref for ref in self[:count] if ref() is not None]
            self.most = max(_LEAST, 2 * len(self))

    def alive(self) -> list[Any]:
        """What is alive now, in the order in which it was put in."""
        with _lock:
            refs = self[:]
        return [found for found in [ref() for ref in refs] if found is not None]
