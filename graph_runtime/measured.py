"""A Timeline of a real run: each instruction alone, one after the other, the clock read around it."""
from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .costs import BASES
from .plan.lanes import lanes
from .session import Session
from .simulation import critical_chain, needs_of
from .timeline import Timeline

__all__ = ["measured_run"]


def measured_run(session: Session, after: Callable[[int, int], None] | None = None) -> Timeline:
    """Run a session once, node by node, and say when each node ran. Inputs must be set.

    ``after(nid, ns)`` is called after each. The queues are those that the nodes would have been on; a run by
    steps has them one at a time. Raises as Session.run.
    """
    found = lanes(session.plan)
    nids = session.program.nid[:session.program.main]
    start, end = np.zeros(len(nids), np.int64), np.zeros(len(nids), np.int64)
    begin = time.perf_counter_ns()
    for at, nid in enumerate(nids.tolist()):
        start[at] = time.perf_counter_ns() - begin
        session.run_span(at, at + 1)
        end[at] = time.perf_counter_ns() - begin
        if after is not None:
            after(nid, int(end[at] - start[at]))
    row = np.zeros(session.graph.num_nodes, np.int64)
    row[found.nid] = np.arange(len(found.nid))
    count, duration = len(nids), np.zeros(len(found.nid), np.int64)
    duration[row[nids]] = end - start
    position = np.zeros(len(found.nid), np.int64)
    position[row[nids]] = np.arange(count)
    return Timeline(
        session.plan, found.queues, found.qid[row[nids]], np.zeros(count, np.int32), nids.astype(np.int64),
        start, end, np.zeros(count, np.int64), np.full(count, BASES.index("measured"), np.int8),
        np.arange(count) - 1, position[critical_chain(needs_of(session.plan, found), duration)])
