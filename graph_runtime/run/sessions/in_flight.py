"""A session's queued runs that may not be over: how many are in flight, and waiting for all of them."""

from __future__ import annotations

from collections import deque
from typing import Any

from ...binding.core import ffi, lib
from ..queues.buffer import wait_in_slices

__all__ = ["InFlight"]


class InFlight:
    """Any thread. ``holder`` is the name in texts of a wait."""

    def __init__(self, holder: str):
        self._holder = holder
        self._runs: deque[Any] = deque()

    def add(self, raw: Any) -> None:
        """Count a ``gr_run *``, with a reference that a thread holds while it looks at the run."""
        lib.gr_run_retain(raw)
        self._runs.append(ffi.gc(raw, lib.gr_run_release))

    def wait_for_turn(self, most: int) -> None:
        """Until one more run makes ``most`` in flight: wait for the oldest."""
        runs = self._runs
        while True:
            try:
                run = runs.popleft()
            except IndexError:  # another thread was faster, or nothing flies
                return
            if not lib.gr_run_done(run) and len(runs) + 1 < most:
                runs.appendleft(run)
                return
            try:
                _wait(run, f"a turn among max_in_flight={most} runs of {self._holder}")
            except BaseException:
                runs.appendleft(run)
                raise

    def drain(self) -> None:
        """Until nothing is in flight."""
        for run in list(self._runs):
            _wait(run, "a run")


def _wait(run: Any, what: str) -> None:
    wait_in_slices(lambda budget: lib.gr_run_wait(run, budget), None, what)
