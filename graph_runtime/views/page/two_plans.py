"""Two plans node by node: what moved, and what each change cost or gained."""

from __future__ import annotations

from typing import Any

import numpy as np

from .shown import CONSTANT, COPIED, EARLY, INPUT, Shown

__all__ = ["moved_data"]


def moved_data(one: Shown, two: Shown) -> dict[str, Any]:
    """{"rows": a row a node of either plan, matched by name, "totals": a row a quantity}. A row: name, nids
    (null: not there), devices, ns (null: it takes none), delta ns, layouts, causes, and ``what`` changed:
    "device", "layout", "time", "only in A", "only in B" or ""."""
    rows = _rows(one, two)
    counts = {
        what: sum(row["what"] == what for row in rows)
        for what in ("device", "layout", "only in A", "only in B")
    }
    return {"rows": rows, "counts": counts, "totals": _totals(one, two)}


def _rows(one: Shown, two: Shown) -> list[dict[str, Any]]:
    numbers = [
        {name: nid for nid, name in enumerate(shown.plan.graph.names) if _counts(shown, nid)}
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


def _counts(shown: Shown, nid: int) -> bool:
    """Whether a node runs on each run."""
    return shown.kinds[nid] not in (INPUT, CONSTANT, EARLY)


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
    """Rows (what, unit, A, B); of memory those of either plan, null where a plan has none."""
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
        found[
            f"peak of {plan.devices[did]} {plan.devices[did].descriptor.memories[index].name}",
            "bytes of a bank",
        ] = peak
    return found
