"""Memory of a plan over time: which value holds which addresses of each pool, and when."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.machine.layout import L1
from ...plan.supports import circular_room
from .shown import Shown

__all__ = ["Peak", "peak_of", "pool_data"]

Peak = tuple[int, int, np.ndarray]  # ns, bytes of a bank, rows of the values that live then
ACTIVATION, PARAMETER, OUTPUT = range(3)


def pool_data(shown: Shown) -> list[dict[str, Any]]:
    """One a memory in use: {"did", "device", "memory", "banks", "bank_bytes", "available", "peak", "bound",
    "status", "most_live", "most_live_ns", "grid", "room", "values": columns, "circular": columns, "traffic"}.
    All bytes are of one bank, every bank holds the same ranges; ``traffic`` [banks][read, written] bytes of
    one run. ``grid``: of L1, whose banks are cores; ``values.cores`` is null or [top, left, bottom, right] of
    a sharded value. ``circular``: what a node's circular buffers take of each core while it runs, from the
    other end of L1's ``room``."""
    plan, found = shown.plan, []
    traffic = shown.timeline.bank_bytes() if len(shown.timeline) else {}
    circular = plan.circular_peak()
    pools = {*plan.peak, *((did, _l1(shown, did)) for did in circular)}
    for did, index in sorted(pools):
        memory = plan.devices[did].descriptor.memories[index]
        values = _values(shown, did, index)
        ns, most, _ = peak_of(values)
        banks = traffic.get((did, index))
        found.append(
            {
                "did": did,
                "device": str(plan.devices[did]),
                "memory": memory.name,
                "banks": memory.banks,
                "available": memory.available,
                "peak": plan.peak.get((did, index), 0),
                "bound": plan.lower_bound.get((did, index), 0),
                "status": plan.status.get((did, index), "optimal"),
                "most_live": most,
                "most_live_ns": ns,
                "grid": plan.devices[did].descriptor.grid if memory.name == L1 else None,
                "room": circular_room(plan.devices[did]) if memory.name == L1 else 0,
                "values": values,
                "circular": _circular(shown, did) if memory.name == L1 else None,
                "traffic": banks,
            }
        )
    return found


def _l1(shown: Shown, did: int) -> int:
    return [memory.name for memory in shown.plan.devices[did].descriptor.memories].index(L1)


def _values(shown: Shown, did: int, index: int) -> dict[str, Any]:
    """A row a value of the pool: nid of its maker, sid, begin and end ns of a run, offset, extent, kind."""
    plan, values, timeline = shown.plan, shown.values, shown.timeline
    graph, over = plan.graph, timeline.latency_ns
    start, end = _times(shown)
    maker, outputs = graph.entry_nid, set(values.of[graph.outputs].tolist())
    columns: dict[str, Any] = {
        key: [] for key in ("nid", "sid", "begin", "end", "offset", "extent", "kind", "cores")
    }
    for eid in values.firsts.tolist():
        sid = int(plan.sid[eid])
        extent = int(plan.storage.extent[sid])
        if (plan.storage.did[sid], plan.storage.memory[sid]) != (did, index) or not extent:
            continue
        born, last = int(values.born[eid]), int(values.last[eid])
        kept = last >= graph.num_nodes
        begin = start[born] if born >= 0 else 0
        shard = plan.layout(eid).shard
        row = (
            int(maker[eid]),
            sid,
            begin,
            over if kept else max(end[last], begin),
            int(plan.storage.offset[sid]),
            extent,
            PARAMETER if born < 0 else OUTPUT if eid in outputs else ACTIVATION,
            None if shard is None else [*shard.grid[0], *shard.grid[1]],
        )
        for key, value in zip(columns, row, strict=True):
            columns[key].append(value)
    return columns


def _times(shown: Shown) -> tuple[list[int], list[int]]:
    """Begin and end ns of each node in the first run; of what takes no time, those of what ran before it."""
    timeline, count = shown.timeline, shown.plan.graph.num_nodes
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    first = timeline.run == 0
    begin = int(timeline.start[first].min()) if first.any() else 0
    start[timeline.nid[first]] = timeline.start[first] - begin
    end[timeline.nid[first]] = timeline.end[first] - begin
    ran = np.zeros(count, bool)
    ran[timeline.nid[first]] = True
    before = np.maximum.accumulate(np.where(ran, np.arange(count), -1))
    quiet = np.flatnonzero(~ran & (before >= 0))
    start[quiet] = end[quiet] = end[before[quiet]]
    return start.tolist(), end.tolist()


def _circular(shown: Shown, did: int) -> dict[str, Any]:
    plan = shown.plan
    start, end = _times(shown)
    some = [] if plan.circular is None else np.flatnonzero((plan.did == did) & (plan.circular > 0)).tolist()
    some = [nid for nid in some if end[nid] > start[nid]]
    return {
        "nid": some,
        "begin": [start[nid] for nid in some],
        "end": [end[nid] for nid in some],
        "bytes": [int(plan.circular[nid]) for nid in some] if plan.circular is not None else [],
    }


def peak_of(values: dict[str, Any]) -> Peak:
    """When most bytes are held, how many, and by which rows. A storage that several values share counts
    once."""
    if not values["sid"]:
        return 0, 0, np.zeros(0, np.int64)
    begin, end, extent, sid = (np.array(values[key], np.int64) for key in ("begin", "end", "extent", "sid"))
    most, when, held = -1, 0, np.zeros(0, np.int64)
    changes: dict[int, list[tuple[int, int]]] = {}
    for row, (b, e) in enumerate(zip(begin.tolist(), np.maximum(end, begin + 1).tolist(), strict=True)):
        changes.setdefault(b, []).append((1, row))
        changes.setdefault(e, []).append((-1, row))
    users: dict[int, int] = {}
    live = 0
    for ns in sorted(changes):
        for change, row in sorted(changes[ns]):
            number = int(sid[row])
            before = users.get(number, 0)
            users[number] = before + change
            live += int(extent[row]) * ((users[number] > 0) - (before > 0))
        if live > most:
            most, when = live, ns
    held = np.flatnonzero((begin <= when) & (np.maximum(end, begin + 1) > when))
    _, once = np.unique(sid[held], return_index=True)
    return when, most, held[once][np.argsort(-extent[held[once]], kind="stable")]
