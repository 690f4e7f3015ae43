"""Where the time of a run goes, by op: how often, how long, how fast, beside what the machine can do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from ..ir.graph import NodeView
from ..ir.ops import registry
from ..plan.types import Plan
from .report import table

__all__ = ["machine_rates", "op_totals", "op_totals_text", "work_of"]

# of the product and the copy that the machine is measured by
_SIDE, _COPIED, _SECONDS, _TRIES = 384, 32 << 20, 0.2, 3
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


@cache
def machine_rates() -> dict[str, float]:
    """What this machine does at its best, measured once: gflop_per_s of numpy's product of float32 matrices,
    gb_per_s of its copy (what is read and what is written), all its threads."""
    a = np.ones((_SIDE, _SIDE), np.float32)
    source = np.ones(_COPIED, np.uint8)
    target = np.empty_like(source)
    product = _least(lambda: a @ a)
    copy = _least(lambda: np.copyto(target, source))
    return {"gflop_per_s": 2 * _SIDE**3 / product / 1e9, "gb_per_s": 2 * _COPIED / copy / 1e9}


def op_totals_text(rows: list[dict[str, Any]], width: int | None = None) -> str:
    """The rows as a table, with a line of the machine's own rates below."""
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
    rates = machine_rates()
    return (
        table(shown, _COLUMNS, width)
        + f"\nthis machine: {rates['gflop_per_s']:,.0f} GFLOP/s in numpy's product, "
        + f"{rates['gb_per_s']:,.1f} GB/s in its copy"
    )


def _least(call: Any) -> float:
    """Seconds of the fastest of a few calls, and of as many as some time has: others may use the machine."""
    found: list[float] = []
    while len(found) <= _TRIES or sum(found) < _SECONDS:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found[1:])
