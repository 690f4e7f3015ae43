"""The rule for a run whose worker was lost: when it is run again, and with which requests.

Requests have no state, so running one twice does no harm, and its inputs are kept until it is answered. A
request that ends each worker that it meets must not end them all: after its second loss it runs alone, after
``MOST_LOSSES`` it fails.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALONE_AFTER", "MOST_LOSSES", "Patience"]

ALONE_AFTER = 2  # losses
MOST_LOSSES = 6


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a worker may be silent before its run is given to a second one as well: a ``share`` of the
    time that is left, at ``least`` so many seconds. A worker that is paused, or whose link is cut, is not
    dead and gives no error; the first answer counts."""

    share: float = 0.25
    least: float = 1.0

    def seconds(self, left: float) -> float:
        """The wait before a second worker gets the run, of ``left`` seconds until the deadline."""
        return max(self.least, self.share * left)
