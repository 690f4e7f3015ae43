"""A Placement as JSON-able rows and as text, for `plan --placement`. Nothing here prints."""

from __future__ import annotations

from typing import Any

from ..plan.placing.causes import time_text
from ..plan.types import Placement
from .report import table

Row = dict[str, Any]


def describe(placement: Placement) -> Row:
    """A placement as a dict: "nodes" is Placement.report(), the other items are those of
    Placement.summary()."""
    return {"nodes": placement.report(), **placement.summary()}


def text(placement: Placement, width: int | None = None, nodes: bool = True) -> str:
    """The table of the nodes with their copies, then the sums and the predictions. ``nodes``: whether the
    table of the nodes is included. ``width``: characters of the terminal."""
    said = describe(placement)
    parts = [_nodes(said["nodes"], width)] if nodes else []
    sums = [{**row, "time": time_text(row["ns"])} for row in said["devices"]]
    parts.append(table(sums, ("device", "nodes", "time"), width))
    ways = [{**row, "time": time_text(row["ns"])} for row in said["copies"]]
    if ways:
        parts.append("copies of every run\n" + table(ways, ("from", "to", "copies", "bytes", "time"), width))
    predicted = [
        {
            "objective": row["objective"],
            "time": time_text(row["ns"]),
            "bound": time_text(row["bound_ns"]),
            "gap": f"{row['gap_percent']} %",
            "status": row["status"],
            "best single device": "none has room" if row["single"] is None else time_text(row["single_ns"]),
            "which": row["single"] or "",
        }
        for row in said["predictions"]
    ]
    columns = ("objective", "time", "bound", "gap", "status", "best single device", "which")
    title = "predicted: no placement takes less than the bound; optimal: proved\n"
    parts.append(title + table(predicted, columns, width))
    if said["elsewhere"]:
        names = ", ".join(row["node"] for row in said["elsewhere"])
        parts.append(f"{len(said['elsewhere'])} nodes run elsewhere than asked: {names}")
    return "\n\n".join(parts) + "\n"


def _nodes(rows: list[Row], width: int | None) -> str:
    shown = [
        {
            **row,
            "asked": row["asked"] or "",
            "copies": [f"to {c['to']} {c['bytes']} B {time_text(c['ns'])}" for c in row["copies"]],
            "time": time_text(row["ns"]),
        }
        for row in rows
    ]
    title = "placement: where each node runs, copies of what it makes, and why\n"
    return title + table(shown, ("node", "op", "asked", "device", "time", "copies", "why"), width)
