"""Why a handle is gone that was given to a run: made when it is used, because the run may fail yet."""
from __future__ import annotations

from collections.abc import Callable

__all__ = ["Donated"]


class Donated:
    """``why`` says where it went; ``failure`` gives what went wrong in that run, if anything did so far."""

    __slots__ = ("failure", "why")

    def __init__(self, why: str, failure: Callable[[], Exception | None]):
        self.why, self.failure = why, failure

    def __str__(self) -> str:
        failed = self.failure()
        lost = "" if failed is None else f", to a run that failed ({failed}): its contents are lost"
        return self.why + lost
