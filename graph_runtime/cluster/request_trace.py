"""The trace of a server: requests from arrival to answer, runs of replicas, and, for the first runs, every
node as measured by the replica's session.

    trace = RequestTrace()        an Observer of the Dispatcher; the Front reports requests
    trace.json()
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .clocks import now
from .dispatcher import Remote
from .merged_trace import MergedTrace, Place

_REQUESTS = 20_000  # number of requests that are kept: the last ones
_DETAILED = 100  # number of first runs that are recorded with all their nodes


@dataclass(frozen=True, slots=True)
class _Asked:
    id: str
    model: str
    arrived: int
    read: int
    answered: int
    status: int


@dataclass(frozen=True, slots=True)
class _Ran:
    remote: Remote
    ids: Sequence[str]
    head: Mapping[str, Any]
    sent: int
    received: int


@dataclass
class RequestTrace:
    """The trace, as it grows."""

    _asked: deque[_Asked] = field(default_factory=lambda: deque(maxlen=_REQUESTS))
    _ran: deque[_Ran] = field(default_factory=lambda: deque(maxlen=_REQUESTS))
    _with_nodes: list[_Ran] = field(default_factory=list)
    _detailed: int = 0

    def wants_events(self) -> bool:
        """Whether the next run is one of the first _DETAILED."""
        self._detailed += 1
        return self._detailed <= _DETAILED

    def ran(self, remote: Remote, ids: Sequence[str], head: Mapping[str, Any], sent: int) -> None:
        """Record an answered run."""
        kept = {key: head[key] for key in ("began", "ended", "events", "zero")}
        (self._with_nodes if head["events"] else self._ran).append(_Ran(remote, ids, kept, sent, now()))

    def asked(self, id: str, model: str, arrived: int, read: int, status: int) -> None:
        """Record an answered request. ``arrived``: time at which the request arrived; ``read``: time at which
        its body was complete; both by clocks.now."""
        self._asked.append(_Asked(id, model, arrived, read, now(), status))

    def merged(self) -> MergedTrace:
        """The whole trace, on this process's clock."""
        trace = MergedTrace()
        front = trace.process("front")
        requests = {one.id: one for one in self._asked}
        for one in requests.values():
            about = {"model": one.model, "status": one.status}
            whole = Place(front, "requests", one.arrived, one.id)
            trace.span(whole, f"request {one.id}", one.answered, **about)
            trace.span(whole, "read", one.read)
        for run in (*self._with_nodes, *self._ran):
            _add_run(trace, front, run, requests)
        return trace


def _add_run(trace: MergedTrace, front: int, run: _Ran, requests: Mapping[str, _Asked]) -> None:
    """Add a run of a replica, with the arrows from and to its requests."""
    name, clock = f"replica, {run.remote}", run.remote.clock
    trace.clock(name, clock)
    replica = trace.process(name)
    began, ended = clock.to_here(run.head["began"]), clock.to_here(run.head["ended"])
    begin = Place(replica, "runs", began, str(began))
    trace.span(begin, f"run for {len(run.ids)}", ended, requests=list(run.ids))
    for id in run.ids:
        if (one := requests.get(id)) is None or not one.read <= run.sent <= run.received <= one.answered:
            continue  # another run answered the request, or the request is no longer kept
        sent = Place(front, "requests", run.sent, id)
        trace.span(Place(front, "requests", one.read, id), "queue", run.sent)
        trace.span(sent, "with a replica", run.received)
        trace.flow("to a replica", sent, begin)
        trace.flow("answer", begin._replace(at=ended), sent._replace(at=run.received))
    first = trace.include(name, run.head["events"], clock.to_here(run.head["zero"]))
    if first is not None:
        trace.flow("session", begin, first)
