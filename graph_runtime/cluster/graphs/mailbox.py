"""The mailbox for messages from other machines to runs. Waits have deadlines, and runs can be called off."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from ...base.errors import RunCancelledError, WaitTimeoutError
from ..transport.messages import Message


class Key(NamedTuple):
    """The key of a message. ``source`` and ``stage``: the machine and its stage that send the message;
    ``module``, ``run`` and ``attempt``: the run for which the message is, and the attempt of that run."""

    module: str
    run: int
    attempt: int
    source: str
    stage: int


class Mailbox:
    """The messages that have arrived. Thread-safe. A message for an attempt that was called off, or for a run
    that is over, is dropped."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._there: dict[Key, Message] = {}
        self._called_off: dict[tuple[str, int], tuple[int, str]] = {}  # (last attempt called off, the reason)
        self._over: dict[str, int] = {}  # module -> number of its last finished run

    def put(self, key: Key, message: Message) -> None:
        """Add a message."""
        with self._changed:
            if self._why_not(key) is None:
                self._there[key] = message
                self._changed.notify_all()

    def take(self, key: Key, end: float) -> Message:
        """The message with the key ``key``, awaited. ``end``: end of the wait, by time.monotonic(). Raises
        WaitTimeoutError, and RunCancelledError if the run was called off."""
        what = f"the message of {key.source or 'the caller'} for run {key.run}"
        with self._changed:
            left = max(0.0, end - time.monotonic())
            came = self._changed.wait_for(lambda: key in self._there or self._why_not(key) is not None, left)
            if key in self._there:
                return self._there.pop(key)
            if came:
                raise RunCancelledError(f"{what} is no longer awaited: {self._why_not(key)}")
            raise WaitTimeoutError(f"{what} did not arrive before the deadline")

    def call_off(self, module: str, run: int, attempt: int, why: str) -> None:
        """End waits for messages to a run's attempts. ``attempt``: the last attempt that is called off;
        ``why``: the reason, which the errors of these waits give."""
        with self._changed:
            self._called_off[module, run] = attempt, why
            self._drop()

    def over(self, module: str, run: int) -> None:
        """Mark all runs of a module up to ``run`` as over; for a closed module, ``run`` is 1 << 62."""
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
