"""Threads that do what comes, at once: as many as there is to do, and a few that wait for more. A pool of a
fixed size would let what waits for other messages hold up those messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

_IDLE = 8  # threads that are kept for what comes next


class Crew:
    """``name``: of its threads."""

    def __init__(self, name: str):
        self._name, self._lock = name, threading.Lock()
        self._given: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle, self._closed = 0, False

    def do(self, call: Callable[[], None]) -> None:
        """Have a thread of its own make a call, which raises nothing."""
        with self._lock:
            fresh = not self._idle
            self._idle -= not fresh
        if fresh:
            threading.Thread(target=self._work, args=([call],), name=self._name, daemon=True).start()
        else:
            self._given.put(call)

    def close(self) -> None:
        """Threads that wait end, others after what they do."""
        with self._lock:
            self._closed = True
            waiting, self._idle = self._idle, 0
        for _ in range(waiting):
            self._given.put(None)

    def _work(self, calls: list[Callable[[], None]]) -> None:
        while True:
            calls.pop()()  # it is kept no longer: it may hold memory that is shared
            with self._lock:
                if self._closed or self._idle >= _IDLE:
                    return
                self._idle += 1
            if (call := self._given.get()) is None:
                return
            calls.append(call)
            del call
