"""Memory of a plan over time: which addresses of each pool each value holds, and when."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.machine.layout import L1
from ...plan.supports import circular_room
from .shown import Shown

Peak = tuple[int, int, np.ndarray]  # (time in ns, bytes of a bank, rows of the values alive at that time)
ACTIVATION, PARAMETER, OUTPUT = range(3)


def pool_data(shown: Shown) -> list[dict[str, Any]]:
    """One entry per device memory in use: {"did", "device", "memory", "banks", "bank_bytes", "available",
    "peak", "bound", "status", "most_live", "most_live_ns", "grid", "room", "values": columns, "circular":
    columns, "traffic"}. All numbers of bytes are for one bank; every bank has the same ranges. ``traffic``:
    bytes of one run, [banks][read, written]. ``grid``: rows and columns of cores, for L1, whose banks are
    cores. ``values.cores``: [top, left, bottom, right] of a sharded value, else null. ``circular``: bytes of
    each core that a node's circular buffers take while the node runs, at the other end of L1's ``room``."""
    plan, found = shown.plan, []
    traffic = shown.timeline.bank_bytes() if len(shown.timeline) else {}
    circular = plan.circular_peak()
    names = {did: [memory.name for memory in plan.devices[did].descriptor.memories] for did in circular}
    for did, index in sorted({*plan.peak, *((did, all_.index(L1)) for did, all_ in names.items())}):
        memory = plan.devices[did].descriptor.memories[index]
        values = _values(shown, did, index)
        ns, most, _ = peak_of(values)
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
                "traffic": traffic.get((did, index)),
            }
        )
    return found


def _values(shown: Shown, did: int, index: int) -> dict[str, Any]:
    """Columns with one row per value of the pool: nid of the node that makes the value, sid, begin and end in
    ns of a run, offset, extent, kind."""
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
    """Begin and end ns of each node in the first run. For a node without an event, both are the end of the
    last earlier node that has an event."""
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
    """(time of the peak, its bytes, rows of the values alive then). A storage that several values share
    counts once."""
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
