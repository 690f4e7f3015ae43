"""Two plans compared node by node: what moved, and how much time each change costs or saves."""

from __future__ import annotations

from typing import Any

import numpy as np

from .shown import CONSTANT, COPIED, EARLY, INPUT, Shown


def moved_data(one: Shown, two: Shown) -> dict[str, Any]:
    """{"rows": one row per node of either plan, matched by name, "totals": one row per quantity}. A row of a
    node has its name, nids (null: the plan lacks the node), devices, ns (null: the node takes no time), delta
    ns, layouts and causes. ``what`` names the change: "device", "layout", "time", "only in A", "only in B",
    or "" for no change."""
    rows = _rows(one, two)
    counts = {
        what: sum(row["what"] == what for row in rows)
        for what in ("device", "layout", "only in A", "only in B")
    }
    return {"rows": rows, "counts": counts, "totals": _totals(one, two)}


def _rows(one: Shown, two: Shown) -> list[dict[str, Any]]:
    quiet = (INPUT, CONSTANT, EARLY)  # kinds of nodes that run only when inputs are set, or not at all
    numbers = [
        {name: nid for nid, name in enumerate(shown.plan.graph.names) if shown.kinds[nid] not in quiet}
        for shown in (one, two)
    ]
    rows = []
    for name in dict.fromkeys([*numbers[0], *numbers[1]]):
        nids = [number.get(name) for number in numbers]
        sides = [_side(shown, nid) for shown, nid in zip((one, two), nids, strict=True)]
        ns = [side["ns"] or 0 for side in sides]
        rows.append(
            {
                "name": name,
                "nids": nids,
                "op": next(side["op"] for side in sides if side["op"]),
                **{key: [side[key] for side in sides] for key in ("device", "ns", "layout", "cause")},
                "delta": ns[1] - ns[0],
                "what": _what(nids, sides),
            }
        )
    return sorted(rows, key=lambda row: -abs(row["delta"]))


def _side(shown: Shown, nid: int | None) -> dict[str, Any]:
    if nid is None:
        return {"device": None, "ns": None, "layout": None, "cause": None, "op": ""}
    plan, node = shown.plan, shown.plan.graph.node(nid)
    return {
        "device": str(plan.devices[plan.did[nid]]),
        "ns": shown.ns.get(nid),
        "layout": ", ".join(str(plan.layout(e)) for e in node.outputs),
        "cause": plan.causes[plan.cause_id[nid]],
        "op": node.op,
    }


def _what(nids: list[int | None], sides: list[dict[str, Any]]) -> str:
    if nids[1] is None:
        return "only in A"
    if nids[0] is None:
        return "only in B"
    for what in ("device", "layout"):
        if sides[0][what] != sides[1][what]:
            return what
    return "time" if sides[0]["ns"] != sides[1]["ns"] else ""


def _totals(one: Shown, two: Shown) -> list[dict[str, Any]]:
    """Rows (name of a quantity, unit, value of plan A, value of plan B). Each memory of either plan has a
    row; the value is null if a plan lacks that memory."""
    sums = [_sums(shown) for shown in (one, two)]
    keys = dict.fromkeys([*sums[0], *sums[1]])
    return [
        {"what": what, "unit": unit, "values": [side.get((what, unit)) for side in sums]}
        for what, unit in keys
    ]


def _sums(shown: Shown) -> dict[tuple[str, str], float]:
    plan, timeline = shown.plan, shown.timeline
    copies = np.flatnonzero(shown.kinds == COPIED).tolist()
    nbytes = sum(plan.graph.entry_type(int(plan.graph.row_ptr[nid])).nbytes for nid in copies)
    found: dict[tuple[str, str], float] = {
        ("latency", "ns"): timeline.latency_ns,
        ("throughput", "runs a second"): timeline.throughput,
        ("critical path", "ns"): timeline.critical_ns,
        ("copies of every run", ""): len(copies),
        ("bytes that they copy", "bytes"): nbytes,
    }
    for did, device in enumerate(plan.devices):
        mine = [ns for nid, ns in shown.ns.items() if plan.did[nid] == did]
        found[f"nodes on {device}", ""] = len(mine)
        found[f"time on {device}", "ns"] = sum(mine)
    for (did, index), peak in sorted(plan.peak.items()):
        memory = plan.devices[did].descriptor.memories[index].name
        found[f"peak of {plan.devices[did]} {memory}", "bytes of a bank"] = peak
    return found
