"""Marks in tracy's profiles. They have no effect: no profile is recorded."""

from __future__ import annotations

from typing import Any

from ...released.absent import Absent


def signpost(header: str, message: Any = None) -> None:
    """Mark a place in the profile."""


class Profiler:
    """``enable`` and ``disable`` begin and end a recording."""

    def enable(self) -> None: ...

    def disable(self) -> None: ...


def __getattr__(name: str) -> Absent:
    """Another name of tracy's, which raises Unsupported in each use."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent(f"tracy.{name}", "it measures a card")
