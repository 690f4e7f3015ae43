"""Timelines of real runs: on the queues, whose threads read the clock around each instruction; or node by
node, each alone."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..costs import BASES
from ..plan.queues.lanes import Lanes, lanes
from ..run.sessions.session import Session
from ..simulation.simulation import critical_chain, needs_of
from ..simulation.timeline import Timeline

__all__ = ["queued_run", "queued_run_at", "stepped_run"]


def queued_run(session: Session) -> Timeline:
    """Run a session once on its queues, which run side by side, over its own memory. Inputs must be set.
    Raises as Run.wait."""
    return queued_run_at(session)[0]


def queued_run_at(session: Session) -> tuple[Timeline, int]:
    """The same, and when the first instruction began: ns of time.perf_counter's clock."""
    found = lanes(session.plan)
    times = np.zeros((len(found.nid), 2), np.int64)
    session.submissions().run_in_place(times)
    begin = int(times.min(initial=np.iinfo(np.int64).max))
    return _timeline(session, found, times - begin), begin


def stepped_run(session: Session, after: Callable[[int, int], None]) -> Timeline:
    """Run a session once, node by node; ``after(nid, ns)`` is called after each. Queues are those that the
    nodes would have been on. Inputs must be set. Raises as Session.run."""
    found = lanes(session.plan)
    row = np.zeros(session.graph.num_nodes, np.int64)
    row[found.nid] = np.arange(len(found.nid))
    times, begin = np.zeros((len(found.nid), 2), np.int64), time.perf_counter_ns()
    for at, nid in enumerate(session.program.nid[: session.program.main].tolist()):
        start = time.perf_counter_ns() - begin
        session.run_span(at, at + 1)
        end = time.perf_counter_ns() - begin
        times[row[nid]] = start, end
        after(nid, end - start)
    return _timeline(session, found, times)


def _timeline(session: Session, found: Lanes, times: np.ndarray) -> Timeline:
    """``times`` int64 [instrs, 2]: begin and end of each instruction of the lanes."""
    count, needs = len(found.nid), needs_of(session.plan, found)
    last, cause = [-1] * len(found.queues), []
    for i, queue in enumerate(found.qid.tolist()):
        cause.append(max((last[queue], *needs[i]), key=lambda j: times[j, 1] if j >= 0 else -1))
        last[queue] = i
    return Timeline(
        session.plan,
        found.queues,
        found.qid,
        np.zeros(count, np.int32),
        found.nid,
        times[:, 0].copy(),
        times[:, 1].copy(),
        np.zeros(count, np.int64),
        np.full(count, BASES.index("measured"), np.int8),
        np.array(cause, np.int64),
        critical_chain(needs, times[:, 1] - times[:, 0]),
        kind="measured",
    )
