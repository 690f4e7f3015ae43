"""Where the messages of runs wait until they are taken. Waits have deadlines, and runs can be called
off."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from ...base.errors import RunCancelledError, WaitTimeoutError
from ..transport.messages import Message

__all__ = ["Key", "Mailbox"]


class Key(NamedTuple):
    """Whose message: ``run`` of a ``module`` in its ``attempt``-th try, sent by ``stage`` of ``source``."""

    module: str
    run: int
    attempt: int
    source: str
    stage: int


class Mailbox:
    """Any thread. A message that comes late, of an attempt that was called off or a run that is over, is
    dropped."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._there: dict[Key, Message] = {}
        self._called_off: dict[tuple[str, int], tuple[int, str]] = {}  # up to which attempt, and why
        self._over: dict[str, int] = {}  # all runs of a module up to this one

    def put(self, key: Key, message: Message) -> None:
        """Bring a message."""
        with self._changed:
            if self._why_not(key) is None:
                self._there[key] = message
                self._changed.notify_all()

    def take(self, key: Key, end: float) -> Message:
        """The message of a key, until ``end`` (time.monotonic()). Raises WaitTimeoutError, and
        RunCancelledError where its run was called off."""
        what = f"what {key.source or 'the caller'} sends for run {key.run}"
        with self._changed:
            while key not in self._there:
                if (why := self._why_not(key)) is not None:
                    raise RunCancelledError(f"{what} is not waited for: {why}")
                left = end - time.monotonic()
                if left <= 0:
                    raise WaitTimeoutError(f"{what} did not arrive before the deadline")
                self._changed.wait(left)
            return self._there.pop(key)

    def call_off(self, module: str, run: int, attempt: int, why: str) -> None:
        """Waits end for messages of a run's attempts up to this one."""
        with self._changed:
            self._called_off[module, run] = attempt, why
            self._drop()

    def over(self, module: str, run: int) -> None:
        """All runs of a module up to this one are over; of a module that is closed, 1 << 62 are."""
        with self._changed:
            self._over[module] = max(run, self._over.get(module, -1))
            for key in [key for key in self._called_off if key[0] == module and key[1] <= run]:
                del self._called_off[key]
            self._drop()

    def _why_not(self, key: Key) -> str | None:
        if key.run <= self._over.get(key.module, -1):
            return "it is over"
        attempt, why = self._called_off.get((key.module, key.run), (-1, ""))
        return why if key.attempt <= attempt else None

    def _drop(self) -> None:
        for key in [key for key in self._there if self._why_not(key) is not None]:
            del self._there[key]
        self._changed.notify_all()
