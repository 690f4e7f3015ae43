"""The trace of a server: requests from their arrival to their answer, the runs of replicas, and of the first
runs every node, as the session of the replica measured it.

    trace = RequestTrace()        an Observer of the Dispatcher; the Front tells it of requests
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

__all__ = ["RequestTrace"]

_REQUESTS = 20_000  # the last ones are kept
_DETAILED = 100  # runs with all their nodes: the first ones


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
    """See the module."""

    _asked: deque[_Asked] = field(default_factory=lambda: deque(maxlen=_REQUESTS))
    _ran: deque[_Ran] = field(default_factory=lambda: deque(maxlen=_REQUESTS))
    _with_nodes: list[_Ran] = field(default_factory=list)
    _detailed: int = 0

    def wants_events(self) -> bool:
        """Whether the next run is one of the first."""
        self._detailed += 1
        return self._detailed <= _DETAILED

    def ran(self, remote: Remote, ids: Sequence[str], head: Mapping[str, Any], sent: int) -> None:
        """A run was answered."""
        kept = self._with_nodes if head["events"] else self._ran
        kept.append(
            _Ran(remote, ids, {k: head[k] for k in ("began", "ended", "events", "zero")}, sent, now())
        )

    def asked(self, id: str, model: str, arrived: int, read: int, status: int) -> None:
        """A request was answered: when it arrived and its body had been read, of clocks.now."""
        self._asked.append(_Asked(id, model, arrived, read, now(), status))

    def merged(self) -> MergedTrace:
        """All of it, on this process's clock."""
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
    """A run in its replica, and the arrows from and to the requests that it is for."""
    name, clock = f"replica, {run.remote}", run.remote.clock
    trace.clock(name, clock)
    replica = trace.process(name)
    began, ended = clock.to_here(run.head["began"]), clock.to_here(run.head["ended"])
    begin = Place(replica, "runs", began, str(began))
    trace.span(begin, f"run for {len(run.ids)}", ended, requests=list(run.ids))
    for id in run.ids:
        if (one := requests.get(id)) is None or not one.read <= run.sent <= run.received <= one.answered:
            continue  # it was answered by another replica, or is no longer kept
        sent = Place(front, "requests", run.sent, id)
        trace.span(Place(front, "requests", one.read, id), "queue", run.sent)
        trace.span(sent, "with a replica", run.received)
        trace.flow("to a replica", sent, begin)
        trace.flow("answer", begin._replace(at=ended), sent._replace(at=run.received))
    first = trace.include(name, run.head["events"], clock.to_here(run.head["zero"]))
    if first is not None:
        trace.flow("session", begin, first)
