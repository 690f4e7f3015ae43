"""Measured times by node, with rates, their share of the machine's peak, and the kernel used; and times by
op."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import dtypes
from ..base.machine.descriptors import HOST_KERNELS
from ..ir.graph import NodeView
from ..ir.ops import registry
from ..ir.ops.products.packed import PAIRED
from ..ir.ops.registry import KERNEL
from ..plan.types import Plan
from .report import table

if TYPE_CHECKING:  # these modules import the compiled core, which work_of does without
    from ..binding.programs.program import Kernel, Program
    from ..run.peak import Peak

_IN_PAIRS = ("matmul_pairs", "attention_pairs")
_MULTIPLIED_BY_WINDOWS = 4  # products in a convolution for each product with Winograd's tiles: 144 / 36
_MOST_OF_FILE = 24  # characters; longer names of libraries are cut: those in the cache are hashes
_OF_NODES = ("node", "op", "device", "us", "share", "gflop_per_s", "gb_per_s", "of_peak", "kernel")
_OF_OPS = ("op", "device", "count", "us", "share", "gflop_per_s", "gb_per_s")


def machine_peak() -> Peak:
    """Rates of this machine, measured once a process."""
    from ..run import peak  # imports the compiled core

    return peak.machine_peak()


def node_rates(program: Program, ns: Mapping[int, float]) -> list[dict[str, Any]]:
    """One row per node, longest time first. A row has node, op, device, us, share (of the total), gflop_per_s
    (None for a function that only a library knows), gb_per_s (of the bytes that the node must read and
    write), of_peak, and kernel (name of a built-in kernel, or a function and its library's file). ``ns``:
    measured time of each node of the program's plan.

    of_peak: least time divided by the measured time; None if a device other than the host runs the node. The
    least time is the time for the node's operations or the time for its bytes, whichever is longer, at the
    rates of machine_peak(). Operations that Winograd's tiles save do not count; the other operations run at
    the rate of the instructions for the weights' type. Bytes move at the rate of the cache or memory that can
    contain a tensor of that size."""
    plan, total = program.plan, max(sum(ns.values()), 1e-9)
    kernels = {nid: program.kernels[kid] for nid, kid in zip(program.nid, program.kid, strict=True)}
    rows = []
    for nid, took in ns.items():
        node, device = plan.graph.node(nid), plan.devices[plan.did[nid]]
        flops, nbytes = work_of(node)
        kernel, took, here = kernels.get(nid), max(took, 1e-9), device.kernels == HOST_KERNELS
        rows.append(
            {
                "node": node.name,
                "op": node.op,
                "device": str(device),
                "us": took / 1e3,
                "share": took / total,
                "gflop_per_s": None if flops is None else flops / took,
                "gb_per_s": nbytes / took,
                "of_peak": _least_ns(node, flops or 0, nbytes) / took if here else None,
                "kernel": "" if kernel is None else _named(kernel),
            }
        )
    return sorted(rows, key=lambda row: -row["us"])


def _named(kernel: Kernel) -> str:
    start, _, name = kernel.origin.partition(": ")
    if start == "built in" and name:
        return name
    file = Path(kernel.origin)
    short = file.name if len(file.name) <= _MOST_OF_FILE else f"{file.stem[:12]}...{file.suffix}"
    return f"{kernel.name} in {short}"


def _least_ns(node: NodeView, flops: float, nbytes: int) -> float:
    peak, attrs = machine_peak(), node.func.attrs if node.func else {}
    made = flops / _MULTIPLIED_BY_WINDOWS if attrs.get("winograd") else flops
    return max(made / _product_rate(node, peak), nbytes / peak.moved(nbytes))


def _product_rate(node: NodeView, peak: Peak) -> float:
    """The rate, in operations per ns, of the instructions with which a node's kernel multiplies."""
    attrs, types = (node.func.attrs if node.func else {}), node.input_types
    op = registry.get(node.op)
    if (op is not None and op.pace.get("cpu") == "quantized") or attrs.get("narrow"):
        return peak.int8_gflop_per_s
    paired = attrs.get("packed") and len(types) > 1 and types[1].dtype == PAIRED
    if paired or attrs.get("rounded") or attrs.get(KERNEL) in _IN_PAIRS:
        return peak.bf16_gflop_per_s
    wide = any(dtypes.parse(t.dtype).itemsize > 4 for t in node.output_types)
    return peak.gflop_per_s / 2 if wide else peak.gflop_per_s


def node_rates_text(rows: list[dict[str, Any]], width: int | None = None) -> str:
    """The rows as a table."""
    peak = [{**row, "of_peak": "" if row["of_peak"] is None else f"{row['of_peak']:.0%}"} for row in rows]
    return table([_shown(row) for row in peak], _OF_NODES, width)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "us": f"{row['us']:,.1f}",
        "share": f"{row['share']:.1%}",
        "gflop_per_s": "" if row["gflop_per_s"] is None else f"{row['gflop_per_s']:,.2f}",
        "gb_per_s": f"{row['gb_per_s']:,.2f}",
    }


# **************** by op ****************


def op_totals(plan: Plan, ns: Mapping[int, float]) -> list[dict[str, Any]]:
    """One row per op and device, longest time first. A row has op, device, count, us, share (of the total),
    gflop_per_s (None for a function that only a library knows) and gb_per_s (of the bytes that the nodes must
    read and write). ``ns``: time of each node of ``plan``; copies are separate ops."""
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
    """(floating-point operations of a node, bytes that it must read and write). The number of operations is
    None for a function that only a library knows."""
    types = list(node.input_types), list(node.output_types)
    nbytes = sum(t.nbytes for side in types for t in side)
    op = None if node.func is None else registry.get(node.func.op or "")
    return None if node.func is None or op is None else op.flops(*types, node.func.attrs), nbytes


def op_totals_text(rows: list[dict[str, Any]], machine: Mapping[str, Any], width: int | None = None) -> str:
    """The rows as a table, followed by a line with the machine's rates. ``machine``: the rates, from
    run/peak.py."""
    return (
        table([_shown(row) for row in rows], _OF_OPS, width)
        + f"\nthis machine: {machine['gflop_per_s']:,.0f} GFLOP/s in float32, "
        + f"{machine['bf16_gflop_per_s']:,.0f} in bf16, {machine['int8_gflop_per_s']:,.0f} in int8; "
        + f"{machine['gb_per_s']:,.1f} GB/s of memory"
    )
