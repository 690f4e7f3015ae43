"""Tables of the overview: where nodes run and why, what bounds the time, what fills the memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...ir.graph import COPY
from ...plan.columns import func_mask
from ...simulation.estimate import bounds
from .addresses import PARAMETER, peak_of
from .shown import CALL, EARLY, Shown

_CAUSES, _OPS, _HOLDERS = 8, 12, 8  # most rows of each table
_NUMBER = re.compile(r"(?<![\w:.])\d[\d.,]*(?: (?:ns|us|ms|s|B|KB|MB|GB)\b)?")


def answers(shown: Shown, pools: list[dict[str, Any]]) -> dict[str, Any]:
    """{"placement", "time", "memory"}: the tables of the overview. ``pools``: result of pool_data()."""
    return {"placement": _placement(shown), "time": _time(shown), "memory": [_memory(pool) for pool in pools]}


def without_numbers(cause: str) -> str:
    """A cause without its numbers, so that causes that differ only in numbers form one group. For example,
    "mincut: tt:0 21.4 us" becomes "mincut: tt:0 …"."""
    return _NUMBER.sub("…", cause)


# **************** where nodes run ****************


def _placement(shown: Shown) -> dict[str, Any]:
    plan, kinds = shown.plan, shown.kinds
    total = max(sum(shown.ns.values()), 1)
    devices = []
    for did, device in enumerate(plan.devices):
        mine = np.flatnonzero((plan.did == did) & (kinds == CALL))
        ns = sum(shown.ns.get(nid, 0) for nid in mine.tolist())
        devices.append(
            {
                "device": str(device),
                "board": device.descriptor.name,
                "nodes": len(mine),
                "ns": ns,
                "share": ns / total,
            }
        )
    causes: dict[tuple[int, str], list[int]] = {}
    for nid in np.flatnonzero(kinds == CALL).tolist():
        key = int(plan.did[nid]), without_numbers(plan.causes[plan.cause_id[nid]])
        causes.setdefault(key, []).append(nid)
    rows = sorted(causes.items(), key=lambda one: -len(one[1]))
    placed = plan.placement
    return {
        "devices": devices,
        "causes": [
            {
                "device": str(plan.devices[did]),
                "nodes": len(nids),
                "cause": plan.causes[plan.cause_id[nids[0]]] if len(nids) == 1 else cause,
                "nid": nids[0],
            }
            for (did, cause), nids in rows[:_CAUSES]
        ],
        "more_causes": max(len(rows) - _CAUSES, 0),
        "copies": _copies(shown),
        "predictions": [] if placed is None or not placed.by_policy else placed.summary()["predictions"],
    }


def _copies(shown: Shown) -> list[dict[str, Any]]:
    """One row per pair of devices: the copies of every run, and the copies that are made only when an input
    is set."""
    plan, graph, kinds = shown.plan, shown.plan.graph, shown.kinds
    entry_did = plan.entry_did()
    ways: dict[tuple[int, int, bool], dict[str, int]] = {}
    is_copy = func_mask(graph, COPY)
    for nid in np.flatnonzero(is_copy).tolist():
        node = graph.node(nid)
        key = int(entry_did[node.inputs[0]]), int(plan.did[nid]), bool(kinds[nid] == EARLY)
        row = ways.setdefault(key, {"copies": 0, "bytes": 0, "ns": 0})
        row["copies"] += 1
        row["bytes"] += node.output_types[0].nbytes
        row["ns"] += shown.ns.get(nid, 0)
    return [
        {"from": str(plan.devices[a]), "to": str(plan.devices[b]), "at_input": early, **row}
        for (a, b, early), row in sorted(ways.items())
    ]


# **************** what bounds the time ****************


def _time(shown: Shown) -> dict[str, Any]:
    timeline, plan = shown.timeline, shown.plan
    bound = bounds(timeline) if len(timeline) else {}
    queue_of = dict(zip(timeline.nid.tolist(), timeline.queue.tolist(), strict=True))
    total = max(sum(shown.ns.values()), 1)
    by_bound = _sums(shown.ns.items(), lambda nid: (str(plan.devices[plan.did[nid]]), bound.get(nid, "")))
    by_op = _sums(shown.ns.items(), lambda nid: (plan.graph.node(nid).op, str(plan.devices[plan.did[nid]])))
    slow = sorted(shown.ns.items(), key=lambda one: -one[1])[:_OPS]
    facts = timeline.summary()
    return {
        "basis": next(iter(shown.timelines)),
        "latency_ns": facts["latency_ns"],
        "throughput": facts["throughput"],
        "critical_ns": facts["critical_ns"],
        "dispatch_ns": facts["dispatch_ns"],
        "runs": facts["runs"],
        "basis_shares": facts["basis_shares"],
        "queues": facts["queues"],
        "links": facts["links"],
        "bounds": [{"device": d, "bound": b, "share": ns / total, **row} for (d, b), row, ns in by_bound],
        "ops": [{"op": op, "device": d, "share": ns / total, **row} for (op, d), row, ns in by_op[:_OPS]],
        "slowest": [
            {"nid": nid, "ns": ns, "share": ns / total, "bound": bound.get(nid, ""), "queue": queue_of[nid]}
            for nid, ns in slow
        ],
    }


def _sums(times: Iterable[tuple[int, int]], key: Any) -> list[tuple[Any, dict[str, int], int]]:
    """(key, {"nodes", "ns"}, ns) for each key, longest time first. "nodes": number of nodes with that key;
    "ns" and ns: the time of these nodes."""
    found: dict[Any, dict[str, int]] = {}
    for nid, ns in times:
        row = found.setdefault(key(nid), {"nodes": 0, "ns": 0})
        row["nodes"] += 1
        row["ns"] += ns
    return [(one, row, row["ns"]) for one, row in sorted(found.items(), key=lambda pair: -pair[1]["ns"])]


# **************** what fills the memory ****************


def _memory(pool: dict[str, Any]) -> dict[str, Any]:
    """The pool's totals, and the values held at its peak."""
    values = pool["values"]
    ns, most, rows = peak_of(values)
    kinds, extents = np.array(values["kind"], np.int64), np.array(values["extent"], np.int64)
    kept = int(extents[rows][kinds[rows] == PARAMETER].sum()) if len(rows) else 0
    over = pool["peak"] > pool["available"]
    circular = pool["circular"]
    largest = max(circular["bytes"], default=0) if circular else 0
    return {
        "device": pool["device"],
        "memory": pool["memory"],
        "banks": pool["banks"],
        "peak": pool["peak"],
        "available": pool["available"],
        "share": pool["peak"] / max(pool["available"], 1),
        "bound": pool["bound"],
        "most_live": most,
        "most_live_ns": ns,
        "parameters": kept,
        "activations": most - kept,
        "gaps": max(pool["peak"] - most, 0),
        "circular": largest,
        "circular_nid": circular["nid"][circular["bytes"].index(largest)] if circular and largest else None,
        "fits": not over and (not pool["room"] or pool["peak"] + largest <= pool["room"]),
        "holders": [
            {"nid": values["nid"][row], "bytes": values["extent"][row]} for row in rows[:_HOLDERS].tolist()
        ],
    }
