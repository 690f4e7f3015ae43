"""The core grid of each tt device with the ops on it, coloured by utilisation: of a board that a balancer cut
one drawing an epoch, and one of its L1; else of the ops, which run one at a time, the slowest, each on the
cores that hold its result."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ..base.machine.descriptors import Descriptor
from ..base.machine.layout import L1
from ..ir.ops import registry
from ..plan.compute_config import node_numerics
from ..plan.types import Plan
from ..simulation.timeline import Timeline
from .svg import Svg, heat

__all__ = ["core_grids", "cores_of", "utilisation"]

_CELL, _MOST = 16, 12
_PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
_FLOPS_A_CYCLE = 4096  # of a core's multiplier: 32x32x32 products in 16 cycles, one phase


def core_grids(timeline: Timeline) -> str:
    """Drawings for each device that has a grid of cores."""
    parts, rows = [], timeline.nodes()
    for did, device in enumerate(timeline.plan.devices):
        board = device.descriptor
        cut = next((b for b in timeline.plan.balanced if b.network.device == device), None)
        if cut is not None:
            parts.append(f"<h3>{escape(str(device))}, policy {escape(cut.policy)}</h3>{_epochs(cut, board)}")
            continue
        mine = [r for r in rows if timeline.plan.did[r["nid"]] == did and r["op"] != "__copy"]
        if board.on_host or not mine:
            continue
        parts.append(
            f"<h3>{escape(str(device))}: {board.grid[0]}x{board.grid[1]} cores, one op at a time; "
            f"the slowest {min(_MOST, len(mine))} of {len(mine)}</h3>"
        )
        for row in mine[:_MOST]:
            share = utilisation(timeline.plan, row["nid"], row["ns"])
            title = f"{row['name']} ({row['op']}): {row['ns']:,} ns, utilisation {share:.0%}"
            parts.append(_drawing(board, cores_of(timeline.plan, row["nid"], board), share, title))
    return "".join(parts) or "<p>no device with cores takes part</p>"


def _epochs(cut: Any, board: Descriptor) -> str:
    """For each epoch the rectangles of its ops: kernel cycles over those of the epoch, then bytes of L1 over
    what tensors may take."""
    parts, room = [], board.memory(L1).available
    for epoch, cycles in enumerate(cut.epoch_cycles.tolist()):
        rows, columns = board.grid
        used, full = (Svg(columns * _CELL, rows * _CELL) for _ in range(2))
        for drawing in (used, full):
            drawing.rect(0, 0, columns * _CELL, rows * _CELL, "#f4f4f4", stroke="#ccc")
        for op in np.flatnonzero(cut.choice.epoch == epoch).tolist():
            model, spot = cut.model(op), cut.choice.spots[op]
            taken = model.l1_bytes + int(cut.extra[op])
            title = (
                f"{cut.network.name(op)}: {model.cycles:,} of {cycles:,} cycles, grid {model.grid[0]}x"
                f"{model.grid[1]}, {taken:,} B of L1 a core"
            )
            for drawing, share in ((used, model.cycles / max(cycles, 1)), (full, taken / room)):
                drawing.rect(
                    spot.col * _CELL,
                    spot.row * _CELL,
                    spot.cols * _CELL,
                    spot.rows * _CELL,
                    heat(share),
                    title,
                    "#555",
                )
        parts.append(
            f'<div class="grid">{used} {full}<div>epoch {epoch}: {cycles:,} cycles, '
            f"{cut.utilisation[epoch]:.0%} of all cores busy; right: L1</div></div>"
        )
    return "".join(parts)


def utilisation(plan: Plan, nid: int, ns: int) -> float:
    """Arithmetic of a node over what all multipliers of its board could do in ``ns``; 0 for an op that only a
    library knows."""
    node, board = plan.graph.node(nid), plan.devices[plan.did[nid]].descriptor
    op = registry.get(node.func.op or "") if node.func else None
    if op is None or op.is_nop or board.on_host or not ns:
        return 0.0
    phases = _PHASES.get(node_numerics(plan, nid).fidelity, 4)
    peak = board.grid[0] * board.grid[1] * _FLOPS_A_CYCLE * board.clock_mhz / 1000 / phases
    return min(
        1.0, op.flops(list(node.input_types), list(node.output_types), node.callee.attrs) / (peak * ns)
    )


def cores_of(plan: Plan, nid: int, board: Descriptor) -> np.ndarray:
    """bool [rows, columns]: the cores of the node's first result; all where it is interleaved."""
    shard = plan.layout(int(plan.graph.row_ptr[nid])).shard
    grid = np.full(board.grid, shard is None)
    if shard is not None:
        (top, left), (bottom, right) = shard.grid
        grid[top : bottom + 1, left : right + 1] = True
    return grid


def _drawing(board: Descriptor, cores: np.ndarray, share: float, title: str) -> str:
    rows, columns = board.grid
    drawing = Svg(columns * _CELL, rows * _CELL)
    for row in range(rows):
        for column in range(columns):
            fill = heat(share) if cores[row, column] else "#f4f4f4"
            drawing.rect(column * _CELL, row * _CELL, _CELL, _CELL, fill, title, "#fff")
    return f'<div class="grid">{drawing}<div>{escape(title)}</div></div>'
