"""A plan in one screen: devices, ops, copies, the peak of each memory, the values that fill it, and the
reasons for the devices of nodes. `plan` prints it for a large model, a notebook for every plan.

    digest(plan) -> {"devices", "ops", "copies", "memories", "largest", "causes"}: lists of rows
    digest_text(plan, width) -> the same rows, as text tables
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from ..ir.graph import COPY
from ..plan.columns import find_values, func_mask
from ..plan.types import Plan
from . import report

MOST_NODES = 80  # most nodes of a plan that `plan` prints in full, not as a digest
_TOP, _TOP_CAUSES = 10, 3
Row = dict[str, Any]
# part -> (title, columns)
TITLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "devices": ("devices", ("device", "nodes", "copies_in", "bytes_in")),
    "ops": (f"ops: the {_TOP} most frequent", ("op", "nodes", "devices")),
    "copies": ("copies", ("from", "to", "copies", "bytes", "of_inputs")),
    "memories": (
        "memories: bytes of one bank",
        ("device", "memory", "peak", "available", "used", "status", "at", "parameters"),
    ),
    "largest": (
        f"what is alive at the peak: the {_TOP} largest, bytes of one bank",
        ("device", "memory", "name", "op", "type", "bytes"),
    ),
    "causes": (
        f"why: the {_TOP_CAUSES} most frequent causes of a device; numbers are those of the first node",
        ("device", "nodes", "cause"),
    ),
}


def digest(plan: Plan) -> dict[str, list[Row]]:
    """{part: its rows}. The parts are the keys of TITLES."""
    peaks = [_peak(plan, did, index) for (did, index), peak in sorted(plan.peak.items()) if peak]
    return {
        "devices": _devices(plan),
        "ops": _ops(plan),
        "copies": _copies(plan),
        "memories": [row for row, _ in peaks],
        "largest": [row for _, rows in peaks for row in rows],
        "causes": _causes(plan),
    }


def digest_text(plan: Plan, width: int | None = None) -> str:
    """The digest as text: each table that has rows, under its title."""
    graph = plan.graph
    calls = int((graph.func_id >= 0).sum())
    parts = [
        f"{calls} nodes ({int((plan.origin < 0).sum())} copies inserted), {len(graph.inputs)} inputs, "
        f"{len(graph.outputs)} outputs, {plan.storage.count} storages"
    ]
    for part, rows in digest(plan).items():
        title, columns = TITLES[part]
        if rows:
            parts.append(f"{title}\n{report.table(rows, columns, width)}")
    return "\n\n".join(parts) + "\n"


def _devices(plan: Plan) -> list[Row]:
    moved = _copies(plan)
    return [
        {
            "device": device,
            "nodes": int(((plan.did == did) & (plan.graph.func_id >= 0)).sum()),
            "copies_in": sum(row["copies"] for row in moved if row["to"] == device),
            "bytes_in": sum(row["bytes"] for row in moved if row["to"] == device),
        }
        for did, device in enumerate(map(str, plan.devices))
    ]


def _ops(plan: Plan) -> list[Row]:
    counted: dict[str, Counter[str]] = {}
    for nid in np.flatnonzero((plan.graph.func_id >= 0) & ~func_mask(plan.graph, COPY)).tolist():
        func = plan.graph.funcs[plan.graph.func_id[nid]]
        counted.setdefault(func.op or func.name, Counter())[str(plan.devices[plan.did[nid]])] += 1
    rows: list[Row] = [
        {
            "op": op,
            "nodes": where.total(),
            "devices": [f"{n} on {device}" for device, n in where.most_common()],
        }
        for op, where in counted.items()
    ]
    return sorted(rows, key=lambda row: (-row["nodes"], row["op"]))[:_TOP]


def _copies(plan: Plan) -> list[Row]:
    """One row per pair of devices, most bytes first; The column ``of_inputs`` is the number of copies that
    run only when an input is set."""
    ways: dict[tuple[str, str], Row] = {}
    for copy in report.copies(plan):
        way = copy["from"], copy["to"]
        row = ways.setdefault(way, {"from": way[0], "to": way[1], "copies": 0, "bytes": 0, "of_inputs": 0})
        row["copies"] += 1
        row["bytes"] += copy["bytes"]
        row["of_inputs"] += copy["at_input"]
    return sorted(ways.values(), key=lambda row: -row["bytes"])


def _peak(plan: Plan, did: int, index: int) -> tuple[Row, list[Row]]:
    """(row of the memory ``index`` of device ``did``, rows of the values that are alive at that memory's
    peak)."""
    values, storage = find_values(plan.graph, plan.at_input), plan.storage
    firsts = values.firsts
    sids = plan.sid[firsts]
    here = (storage.did[sids] == did) & (storage.memory[sids] == index)
    firsts, sids = firsts[here], sids[here]
    extent, born = storage.extent[sids], np.maximum(values.born[firsts], 0)
    end = _ends(sids, born, np.minimum(values.last[firsts] + 1, plan.graph.num_nodes))
    steps = np.zeros(plan.graph.num_nodes + 1, np.int64)
    np.add.at(steps, born, extent)
    np.add.at(steps, end, -extent)
    at = int(np.argmax(np.cumsum(steps)))
    alive = np.flatnonzero((born <= at) & (end > at))
    alive = alive[np.argsort(-extent[alive], kind="stable")]
    memory, peak = plan.devices[did].descriptor.memories[index], plan.peak[did, index]
    where = {"device": str(plan.devices[did]), "memory": memory.name}
    row = {
        **where,
        "peak": int(peak),
        "available": int(memory.available),
        "used": f"{peak / memory.available:.1%}" if memory.available else "",
        "status": plan.status[did, index],
        "at": plan.graph.names[min(at, plan.graph.num_nodes - 1)],
        "parameters": int(extent[plan.graph.func_id[plan.graph.entry_nid[firsts]] < 0].sum()),
    }
    rows = []
    for which in alive[:_TOP].tolist():
        eid = int(firsts[which])
        node = plan.graph.node(plan.graph.maker(eid))
        rows.append(
            {
                **where,
                "name": node.name,
                "op": "input" if node.func is None else node.op,
                "type": str(plan.graph.entry_type(eid)),
                "bytes": int(extent[which]),
            }
        )
    return row, rows


def _ends(sids: np.ndarray, born: np.ndarray, end: np.ndarray) -> np.ndarray:
    """int64 [values]: node of the last use of each value. A value whose storage another value overwrites ends
    no later than that value is made."""
    order = np.lexsort((born, sids))
    same = sids[order[1:]] == sids[order[:-1]]
    found = end.copy()
    found[order[:-1][same]] = np.minimum(end[order[:-1]], born[order[1:]])[same]
    return found


def _causes(plan: Plan) -> list[Row]:
    rows = []
    for did, device in enumerate(plan.devices):
        mine = plan.cause_id[(plan.did == did) & (plan.graph.func_id >= 0)].tolist()
        causes = [plan.causes[cause] for cause in mine]
        alike = Counter(map(_without_numbers, causes))
        first = {_without_numbers(cause): cause for cause in reversed(causes)}
        rows += [
            {"device": str(device), "nodes": count, "cause": first[like]}
            for like, count in alike.most_common(_TOP_CAUSES)
        ]
    return rows


def _without_numbers(cause: str) -> str:
    return re.sub(r"\d+(\.\d+)?", "", cause)
