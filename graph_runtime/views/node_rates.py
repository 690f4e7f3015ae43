"""Where the time of a run goes, node by node: rates, how near they are to the machine's, and which kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.machine.devices import HOST_KERNELS
from ..run.programs.program import Kernel, Program
from .op_totals import machine_rates, work_of
from .report import table

__all__ = ["node_rates", "node_rates_text"]

_COLUMNS = ("node", "op", "device", "us", "share", "gflop_per_s", "gb_per_s", "of_peak", "kernel")


def node_rates(program: Program, ns: Mapping[int, float]) -> list[dict[str, Any]]:
    """A row a node, the longest first: node, op, device, us, share of all, gflop_per_s (None for a function
    that only a library knows), gb_per_s of what it reads and writes at least once, of_peak, kernel: the
    one built in, or the function and the file of its library. ``ns``: what each node of the program's plan
    took.

    of_peak: the least time that the machine needs for the node's operations and its bytes, whichever is
    longer, by machine_rates(), divided by what it took. It is above 1 where the node's values lie in a cache,
    as the machine's GB/s are those of memory. None where a device other than the host runs the node."""
    plan, total = program.plan, max(sum(ns.values()), 1e-9)
    kernels = {nid: program.kernels[kid] for nid, kid in zip(program.nid, program.kid, strict=True)}
    rows = []
    for nid, took in ns.items():
        node, device = plan.graph.node(nid), plan.devices[plan.did[nid]]
        flops, nbytes = work_of(node)
        kernel, took = kernels.get(nid), max(took, 1e-9)
        rows.append(
            {
                "node": node.name,
                "op": node.op,
                "device": str(device),
                "us": took / 1e3,
                "share": took / total,
                "gflop_per_s": None if flops is None else flops / took,
                "gb_per_s": nbytes / took,
                "of_peak": _least_ns(flops or 0, nbytes) / took if device.kernels == HOST_KERNELS else None,
                "kernel": "" if kernel is None else _named(kernel),
            }
        )
    return sorted(rows, key=lambda row: -row["us"])


def _named(kernel: Kernel) -> str:
    start, _, name = kernel.origin.partition(": ")
    return name if start == "built in" and name else f"{kernel.name} in {Path(kernel.origin).name}"


def _least_ns(flops: float, nbytes: float) -> float:
    rates = machine_rates()
    return max(flops / rates["gflop_per_s"], nbytes / rates["gb_per_s"])


def node_rates_text(rows: list[dict[str, Any]], width: int | None = None) -> str:
    """The rows as a table."""
    shown = [
        {
            **row,
            "us": f"{row['us']:,.1f}",
            "share": f"{row['share']:.1%}",
            "gflop_per_s": "" if row["gflop_per_s"] is None else f"{row['gflop_per_s']:,.2f}",
            "gb_per_s": f"{row['gb_per_s']:,.2f}",
            "of_peak": "" if row["of_peak"] is None else f"{row['of_peak']:.0%}",
        }
        for row in rows
    ]
    return table(shown, _COLUMNS, width)
