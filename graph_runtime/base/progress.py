"""How steps that take long say how far they are."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Count", "Tell", "silent", "uncounted"]

Tell = Callable[[str, int, int], None]  # (what is being done, steps done, steps in all: 0 where unknown)
Count = Callable[[int, int], None]  # (steps done, steps in all) of one thing


def silent(what: str, done: int, total: int) -> None:
    """A Tell for a caller that wants to hear nothing."""


def uncounted(done: int, total: int) -> None:
    """A Count for a caller that wants to hear nothing."""
