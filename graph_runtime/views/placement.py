"""A Placement as JSON-able rows and as text for people: what `plan --placement` shows. Prints nothing."""

from __future__ import annotations

from typing import Any

from ..plan.placing.causes import time_text
from ..plan.types import Placement
from .report import table

__all__ = ["describe", "text"]

Row = dict[str, Any]


def describe(placement: Placement) -> Row:
    """{"nodes": Placement.report(), and what Placement.summary() has}."""
    return {"nodes": placement.report(), **placement.summary()}


def text(placement: Placement, width: int | None = None, nodes: bool = True) -> str:
    """The table of ``nodes`` with their copies, the sums, and the predictions. ``width``: of the terminal."""
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
    parts.append(
        "predicted: no placement takes less than the bound; optimal: proved\n"
        + table(predicted, columns, width)
    )
    if said["elsewhere"]:
        parts.append(
            f"{len(said['elsewhere'])} nodes run elsewhere than asked: "
            + ", ".join(row["node"] for row in said["elsewhere"])
        )
    return "\n\n".join(parts) + "\n"


def _nodes(rows: list[Row], width: int | None) -> str:
    shown = [
        {
            **row,
            "asked": row["asked"] or "",
            "copies": [_copy(c) for c in row["copies"]],
            "time": time_text(row["ns"]),
        }
        for row in rows
    ]
    title = "placement: where each node runs, copies of what it makes, and why\n"
    return title + table(shown, ("node", "op", "asked", "device", "time", "copies", "why"), width)


def _copy(copy: Row) -> str:
    return f"to {copy['to']} {copy['bytes']} B {time_text(copy['ns'])}"
