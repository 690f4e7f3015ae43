"""One trace of several processes, of one machine or more, as Chrome's trace JSON, which Perfetto opens.

    trace = MergedTrace()
    front, replica = trace.process("front"), trace.process("replica")
    sent = Place(front, "requests", begin)               ns of this process's clock (clocks.now)
    trace.span(sent, "request 7", end)
    trace.flow("to a replica", sent, Place(replica, "runs", began))
    trace.include("replica", events, zero)               of views/trace.py, whose time 0 is then
    trace.clock("replica", offset)                       how well its times are known here
    trace.json()

Times of other processes are given as this one's clock has them: clocks.ClockOffset.to_here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from .clocks import ClockOffset

__all__ = ["MergedTrace", "Place"]

Event = dict[str, Any]


class Place(NamedTuple):
    """Where something is shown: a process, a row of it, ns. Spans of one ``lane`` are inside each other;
    those of different ones, or of none, are shown side by side where they overlap."""

    process: int
    row: str
    at: int
    lane: str = ""


@dataclass(frozen=True, slots=True)
class _Span:
    place: Place
    name: str
    end: int
    args: Mapping[str, Any]


@dataclass
class MergedTrace:
    """See the module."""

    _processes: dict[str, int] = field(default_factory=dict)
    _rows: dict[tuple[int, str], list[_Span]] = field(default_factory=dict)
    _flows: list[tuple[str, Place, Place]] = field(default_factory=list)
    _counters: list[tuple[int, int, Event]] = field(default_factory=list)  # process, ns of its 0
    _clocks: dict[str, ClockOffset] = field(default_factory=dict)

    def process(self, name: str) -> int:
        """The number of a process, a new one for a new name; they are shown in this order."""
        return self._processes.setdefault(name, len(self._processes))

    def span(self, place: Place, name: str, end: int, **args: Any) -> None:
        """Something that took from ``place.at`` to ``end``; ``args`` are shown with it."""
        self._rows.setdefault(place[:2], []).append(_Span(place, name, end, args))

    def flow(self, name: str, begin: Place, end: Place) -> None:
        """An arrow between the spans that are at two places."""
        self._flows.append((name, begin, end))

    def include(self, name: str, events: Sequence[Event], zero: int) -> Place | None:
        """Events whose time 0 is ``zero`` here: a process of theirs becomes ``NAME: theirs``. Gives the place
        of the first slice, None where there is none."""
        said = {(e["name"], e["pid"], e["tid"]): e["args"].get("name", "") for e in events if e["ph"] == "M"}
        own = {
            pid: self.process(f"{name}: {text}")
            for (kind, pid, _), text in said.items()
            if "process_n" in kind
        }
        places = []
        for event in events:
            if event["ph"] == "C":
                self._counters.append((own[event["pid"]], zero, event))
            elif event["ph"] == "X" and event["dur"] > 0:
                row = said.get(("thread_name", event["pid"], event["tid"]), "events")
                place = Place(own[event["pid"]], row, zero + round(event["ts"] * 1e3), "queue")
                places.append(place)
                self.span(place, event["name"], place.at + round(event["dur"] * 1e3), **event["args"])
        return min(places, key=lambda place: place.at, default=None)

    def clock(self, name: str, offset: ClockOffset) -> None:
        """How the clock of a process is aligned; it is said in the trace."""
        self._clocks[name] = offset

    @property
    def error(self) -> int:
        """ns by which times of another process are wrong at most."""
        return max((clock.error or 0 for clock in self._clocks.values()), default=0)

    def json(self) -> bytes:
        """The trace as one JSON object; clocks and their errors are in its ``otherData``."""
        zero = min((span.place.at for row in self._rows.values() for span in row), default=0)
        tids = {key: 1 + 1000 * at for at, key in enumerate(self._rows)}  # room for what is side by side
        slots = {key: _slots(spans) for key, spans in self._rows.items()}

        def where(place: Place) -> Event:
            tid = tids[place[:2]] + slots[place[:2]].get(_lane(place), 0)
            return {"pid": place.process, "tid": tid, "ts": (place.at - zero) / 1e3}

        clocks = {n: {"offset_ns": c.offset, "error_ns": c.error} for n, c in self._clocks.items()}
        events = [*self._names(tids), *self._slices(where), *self._arrows(where)]
        for pid, begin, event in self._counters:
            events.append({**event, "pid": pid, "ts": event["ts"] + (begin - zero) / 1e3})
        told = {"clocks": clocks, "clock_error_ns": self.error}
        return orjson.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": told})

    # **************** events ****************

    def _names(self, tids: Mapping[tuple[int, str], int]) -> list[Event]:
        rows: list[tuple[str, int, int, Event]] = []
        for name, pid in self._processes.items():
            rows += [
                ("process_name", pid, 0, {"name": name}),
                ("process_sort_index", pid, 0, {"sort_index": pid}),
            ]
        rows += [("thread_name", pid, tid, {"name": row}) for (pid, row), tid in tids.items()]
        return [
            {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args} for kind, pid, tid, args in rows
        ]

    def _slices(self, where: Callable[[Place], Event]) -> list[Event]:
        return [
            {
                "ph": "X",
                "name": span.name,
                "cat": key[1],
                **where(span.place),
                "dur": (span.end - span.place.at) / 1e3,
                "args": span.args,
            }
            for key, spans in self._rows.items()
            for span in spans
        ]

    def _arrows(self, where: Callable[[Place], Event]) -> list[Event]:
        found = []
        for number, (name, *both) in enumerate(self._flows):
            for phase, place in zip("sf", both, strict=True):
                bound = {"bp": "e"} if phase == "f" else {}
                found.append(
                    {"ph": phase, "id": number, "name": name, "cat": "flow", **where(place), **bound}
                )
        return found


def _lane(place: Place) -> str | int:
    """Spans without a lane are known by where they begin."""
    return place.lane or place.at


def _slots(spans: Sequence[_Span]) -> dict[str | int, int]:
    """{lane: its row of those side by side}: the lowest that is free from its first begin to its last end."""
    lanes: dict[str | int, tuple[int, int]] = {}
    for span in spans:
        begin, end = lanes.get(_lane(span.place), (span.place.at, span.end))
        lanes[_lane(span.place)] = min(begin, span.place.at), max(end, span.end)
    found: dict[str | int, int] = {}
    ends: list[int] = []
    for lane, (begin, end) in sorted(lanes.items(), key=lambda row: row[1]):
        slot = next((at for at, until in enumerate(ends) if until <= begin), len(ends))
        ends[slot : slot + 1] = [end]
        found[lane] = slot
    return found
