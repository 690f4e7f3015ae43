"""One trace of several processes, on one or more machines, as Chrome's trace JSON, which Perfetto opens.

    trace = MergedTrace()
    front, replica = trace.process("front"), trace.process("replica")
    sent = Place(front, "requests", begin)               ns on this process's clock (clocks.now)
    trace.span(sent, "request 7", end)
    trace.flow("to a replica", sent, Place(replica, "runs", began))
    trace.include("replica", events, zero)               from views/trace.py; zero: ns at the events' time 0
    trace.clock("replica", offset)                       records the error of the replica's times
    trace.json()

Times of other processes are converted to the clock of this process: clocks.ClockOffset.to_here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from .clocks import ClockOffset

Event = dict[str, Any]


class Place(NamedTuple):
    """A place in the trace: a process, a row of that process, and a time in ns. Spans with the same ``lane``
    are nested in one line; spans of different lanes, or without a lane, are drawn side by side if they
    overlap."""

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
    """The trace, built call by call."""

    _processes: dict[str, int] = field(default_factory=dict)
    _rows: dict[tuple[int, str], list[_Span]] = field(default_factory=dict)
    _flows: list[tuple[str, Place, Place]] = field(default_factory=list)
    _counters: list[tuple[int, int, Event]] = field(default_factory=list)  # (pid, time 0 in ns, event)
    _clocks: dict[str, ClockOffset] = field(default_factory=dict)

    def process(self, name: str) -> int:
        """The number of a process; a new name gets a new number. Processes are shown in the order of their
        numbers."""
        return self._processes.setdefault(name, len(self._processes))

    def span(self, place: Place, name: str, end: int, **args: Any) -> None:
        """Add a span from ``place.at`` to ``end``. ``args``: values that are shown with the span."""
        self._rows.setdefault(place[:2], []).append(_Span(place, name, end, args))

    def flow(self, name: str, begin: Place, end: Place) -> None:
        """Add an arrow from the span at the place ``begin`` to the span at the place ``end``."""
        self._flows.append((name, begin, end))

    def include(self, name: str, events: Sequence[Event], zero: int) -> Place | None:
        """Add events from another trace, whose time 0 is ``zero`` ns on this process's clock. Each process
        that they name becomes ``NAME: its name``. Returns the place of the first slice, None without slices.
        """
        said = {(e["name"], e["pid"], e["tid"]): e["args"].get("name", "") for e in events if e["ph"] == "M"}
        names = {pid: text for (kind, pid, _), text in said.items() if kind == "process_name"}
        own = {pid: self.process(f"{name}: {text}") for pid, text in names.items()}
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
        """Record, for the trace's ``otherData``, how the clock of a process was aligned."""
        self._clocks[name] = offset

    @property
    def error(self) -> int:
        """The largest error of other processes' times, in ns."""
        return max((clock.error or 0 for clock in self._clocks.values()), default=0)

    def json(self) -> bytes:
        """The trace as one JSON object; its ``otherData`` has the clocks and their errors."""
        zero = min((span.place.at for row in self._rows.values() for span in row), default=0)
        tids = {key: 1 + 1000 * at for at, key in enumerate(self._rows)}  # numbers for spans side by side
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
            rows.append(("process_name", pid, 0, {"name": name}))
            rows.append(("process_sort_index", pid, 0, {"sort_index": pid}))
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
                event = {"ph": phase, "id": number, "name": name, "cat": "flow", **where(place)}
                found.append({**event, **({"bp": "e"} if phase == "f" else {})})
        return found


def _lane(place: Place) -> str | int:
    """The lane of a place. A place without a lane is in a lane of its own, whose name is the place's time."""
    return place.lane or place.at


def _slots(spans: Sequence[_Span]) -> dict[str | int, int]:
    """{lane: number of the line in which it is drawn}. A lane gets the lowest line that is free from the
    lane's first begin to its last end."""
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
