"""Timelines of real runs, either on queues, whose threads read the clock around each instruction, or one node
at a time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ..costs import BASES
from ..plan.queues.lanes import Lanes, lanes
from ..run.sessions.session import Session
from ..simulation.simulation import critical_chain, needs_of
from ..simulation.timeline import Timeline


def queued_run(session: Session) -> Timeline:
    """Run a session once, with all its queues side by side and in its own memory, and return the timeline.
    Inputs must be set. Raises as Run.wait."""
    return queued_run_at(session)[0]


def queued_run_at(session: Session) -> tuple[Timeline, int]:
    """(timeline as of queued_run(), start of its first instruction by time.perf_counter_ns)."""
    found = lanes(session.plan)
    times = np.zeros((len(found.nid), 2), np.int64)
    session.submissions().run_in_place(times)
    begin = int(times.min(initial=np.iinfo(np.int64).max))
    return _timeline(session, found, times - begin), begin


def stepped_run(session: Session, after: Callable[[int, int], None]) -> Timeline:
    """Run a session once, node by node, and return the timeline; ``after``: function that is called with
    (nid, ns) after each node. Each event is on the queue that its node has in the plan. Inputs must be set.
    Raises as Session.run.
    """
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
    """The timeline of a run. ``found``: the instructions of the run; ``times``: int64 [instrs, 2], begin and
    end of each instruction."""
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
