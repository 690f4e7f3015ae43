"""tracy's marks in a profile: none is recorded, so they do nothing."""

from __future__ import annotations

from typing import Any

from ...operations.declined import Absent

__all__ = ["Profiler", "signpost"]


def signpost(header: str, message: Any = None) -> None:
    """Mark a place in the profile."""


class Profiler:
    """``enable`` and ``disable`` begin and end a recording."""

    def enable(self) -> None: ...

    def disable(self) -> None: ...


def __getattr__(name: str) -> Absent:
    """tracy's own tools: each use of one says that it is not there."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent(f"tracy.{name}")
