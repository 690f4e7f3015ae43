"""How far another process's clock is from this one's, of the same machine or not, and how well that is known.

    clock = ClockOffset()
    clock.add(sent, there, received)      ns: of a message, of this clock, the other's, and this one's again
    clock.to_here(time_there)             ns of this clock, within clock.error

The other clock was read between ``sent`` and ``received``, so the offset is known to half of the time between
them, whatever the ways take (Cristian's algorithm). The exchange that took least is the one that counts, of
the last ones: clocks of machines drift apart by some microseconds a second.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

__all__ = ["ClockOffset", "now"]

_LAST = 64  # exchanges


def now() -> int:
    """ns of the clock that is exchanged: time.perf_counter's, which Runs and timelines have, too."""
    return time.perf_counter_ns()


@dataclass
class ClockOffset:
    """See the module. Times are whole ns. ``offset``: the other clock's minus this one's; ``error``: by which
    it is wrong at most, None before the first exchange."""

    offset: int = 0
    error: int | None = None
    _seen: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_LAST))

    def add(self, sent: int, there: int, received: int) -> None:
        """An exchange more. Raises ValueError for an answer that comes before its question."""
        if received < sent:
            raise ValueError(f"an answer at {received} ns to a question at {sent} ns")
        self._seen.append(((received - sent + 1) // 2, there - (sent + received) // 2))
        self.error, self.offset = min(self._seen)

    def to_here(self, there: int) -> int:
        """A time of the other clock, as this one has it."""
        return there - self.offset
