"""Where the time of a run goes, node by node: rates, how near they are to the machine's, and which kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import dtypes
from ..base.machine.devices import HOST_KERNELS
from ..binding.programs.program import Kernel, Program
from ..ir.graph import NodeView
from ..ir.ops import registry
from ..ir.ops.products.packed import PAIRED
from ..ir.ops.registry import KERNEL
from ..run.peak import Peak, machine_peak
from .op_totals import work_of
from .report import table

__all__ = ["node_rates", "node_rates_text"]

_IN_PAIRS = ("matmul_pairs", "attention_pairs")
_MULTIPLIED_BY_WINDOWS = 4  # as many products as Winograd's tiles make: 144 for 36
_MOST_OF_FILE = 24  # letters of a library's name: those of the cache are hashes
_COLUMNS = ("node", "op", "device", "us", "share", "gflop_per_s", "gb_per_s", "of_peak", "kernel")


def node_rates(program: Program, ns: Mapping[int, float]) -> list[dict[str, Any]]:
    """A row a node, the longest first: node, op, device, us, share of all, gflop_per_s (None for a function
    that only a library knows), gb_per_s of what it reads and writes at least once, of_peak, kernel: the
    one built in, or the function and the file of its library. ``ns``: what each node of the program's plan
    took.

    of_peak: the least time that the machine needs for the node's operations and its bytes, whichever is
    longer, by machine_peak(), divided by what it took: operations by the instructions of the node's weights,
    those that Winograd's tiles spare left out, and bytes where a tensor of that size lies, a cache or memory.
    None where a device other than the host runs the node."""
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
    peak = machine_peak()
    attrs = node.func.attrs if node.func else {}
    made = flops / _MULTIPLIED_BY_WINDOWS if attrs.get("winograd") else flops
    return max(made / _product_rate(node, peak), nbytes / peak.moved(nbytes))


def _product_rate(node: NodeView, peak: Peak) -> float:
    """Operations a ns of the instructions that a node's kernel multiplies by."""
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
