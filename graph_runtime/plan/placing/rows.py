"""A placement as rows: the device of each node, the reason, its time, and the cost of each copy. The module
makes values and prints nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .bounds import lower_bound
from .cuts import best_cut, pair_bound, priced, shared_bound
from .exact import solve
from .problem import PlacementProblem
from .schedule import NO_ROOM, OBJECTIVES, copy_table, evaluate, measure, serial_ns
from .search import singles
from .times import periods

Row = dict[str, Any]
_SMALL = 30  # most nodes of a graph whose bound comes from a search


def node_rows(problem: PlacementProblem, did: np.ndarray, asked: np.ndarray, causes: list[str]) -> list[Row]:
    """One row per node that runs, and one per input that every run copies: the keys are nid, node, op, asked
    (the requested device; None: none was requested), device, why, ns and copies. Each copy of the node's
    outputs has from, to, bytes and ns."""
    names = [str(d) for d in problem.devices]
    did = np.where(problem.graph.func_id < 0, problem.pin, did)  # the device on which the input lies
    sent = _copies(problem, did, names)
    rows = []
    for nid in range(problem.num_nodes):
        view = problem.graph.node(nid)
        if view.func is None and nid not in sent:
            continue
        wanted = names[asked[nid]] if asked[nid] >= 0 else None
        here = int(did[nid])
        rows.append(
            {
                "nid": nid,
                "node": view.name,
                "op": view.op,
                "asked": wanted,
                "device": names[here],
                "why": causes[nid] if view.func else "every run sets it, from here",
                "ns": int(problem.cost[nid, here]),
                "copies": sent.get(nid, []),
            }
        )
    return rows


def _copies(problem: PlacementProblem, did: np.ndarray, names: list[str]) -> dict[int, list[Row]]:
    """{nid: copies of the node's outputs}."""
    table, graph = copy_table(problem, did), problem.graph
    found: dict[int, list[Row]] = {}
    entry_nid = graph.entry_nid
    reads = np.zeros(table.shape, bool)
    reads[problem.use_value, did[problem.use_nid]] = True
    home = did[problem.owner]
    reads[np.arange(len(home)), home] = False
    for value, target in np.argwhere(reads).tolist():
        eid = int(problem.eid[value])
        found.setdefault(int(entry_nid[eid]), []).append(
            {
                "from": names[home[value]],
                "to": names[target],
                "bytes": graph.entry_type(eid).nbytes,
                "ns": int(table[value, target]),
            }
        )
    return found


def totals(rows: list[Row]) -> dict[str, list[Row]]:
    """{"devices": nodes and ns of each device, "copies": count, bytes and ns of each pair of devices,
    "elsewhere": rows of nodes that are not where a pin or the file asks}."""
    devices: dict[str, Row] = {}
    ways: dict[tuple[str, str], Row] = {}
    for row in rows:
        one = devices.setdefault(row["device"], {"device": row["device"], "nodes": 0, "ns": 0})
        one["nodes"] += row["op"] != "input"
        one["ns"] += row["ns"]
        for copy in row["copies"]:
            key = copy["from"], copy["to"]
            way = ways.setdefault(key, {"from": key[0], "to": key[1], "copies": 0, "bytes": 0, "ns": 0})
            way["copies"] += 1
            way["bytes"] += copy["bytes"]
            way["ns"] += copy["ns"]
    elsewhere = [row for row in rows if row["asked"] not in (None, row["device"])]
    return {"devices": list(devices.values()), "copies": list(ways.values()), "elsewhere": elsewhere}


def _free(problem: PlacementProblem) -> PlacementProblem:
    """The problem without the pins of nodes that run; inputs keep their pins."""
    return replace(problem, pin=np.where(problem.graph.func_id < 0, problem.pin, -1).astype(np.int32))


def _bound(problem: PlacementProblem, did: np.ndarray, alone: np.ndarray) -> int:
    """Lower bound in ns of all placements: the bound of a cut or a search, or else the bound for free
    copies."""
    small = int((problem.graph.func_id >= 0).sum()) <= _SMALL
    if problem.room.excess(did[None])[0]:  # pins can need more room than there is
        problem = replace(problem, room=replace(problem.room, available=problem.room.available + (1 << 50)))
    binds, two = problem.room.binds, len(problem.running) <= 2
    if problem.objective == "serial" and two and not (binds and small):
        return priced(problem, alone)[1] if binds else serial_ns(problem, best_cut(problem, alone))
    if small:
        return max(solve(problem, did).bound, lower_bound(problem))
    cuts = pair_bound(problem) if problem.objective == "serial" else shared_bound(problem)
    return max(cuts, lower_bound(problem))


def predictions(problem: PlacementProblem, did: np.ndarray) -> list[Row]:
    """One row per objective: ns of this placement, and a lower bound in ns of all placements, whatever the
    pins. The status is "optimal" if this placement's ns equals the bound, "optimal within pins" if no
    placement with these pins is better, else "feasible". Each row also has the best single device within
    pins, and its ns.
    """
    alone, free = singles(problem), _free(problem)
    pinned = bool((free.pin != problem.pin).any())
    did = np.where(problem.graph.func_id < 0, problem.pin, did)
    times = measure(problem, did[None])
    rows = []
    for objective, ns in zip(
        OBJECTIVES, (times.serial, times.makespan, periods(problem, did[None])), strict=True
    ):
        other = replace(problem, objective=objective)
        found = evaluate(other, alone)
        fits = bool(found.min() < NO_ROOM)
        bound = _bound(replace(free, objective=objective), did, alone)
        status = "optimal" if ns[0] == bound else "feasible"
        if pinned and status == "feasible" and ns[0] == _bound(other, did, alone):
            status = "optimal within pins"
        rows.append(
            {
                "objective": objective,
                "ns": int(ns[0]),
                "bound_ns": bound,
                "status": status,
                "gap_percent": round(100 * (int(ns[0]) / bound - 1), 1) if bound else 0.0,
                "single": str(problem.devices[int(np.argmin(found))]) if fits else None,
                "single_ns": int(found.min()) if fits else None,
            }
        )
    return rows
