"""Chrome traces, written by --trace or by other programs.

read_trace(bytes) -> Trace --trace_page--> page data          a trace alone: time, ops, tables
                           --trace_timeline--> a timeline beside those of a plan, by names of nodes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...base.errors import DocumentError
from ...base.json_text import parse_json
from ...costs import BASES
from .bare import bare_nodes, bare_page
from .columns import Texts

_MOST_EVENTS = 500_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Trace:
    """Columns of a trace. ``devices``: names of processes; ``queues``: (name of the device, name of the
    thread) of each queue; ``events``: (queue, name, category, start in ns, length in ns, arguments) of each
    event, in order of start."""

    devices: tuple[str, ...]
    queues: tuple[tuple[str, str], ...]
    events: tuple[tuple[int, str, str, int, int, Mapping[str, Any]], ...]


def is_trace(raw: Any) -> bool:
    """Whether parsed JSON is a trace."""
    return isinstance(raw, dict) and isinstance(raw.get("traceEvents"), list)


def read_trace(text: bytes, what: str = "a trace") -> Trace:
    """The trace in a JSON object with traceEvents: the object's complete events (ph X), except events of
    category dispatch. Raises DocumentError for any other text, and for more than 500,000 events."""
    raw = parse_json(text, what)
    if not is_trace(raw):
        raise DocumentError(f"{what} has no list traceEvents: it is no trace", path="$.traceEvents")
    names: dict[tuple[Any, Any], str] = {}
    rows: list[tuple[Any, Any, Row]] = []
    for at, event in enumerate(raw["traceEvents"]):
        path = f"$.traceEvents[{at}]"
        if not isinstance(event, dict):
            raise DocumentError(f"{what}: {path} is no object", path=path)
        process, thread = event.get("pid"), event.get("tid")
        args: Row = event["args"] if isinstance(event.get("args"), dict) else {}
        if event.get("ph") == "M" and isinstance(args.get("name"), str):
            key = (process, None) if event.get("name") == "process_name" else (process, thread)
            if event.get("name") in ("process_name", "thread_name"):
                names[_hashable(key, path, what)] = args["name"]
        elif event.get("ph") == "X" and event.get("cat") != "dispatch":
            rows.append((*_hashable((process, thread), path, what), _timed(event, args, path, what)))
            if len(rows) > _MOST_EVENTS:
                said = f"{what} has more than {_MOST_EVENTS:,} events: cut it"
                raise DocumentError(said, got=len(raw["traceEvents"]))
    rows.sort(key=lambda row: row[2]["start"])
    queues = list(dict.fromkeys((process, thread) for process, thread, _ in rows))
    number = {queue: at for at, queue in enumerate(queues)}
    begin = rows[0][2]["start"] if rows else 0
    device = {process: names.get((process, None), f"process {process}") for process, _ in queues}
    return Trace(
        tuple(dict.fromkeys(device.values())),
        tuple((device[p], names.get((p, t), f"thread {t}")) for p, t in queues),
        tuple(
            (number[p, t], e["name"], e["cat"], e["start"] - begin, e["ns"], e["args"]) for p, t, e in rows
        ),
    )


def _hashable(key: tuple[Any, Any], path: str, what: str) -> tuple[Any, Any]:
    if not all(part is None or isinstance(part, int | str) for part in key):
        raise DocumentError(f"{what}: {path}: pid and tid are numbers or names", path=path)
    return key


def _timed(event: Row, args: Row, path: str, what: str) -> Row:
    times = []
    for key in ("ts", "dur"):
        value = event.get(key, 0)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and abs(value) < 1e15 and (key == "ts" or value >= 0)):
            text = f"{what}: {path}.{key} is {value!r}, no time in us"
            raise DocumentError(text, path=f"{path}.{key}", got=value)
        times.append(round(value * 1000))
    name, cat = event.get("name"), event.get("cat")
    if not isinstance(name, str):
        raise DocumentError(f"{what}: {path}.name is no text", path=f"{path}.name", got=name)
    return {
        "name": name,
        "cat": cat if isinstance(cat, str) else "",
        "start": times[0],
        "ns": times[1],
        "args": args,
    }


def trace_timeline(trace: Trace, number: Mapping[str, int], label: str) -> Row:
    """A timeline like those of timeline_data(), made of the trace's events whose names are in ``number``.
    ``number`` {name of a node: nid}. Raises DocumentError if the trace names none of the nodes."""
    known = [event for event in trace.events if event[1] in number]
    if not known:
        text = "the trace has no event with the name of a node of this model: is it another model's?"
        raise DocumentError(text)
    slots: list[int] = []
    free: dict[int, list[int]] = {}
    for queue, _, _, start, ns, _ in known:
        ends = free.setdefault(queue, [])
        slot = next((i for i, until in enumerate(ends) if until <= start), len(ends))
        ends[slot : slot + 1] = [start + ns]
        slots.append(slot)
    runs = [_int(event[5].get("run")) for event in known]
    return {
        "label": label,
        "queues": [f"{device.partition(' (')[0]} {thread}" for device, thread in trace.queues],
        "bases": [*BASES, "not said"],
        "events": {
            "queue": [event[0] for event in known],
            "slot": slots,
            "run": runs,
            "nid": [number[event[1]] for event in known],
            "start": [event[3] for event in known],
            "ns": [event[4] for event in known],
            "dispatch": [0] * len(known),
            "basis": [_basis(event[5].get("basis")) for event in known],
        },
        "flows": [],
        "critical": [
            at for at, event in enumerate(known) if event[5].get("critical") is True and not runs[at]
        ],
        "limiting": [],
        "summary": None,
    }


def _int(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0


def _basis(value: Any) -> int:
    return BASES.index(value) if value in BASES else len(BASES)


def trace_page(trace: Trace, title: str, command: str = "") -> Row:
    """The page of a trace without a plan; the page's nodes are the names of the trace's events."""
    texts = Texts()
    first: dict[str, Any] = {}
    for event in trace.events:
        first.setdefault(event[1], event)
    number = {name: at for at, name in enumerate(first)}
    device = {name: at for at, name in enumerate(trace.devices)}
    rows = list(first.values())
    args = [event[5] for event in rows]
    nodes = bare_nodes(
        texts,
        names=list(first),
        ops=[_text(arg.get("op")) or event[2] for arg, event in zip(args, rows, strict=True)],
        devices=[device[trace.queues[event[0]][0]] for event in rows],
        types=[_text(arg.get("type")) for arg in args],
        layouts=[_text(arg.get("layout")) for arg in args],
        causes=[_text(arg.get("reason")) for arg in args],
    )
    nodes["bytes"] = [_int(arg.get("bytes")) for arg in args]
    nodes["ns"] = [event[4] for event in rows]
    timelines = [trace_timeline(trace, number, "trace")] if rows else []
    return bare_page(title, command, texts, nodes, trace.devices, timelines, None)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else value if isinstance(value, str) else ""
