"""The number of replicas with ``--replicas auto``: one for each batch that waits or runs, so that all batches
run at once. Ray Serve's controller asks for this number, acts when it has been the same for some seconds, and
keeps it within the bounds of Scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

LOAD = "load"  # name of the number that replicas report: Batcher.load, which the server's pings give them


def wanted(load: float) -> int:
    """The number of replicas for ``load`` batches that wait or run: one for each batch, at least one."""
    return max(1, math.ceil(load))


def replicas_wanted(context: Any) -> tuple[int, dict[str, Any]]:
    """The scaling policy that Ray Serve calls. ``context``: its AutoscalingContext."""
    reported: Mapping[Any, Any] = (context.raw_metrics or {}).get(LOAD, {})
    told = [series[-1] for series in reported.values() if series]
    if not told:  # no replica has reported yet
        return context.target_num_replicas, {}
    return wanted(max(told, key=lambda one: one.timestamp).value), {}
