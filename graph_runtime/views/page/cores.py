"""Cores of each tt device: if a balancer cut the board's work into epochs, the ops of each epoch, else the
cores of each op."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.machine.descriptors import Descriptor
from ...base.machine.layout import L1
from ...ir.ops import registry
from ...plan.compute_config import node_numerics
from ...plan.types import Plan
from .shown import Shown

PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
FLOPS_A_CYCLE = 4096  # operations of a core in one cycle: it multiplies 32x32x32 in 16 cycles per phase


def core_data(shown: Shown) -> list[dict[str, Any]]:
    """One entry per device that has cores and runs something: {"did", "device", "grid", "policy", "epochs",
    "ops"}. ``epochs``: for a board whose work a balancer cut into epochs, each with its cycles, its
    utilisation, and a row for each op (name, nid, rectangle, cycles, bytes of L1). ``ops``: for a board whose
    ops run one at a time, a row for each op (nid, rectangle, utilisation); the rectangle is null for all
    cores."""
    found = []
    for did, device in enumerate(shown.plan.devices):
        cut = next((b for b in shown.plan.balanced if b.network.device == device), None)
        if device.descriptor.on_host or not device.descriptor.clock_mhz:
            continue
        ops = [] if cut is not None else _ops(shown, did)
        if cut is None and not ops:
            continue
        found.append(
            {
                "did": did,
                "device": str(device),
                "grid": device.descriptor.grid,
                "policy": "" if cut is None else cut.policy,
                "l1": device.descriptor.memory(L1).available,
                "epochs": [] if cut is None else _epochs(cut),
                "ops": ops,
            }
        )
    return found


def _epochs(cut: Any) -> list[dict[str, Any]]:
    found = []
    for epoch, cycles in enumerate(cut.epoch_cycles.tolist()):
        ops = []
        for op in np.flatnonzero(cut.choice.epoch == epoch).tolist():
            model, spot = cut.model(op), cut.choice.spots[op]
            ops.append(
                {
                    "name": cut.network.name(op),
                    "nid": int(cut.network.ops[op].nid),
                    "at": [spot.row, spot.col, spot.row + spot.rows - 1, spot.col + spot.cols - 1],
                    "cycles": int(model.cycles),
                    "l1": int(model.l1_bytes + cut.extra[op]),
                }
            )
        found.append({"cycles": int(cycles), "utilisation": float(cut.utilisation[epoch]), "ops": ops})
    return found


def _ops(shown: Shown, did: int) -> list[list[Any]]:
    """[nid, rectangle, utilisation] of each op of the device."""
    plan, rows = shown.plan, []
    for nid, ns in shown.ns.items():
        node = plan.graph.node(nid)
        if plan.did[nid] == did and node.func is not None and node.func.op and node.outputs:
            shard = plan.layout(node.outputs[0]).shard
            rows.append(
                [
                    nid,
                    None if shard is None else [*shard.grid[0], *shard.grid[1]],
                    round(utilisation(plan, nid, ns), 4),
                ]
            )
    return rows


def utilisation(plan: Plan, nid: int, ns: int) -> float:
    """The share of its board's multipliers that a node used. That is the node's operations, divided by the
    operations that all multipliers can do in ``ns``; 0 for an op that only a library knows."""
    node, board = plan.graph.node(nid), plan.devices[plan.did[nid]].descriptor
    op = registry.get(node.func.op or "") if node.func else None
    if op is None or op.is_nop or board.on_host or not ns:
        return 0.0
    phases = PHASES.get(node_numerics(plan, nid).fidelity, 4)
    peak = board.grid[0] * board.grid[1] * FLOPS_A_CYCLE * board.clock_mhz / 1000 / phases
    flops = op.flops(list(node.input_types), list(node.output_types), node.callee.attrs)
    return min(1.0, flops / (peak * ns))


def cores_of(plan: Plan, nid: int, board: Descriptor) -> np.ndarray:
    """bool [rows, columns]: the cores that have a shard of the node's first result; if the result is
    interleaved, all cores."""
    shard = plan.layout(int(plan.graph.row_ptr[nid])).shard
    grid = np.full(board.grid, shard is None)
    if shard is not None:
        (top, left), (bottom, right) = shard.grid
        grid[top : bottom + 1, left : right + 1] = True
    return grid
