"""Which ops are resident together, and for how long one input keeps each: the epochs that a balancer chose
(plan/balance/epochs.py), by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plan.types import Plan

__all__ = ["Residency", "residency"]


@dataclass(frozen=True, slots=True, eq=False)
class Residency:
    """``epoch`` int32 [nodes]: of the node's device, -1 where it is not resident; ``ns`` int64 [nodes]: what
    one input takes on its cores."""

    epoch: np.ndarray
    ns: np.ndarray


def residency(plan: Plan) -> Residency | None:
    """Of all boards of the plan that a balancer cut; None where there is none.

    A node of several parts is in the epoch of its last; parts that are resident together form a pipeline, so
    the slowest of them counts, and parts of other epochs come before it.
    """
    if not plan.balanced:
        return None
    count = plan.graph.num_nodes
    found = Residency(np.full(count, -1, np.int32), np.zeros(count, np.int64))
    for balanced in plan.balanced:
        _read(found, balanced)
    return found


def _read(found: Residency, balanced: Any) -> None:
    clock = balanced.network.device.descriptor.clock_mhz
    slowest: dict[tuple[int, int], int] = {}
    for op, candidates in enumerate(balanced.network.ops):
        key = candidates.nid, int(balanced.choice.epoch[op])
        slowest[key] = max(slowest.get(key, 0), int(balanced.limiter[op]))
    for (nid, epoch), cycles in slowest.items():
        found.epoch[nid] = max(found.epoch[nid], epoch)
        found.ns[nid] += round(cycles * 1000 / clock)
