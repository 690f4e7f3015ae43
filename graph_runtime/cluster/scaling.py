"""How many replicas a model with ``--replicas auto`` has: as many as batches wait or run, so that each runs
at once. Ray Serve's controller asks; it acts when the answer has been the same for some seconds, and keeps to
the bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["LOAD", "replicas_wanted", "wanted"]

LOAD = (
    "load"  # what replicas report, by this name: Batcher.load, which their server tells them with each ping
)


def wanted(load: float) -> int:
    """Replicas for batches that wait or run: one for each, and one at least."""
    return max(1, math.ceil(load))


def replicas_wanted(context: Any) -> tuple[int, dict[str, Any]]:
    """Ray Serve's policy. ``context``: its AutoscalingContext."""
    reported: Mapping[Any, Any] = (context.raw_metrics or {}).get(LOAD, {})
    told = [series[-1] for series in reported.values() if series]
    if not told:  # no replica has said anything yet
        return context.target_num_replicas, {}
    return wanted(max(told, key=lambda one: one.timestamp).value), {}
