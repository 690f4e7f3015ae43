"""Where the time of a run goes, by op: how often, how long, how fast, beside what the machine can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir.graph import NodeView
from ..ir.ops import registry
from ..plan.types import Plan
from .report import table

__all__ = ["op_totals", "op_totals_text", "work_of"]

_COLUMNS = ("op", "device", "count", "us", "share", "gflop_per_s", "gb_per_s")


def op_totals(plan: Plan, ns: Mapping[int, float]) -> list[dict[str, Any]]:
    """A row an op and device, the longest first: op, device, count, us, share of all, gflop_per_s (None for a
    function that only a library knows) and gb_per_s, of what it reads and writes at least once. ``ns``: what
    each node of ``plan`` took; copies are ops of their own."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    total = max(sum(ns.values()), 1e-9)
    for nid, took in ns.items():
        node = plan.graph.node(nid)
        device = str(plan.devices[plan.did[nid]])
        row = groups.setdefault((node.op, device), {"count": 0, "ns": 0.0, "flops": 0, "bytes": 0})
        row["count"] += 1
        row["ns"] += took
        flops, nbytes = work_of(node)
        row["flops"] = None if flops is None or row["flops"] is None else row["flops"] + flops
        row["bytes"] += nbytes
    rows = [
        {
            "op": op,
            "device": device,
            "count": row["count"],
            "us": row["ns"] / 1e3,
            "share": row["ns"] / total,
            "gflop_per_s": None if row["flops"] is None else row["flops"] / max(row["ns"], 1e-9),
            "gb_per_s": row["bytes"] / max(row["ns"], 1e-9),
        }
        for (op, device), row in groups.items()
    ]
    return sorted(rows, key=lambda row: -row["us"])


def work_of(node: NodeView) -> tuple[float | None, int]:
    """(floating-point operations of a node, bytes that it reads and writes at least once). The operations are
    None for a function that only a library knows."""
    types = list(node.input_types), list(node.output_types)
    nbytes = sum(t.nbytes for side in types for t in side)
    op = None if node.func is None else registry.get(node.func.op or "")
    return None if node.func is None or op is None else op.flops(*types, node.func.attrs), nbytes


def op_totals_text(rows: list[dict[str, Any]], machine: Mapping[str, Any], width: int | None = None) -> str:
    """The rows as a table, with a line of the machine's own rates below, those of run/peak.py."""
    shown = [
        {
            **row,
            "us": f"{row['us']:,.1f}",
            "share": f"{row['share']:.1%}",
            "gflop_per_s": "" if row["gflop_per_s"] is None else f"{row['gflop_per_s']:,.2f}",
            "gb_per_s": f"{row['gb_per_s']:,.2f}",
        }
        for row in rows
    ]
    return (
        table(shown, _COLUMNS, width)
        + f"\nthis machine: {machine['gflop_per_s']:,.0f} GFLOP/s in float32, "
        + f"{machine['bf16_gflop_per_s']:,.0f} in bf16, {machine['int8_gflop_per_s']:,.0f} in int8; "
        + f"{machine['gb_per_s']:,.1f} GB/s of memory"
    )
