"""Which queue of which device runs a node."""

from __future__ import annotations

import numpy as np

from ...ir.graph import COPY
from ..columns import func_mask
from ..types import PlacedGraph, Plan

__all__ = ["COMPUTE", "COPY_IN", "COPY_OUT", "assign_queues"]

COMPUTE, COPY_IN, COPY_OUT = "compute", "copy_in", "copy_out"
_ROLES = (COMPUTE, COPY_IN, COPY_OUT)


def assign_queues(
    plan: PlacedGraph | Plan, nid: np.ndarray
) -> tuple[tuple[tuple[int, str], ...], np.ndarray]:
    """(the queues, (did, role) each, by first use; int32 [nids], which of them runs each node).

    Copies between devices run where copy engines are: out of the device that sends to a host, into any other.
    All else computes.
    """
    graph = plan.graph
    did, role = plan.did[nid].astype(np.int64), np.zeros(len(nid), np.int64)
    at = np.flatnonzero(func_mask(graph, COPY)[nid])
    if len(at):
        source = plan.did[graph.entry_nid[graph.in_eid[graph.in_ptr[nid[at]]]]].astype(np.int64)
        host = np.array([d.descriptor.on_host for d in plan.devices])
        out = host[did[at]] & ~host[source]
        between = source != did[at]
        role[at[between & ~out]] = 1
        role[at[between & out]] = 2
        did[at[between & out]] = source[between & out]
    keys = did * len(_ROLES) + role
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    names = tuple((k // len(_ROLES), _ROLES[k % len(_ROLES)]) for k in distinct[order].tolist())
    return names, rank[inverse].astype(np.int32)
