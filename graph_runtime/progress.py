"""How steps that take long say how far they are."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Tell", "silent"]

Tell = Callable[[str, int, int], None]  # (what is being done, steps done, steps in all: 0 where unknown)


def silent(what: str, done: int, total: int) -> None:
    """A Tell for who wants to hear nothing."""
