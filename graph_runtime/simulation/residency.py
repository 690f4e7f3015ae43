"""For each node, the epoch in which a balancer made it resident (plan/balance/epochs.py), and the ns that it
takes for one input there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plan.types import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Residency:
    """Residency of nodes. ``epoch`` int32 [nodes]: the node's epoch on its device, -1 if the node is not
    resident. ``ns`` int64 [nodes]: time of one input on the node's cores."""

    epoch: np.ndarray
    ns: np.ndarray


def residency(plan: Plan) -> Residency | None:
    """Residency on all boards for which a balancer divided the plan into epochs; None if there is no such
    board.

    A node of several parts counts for the epoch of its last part. Parts that are resident together form a
    pipeline, which takes the time of its slowest part; the times of parts in other epochs are added.
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
