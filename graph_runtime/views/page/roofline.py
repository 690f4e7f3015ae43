"""The roofline of each device: its rates, and each op as a point (operations per byte, operations per
second)."""

from __future__ import annotations

from typing import Any

from ...base.machine.devices import Device
from ...base.machine.layout import DRAM
from ...costs.cost_model import find_costs
from ..node_rates import work_of
from .cores import FLOPS_A_CYCLE, PHASES
from .shown import Shown


def roofline_data(shown: Shown) -> list[dict[str, Any]]:
    """One entry per device that runs something: {"did", "device", "gb_per_s", "roofs": [[name, GFLOP/s]],
    "source", "points": {"nid", "flops", "bytes", "ns": {label: ns}}}. "bytes" are the bytes that each op must
    read and write."""
    plan = shown.plan
    times = {
        label: dict(zip(t.nid[t.run == 0].tolist(), t.duration[t.run == 0].tolist(), strict=True))
        for label, t in shown.timelines.items()
    }
    found = []
    for did, device in enumerate(plan.devices):
        rows = []
        for nid in shown.ns:
            if plan.did[nid] != did:
                continue
            flops, nbytes = work_of(plan.graph.node(nid))
            if flops and nbytes:
                rows.append((nid, int(flops), int(nbytes)))
        if rows:
            points: dict[str, Any] = {
                "nid": [row[0] for row in rows],
                "flops": [row[1] for row in rows],
                "bytes": [row[2] for row in rows],
                "ns": {label: [ns.get(row[0]) for row in rows] for label, ns in times.items()},
            }
            found.append({"did": did, "device": str(device), **_rates(device), "points": points})
    return found


def _rates(device: Device) -> dict[str, Any]:
    board = device.descriptor
    if board.on_host or not board.clock_mhz:
        host = find_costs(None).host
        return {
            "gb_per_s": host.gb_per_s,
            "roofs": [
                ["products of packed weights", host.packed_gflops],
                ["simple arithmetic", host.simple_gflops],
            ],
            "source": f"the cost model's host, {host.basis}",
        }
    peak = board.grid[0] * board.grid[1] * FLOPS_A_CYCLE * board.clock_mhz / 1000
    memory = next((m for m in board.memories if m.name == DRAM), None)
    rate = (
        board.dram.channel_gb_per_s * memory.banks if board.dram is not None and memory is not None else None
    )
    return {
        "gb_per_s": rate,
        "roofs": [[name, peak / phases] for name, phases in PHASES.items()],
        "source": f"{board.name}: {board.grid[0]}x{board.grid[1]} cores at {board.clock_mhz} MHz, "
        "DRAM of all channels",
    }
