"""A Timeline as Chrome's trace JSON, which Perfetto and chrome://tracing open: one process per device, one
thread per queue, flows for copies, counters for memory.

{"traceEvents": [...], "displayTimeUnit": "ns"}; times are microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from ..costs import BASES
from ..ir.graph import COPY
from ..plan.columns import find_values
from ..plan.types import Plan
from ..simulation.timeline import Timeline

Event = dict[str, Any]


def trace_json(timeline: Timeline, notes: Sequence[str] = ()) -> bytes:
    """The trace as one JSON object; its ``otherData`` has the summary of the timeline and ``notes`` about the
    graph."""
    told = {"notes": list(notes)} if notes else {}
    other = {**timeline.summary(), **told}
    return orjson.dumps({"traceEvents": trace_events(timeline), "displayTimeUnit": "ns", "otherData": other})


def trace_events(timeline: Timeline) -> list[Event]:
    """Names of processes and threads, then slices, flows and counters."""
    threads, tid = _threads(timeline)
    return (
        _names(timeline, tid) + _slices(timeline, threads) + _flows(timeline, threads) + _counters(timeline)
    )


def _us(ns: int) -> float:
    return ns / 1000


def tracks(timeline: Timeline) -> list[tuple[int, int]]:
    """(queue, slot) of each event. Slices of one thread must nest, so events of a queue that run at the same
    time, as the ops of an epoch do, have different slots. All other events have slot 0."""
    found = [(0, 0)] * len(timeline)
    free: dict[int, list[int]] = {}
    for at in np.lexsort((np.arange(len(timeline)), timeline.start)).tolist():
        queue = int(timeline.queue[at])
        ends = free.setdefault(queue, [])
        start, end = int(timeline.start[at]), int(timeline.end[at])
        slot = next((i for i, until in enumerate(ends) if until <= start), len(ends))
        ends[slot : slot + 1] = [end]
        found[at] = queue, slot
    return found


def _threads(timeline: Timeline) -> tuple[list[tuple[int, int]], dict[tuple[int, int], int]]:
    """([(pid, tid) of each event], {track: tid})."""
    placed = tracks(timeline)
    used = sorted({*placed, *((queue, 0) for queue in range(len(timeline.queues)))})
    tid = {track: at for at, track in enumerate(used)}
    return [(timeline.queues[track[0]][0], tid[track]) for track in placed], tid


def _names(timeline: Timeline, tids: dict[tuple[int, int], int]) -> list[Event]:
    events: list[Event] = []
    for did in sorted({did for did, _ in timeline.queues}):
        device = timeline.plan.devices[did]
        for name, args in (
            ("process_name", {"name": f"{device} ({device.descriptor.name})"}),
            ("process_sort_index", {"sort_index": did}),
        ):
            events.append({"ph": "M", "name": name, "pid": did, "tid": 0, "args": args})
    for (queue, slot), tid in tids.items():
        did, role = timeline.queues[queue]
        name = f"{role}, side by side {slot}" if slot else role
        for kind, args in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": tid})):
            events.append({"ph": "M", "name": kind, "pid": did, "tid": tid, "args": args})
    return events


# **************** slices ****************


def _slices(timeline: Timeline, threads: list[tuple[int, int]]) -> list[Event]:
    """One complete event per instruction. The dispatch of the instruction is a second complete event, inside
    of the first, at its beginning."""
    plan, events = timeline.plan, list[Event]()
    critical = set(timeline.nid[timeline.chain].tolist())
    columns = (timeline.nid, timeline.start, timeline.end, timeline.dispatch, timeline.run, timeline.basis)
    facts: dict[int, tuple[str, str, Event]] = {}

    def add(name: str, kind: str, where: tuple[int, int], start: int, ns: int, args: Event) -> None:
        place = {"pid": where[0], "tid": where[1], "ts": _us(start), "dur": _us(ns)}
        events.append({"ph": "X", "name": name, "cat": kind, **place, "args": args})

    rows = zip(threads, *(column.tolist() for column in columns), strict=True)
    for where, nid, start, end, dispatch, run, basis in rows:
        if nid not in facts:
            facts[nid] = _facts(plan, nid)
        name, kind, args = facts[nid]
        own = {"run": run, "basis": BASES[basis], "critical": nid in critical}
        add(name, kind, where, start, end - start, {**args, **own})
        if dispatch:
            add("dispatch", "dispatch", where, start, dispatch, {"nid": nid})
    return events


def _facts(plan: Plan, nid: int) -> tuple[str, str, Event]:
    """(name, "copy" or "kernel", arguments of the slice) for a node."""
    node = plan.graph.node(nid)
    copy = node.func is not None and node.func.name == COPY
    return (
        node.name,
        "copy" if copy else "kernel",
        {
            "nid": nid,
            "op": node.op,
            "device": str(plan.devices[plan.did[nid]]),
            "sid": [int(plan.sid[e]) for e in node.outputs],
            "type": [str(t) for t in node.output_types],
            "layout": [str(plan.layout(e)) for e in node.outputs],
            "bytes": sum(t.nbytes for t in node.output_types),
            "reason": plan.causes[plan.cause_id[nid]],
        },
    )


# **************** flows ****************


def _flows(timeline: Timeline, threads: list[tuple[int, int]]) -> list[Event]:
    """Flows from the event that makes a value to the event that copies it, and from the copy to its first
    reader. A flow is a pair of "s" and "f" with one id."""
    plan, events, number = timeline.plan, [], 0
    values = find_values(plan.graph, plan.at_input)
    made_by = plan.graph.entry_nid
    pairs = zip(timeline.run.tolist(), timeline.nid.tolist(), strict=True)
    row = {pair: at for at, pair in enumerate(pairs)}
    readers = _first_readers(timeline, values.of)
    for at in np.flatnonzero(timeline.is_copy).tolist():
        run, nid = int(timeline.run[at]), int(timeline.nid[at])
        source = int(made_by[values.of[plan.graph.in_eid[plan.graph.in_ptr[nid]]]])
        reader = readers.get((run, int(plan.graph.row_ptr[nid])))
        for begin, end in ((row.get((run, source)), at), (at, reader)):
            if begin is None or end is None:
                continue
            middle = (int(timeline.start[begin]) + int(timeline.end[begin])) / 2
            for phase, where, ts in (("s", begin, middle), ("f", end, int(timeline.start[end]))):
                pid, tid = threads[where]
                event = {"ph": phase, "id": number, "name": "copy", "cat": "flow", "pid": pid, "tid": tid}
                events.append({**event, "ts": ts / 1000, **({"bp": "e"} if phase == "f" else {})})
            number += 1
    return events


def _first_readers(timeline: Timeline, value_of: np.ndarray) -> dict[tuple[int, int], int]:
    """{(run, first entry of a value): the first event that reads the value}."""
    graph = timeline.plan.graph
    found: dict[tuple[int, int], int] = {}
    for at in np.lexsort((np.arange(len(timeline)), timeline.start)).tolist():
        nid, run = int(timeline.nid[at]), int(timeline.run[at])
        for eid in graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]].tolist():
            found.setdefault((run, int(value_of[eid])), at)
    return found


# **************** counters ****************


def live_bytes(timeline: Timeline) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """{(did, memory): [(ns, live bytes of a bank from that time on)]} of the first run.

    A storage counts from the begin of the node that writes it to the end of its last reader.
    """
    plan, values = timeline.plan, find_values(timeline.plan.graph, timeline.plan.at_input)
    first = timeline.run == 0
    start, end = np.zeros(plan.graph.num_nodes, np.int64), np.zeros(plan.graph.num_nodes, np.int64)
    start[timeline.nid[first]], end[timeline.nid[first]] = timeline.start[first], timeline.end[first]
    over = timeline.latency_ns
    changes: dict[tuple[int, int], dict[int, int]] = {}
    spans: dict[int, list[tuple[int, int]]] = {}
    for eid in values.firsts.tolist():
        born, last = int(values.born[eid]), int(values.last[eid])
        begin = int(start[born]) if born >= 0 else 0
        until = int(end[last]) if last < plan.graph.num_nodes else over + 1
        spans.setdefault(int(plan.sid[eid]), []).append((begin, max(until, begin)))
    for sid, taken in spans.items():
        pool = int(plan.storage.did[sid]), int(plan.storage.memory[sid])
        extent, at = int(plan.storage.extent[sid]), changes.setdefault(pool, {0: 0})
        for begin, until in _joined(taken):
            at[begin] = at.get(begin, 0) + extent
            at[until] = at.get(until, 0) - extent
    return {pool: _summed(at, over) for pool, at in sorted(changes.items())}


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for begin, until in sorted(spans):
        if made and begin <= made[-1][1]:
            made[-1] = made[-1][0], max(until, made[-1][1])
        else:
            made.append((begin, until))
    return made


def _summed(changes: dict[int, int], over: int) -> list[tuple[int, int]]:
    live, points = 0, []
    for ns, change in sorted(changes.items()):
        live += change
        if ns <= over:
            points.append((ns, live))
    return points


def _counters(timeline: Timeline) -> list[Event]:
    events = []
    for (did, memory), points in live_bytes(timeline).items():
        name = f"{timeline.plan.devices[did].descriptor.memories[memory].name} bytes of a bank"
        events += [
            {"ph": "C", "name": name, "pid": did, "ts": _us(ns), "args": {"bytes": live}}
            for ns, live in points
        ]
    return events
