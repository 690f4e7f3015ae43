"""A session's queued runs that may not be over: limiting their number, and waiting for all of them."""

from __future__ import annotations

from collections import deque
from typing import Any

from ...binding.core import ffi, lib
from ..queues.buffer import wait_in_slices


class InFlight:
    """A session's runs in flight, for use by any thread. ``holder`` is the name in texts of a wait."""

    def __init__(self, holder: str):
        self._holder = holder
        self._runs: deque[Any] = deque()

    def add(self, raw: Any) -> None:
        """Add a ``gr_run *``. A thread that looks at the run holds a reference to it."""
        lib.gr_run_retain(raw)
        self._runs.append(ffi.gc(raw, lib.gr_run_release))

    def wait_for_turn(self, most: int) -> None:
        """Wait for the oldest runs, until a new run makes at most ``most`` in flight."""
        runs = self._runs
        while True:
            try:
                run = runs.popleft()
            except IndexError:  # another thread has taken it, or no run is in flight
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
        """Wait until no run is in flight."""
        for run in list(self._runs):
            _wait(run, "a run")


def _wait(run: Any, what: str) -> None:
    wait_in_slices(lambda budget: lib.gr_run_wait(run, budget), None, what)
