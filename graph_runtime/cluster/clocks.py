"""The offset of another process's clock, on this machine or another, and its error bound.

    clock = ClockOffset()
    clock.add(sent, there, received)      ns: question sent, other clock read, answer received
    clock.to_here(time_there)             ns on this clock, within clock.error

The other clock was read between ``sent`` and ``received``, so the offset is known to within half of that
time, whatever each direction took (Cristian's algorithm). The shortest of the last exchanges gives the
offset; older exchanges are dropped, because clocks of machines drift apart by some microseconds per second.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

_LAST = 64  # number of exchanges that are kept


def now() -> int:
    """Time of this process's clock in ns, by time.perf_counter, as in Runs and timelines."""
    return time.perf_counter_ns()


@dataclass
class ClockOffset:
    """The offset of one other clock; times are whole ns. ``offset``: the other clock minus this clock;
    ``error``: bound of the offset's error, None before the first exchange."""

    offset: int = 0
    error: int | None = None
    _seen: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_LAST))

    def add(self, sent: int, there: int, received: int) -> None:
        """Add an exchange. Raises ValueError for an answer before its question."""
        if received < sent:
            raise ValueError(f"an answer at {received} ns to a question at {sent} ns")
        self._seen.append(((received - sent + 1) // 2, there - (sent + received) // 2))
        self.error, self.offset = min(self._seen)

    def to_here(self, there: int) -> int:
        """The time on this process's clock, in ns, when the other clock shows ``there``."""
        return there - self.offset
