"""The files of ttnn-visualizer's performance tab. Each row says that its time is simulated: the op's name
ends in ``(simulated)``, and the attributes give the basis of the time."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from io import StringIO
from typing import Any

from ...base.machine.layout import TILE, TILE_DIM
from ...costs import BASES
from ...ir.graph import NodeView
from ...plan.compute_config import node_numerics
from ..page.cores import cores_of
from . import forms
from .tables import Rows, op_name

_MARK = " (simulated)"
_MOST_INPUTS = 3  # most inputs of a row; the format has no columns for more
_AXES = "WZYX"
_OF_TENSOR = (*(f"{axis}_PAD[LOGICAL]" for axis in _AXES), "LAYOUT", "DATATYPE", "MEMORY")
_OF_OP = (
    "OP CODE, OP TYPE, GLOBAL CALL COUNT, DEVICE ID, DEVICE ARCH, ATTRIBUTES, MATH FIDELITY, "
    "CORE COUNT, AVAILABLE WORKER CORE COUNT, PARALLELIZATION STRATEGY, HOST START TS, HOST END TS, "
    "HOST DURATION [ns], DEVICE FW START CYCLE, DEVICE FW END CYCLE, OP TO OP LATENCY [ns], "
    "DEVICE FW DURATION [ns], DEVICE KERNEL DURATION [ns]"
).split(", ")
_LOG = (
    "PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, "
    "run host ID, trace id, trace id counter, zone name, type, source line, source file, meta data"
).split(", ")


def ops_results(rows: Rows) -> str:
    """The text of ops_perf_results: one row per operation with its times in ns and its tensors' shapes,
    formats and memories."""
    tensors = [f"INPUT_{i}" for i in range(_MOST_INPUTS)] + ["OUTPUT_0"]
    head = [*_OF_OP, *(f"{tensor}_{column}" for tensor in tensors for column in _OF_TENSOR)]
    free: dict[int, int] = {}  # {queue: end of the queue's last event, in ns}
    lines = []
    for number, (at, node) in enumerate(zip(rows.events, rows.nodes, strict=True), 1):
        queue = int(rows.timeline.queue[at])
        begin = int(rows.timeline.start[at] + rows.timeline.dispatch[at])
        gap = max(begin - free.get(queue, begin), 0)
        free[queue] = int(rows.timeline.end[at])
        shown = [*node.inputs[:_MOST_INPUTS], *[None] * (_MOST_INPUTS - len(node.inputs))]
        shown.append(node.outputs[0] if node.outputs else None)
        described = [cell for eid in shown for cell in _tensor(rows, eid)]
        lines.append([*_operation(rows, number, at, node, gap), *described])
    return _text([head, *lines])


def _operation(rows: Rows, number: int, at: int, node: NodeView, gap: int) -> list[Any]:
    timeline, did = rows.timeline, int(rows.plan.did[node.nid])
    device, board = rows.plan.devices[did], rows.places.board.get(did)
    begin, end = int(timeline.start[at] + timeline.dispatch[at]), int(timeline.end[at])
    attributes = {"times": f"simulated, {BASES[timeline.basis[at]]}", "node": node.name, **node.callee.attrs}
    said = [op_name(node) + _MARK, "tt_dnn_device" if board is not None else "tt_dnn_cpu", number]
    if board is None:
        return [*said, *[""] * 2, str(attributes), *[""] * 4, begin, end, end - begin, *[""] * 5]
    cores = int(cores_of(rows.plan, node.nid, device.descriptor).sum()) if node.outputs else 0
    every = device.descriptor.grid[0] * device.descriptor.grid[1]
    clock = device.descriptor.clock_mhz
    return [
        *said,
        board,
        device.descriptor.arch,
        str(attributes),
        node_numerics(rows.plan, node.nid).fidelity,
        cores,
        every,
        *[""] * 4,
        begin * clock // 1000,
        end * clock // 1000,
        gap,
        end - begin,
        end - begin,
    ]


def _tensor(rows: Rows, eid: int | None) -> list[str]:
    """The sizes of a tensor, each as ``padded[logical]``; all dimensions before the last three are multiplied
    into one size."""
    if eid is None:
        return [""] * len(_OF_TENSOR)
    layout = rows.plan.layout(eid)
    sizes = (1, 1, 1, 1, *rows.plan.graph.entry_type(eid).shape)
    last = [math.prod(sizes[:-3]), *sizes[-3:]]
    tile = (1, 1, TILE_DIM, TILE_DIM) if layout.layout == TILE else (1, 1, 1, 1)
    padded = [-(-size // side) * side for size, side in zip(last, tile, strict=True)]
    sid = int(rows.plan.sid[eid])
    board = rows.places.board.get(int(rows.plan.storage.did[sid]))
    where = "HOST" if board is None else f"DEV_{board}_{layout.memory.upper()}_{forms.sharding(layout)}"
    return [
        *(f"{a}[{b}]" for a, b in zip(padded, last, strict=True)),
        forms.tensor_layout(layout),
        forms.dtype(layout),
        where,
    ]


def device_log(rows: Rows) -> str:
    """The text of profile_log_device: begin and end of each operation on core 0 of its board, in cycles of
    the board's clock."""
    boards = {number: rows.plan.devices[did].descriptor for did, number in rows.places.board.items()}
    first = boards[0]
    cores = first.grid[0] * first.grid[1]
    lines = []
    for number, (at, node) in enumerate(zip(rows.events, rows.nodes, strict=True), 1):
        board = rows.places.board.get(int(rows.plan.did[node.nid]))
        if board is None:
            continue
        begin = int(rows.timeline.start[at] + rows.timeline.dispatch[at])
        zone = op_name(node) + _MARK
        for timer, (kind, ns) in enumerate((("ZONE_START", begin), ("ZONE_END", int(rows.timeline.end[at])))):
            cycle = ns * boards[board].clock_mhz // 1000
            lines.append(
                [board, 0, 0, "TRISC_1", timer, cycle, 0, number, "", "", zone, kind, 0, "simulated", ""]
            )
    told = f"ARCH: {first.arch}, CHIP_FREQ[MHz]: {first.clock_mhz}, Max Compute Cores: {cores}, simulated\n"
    return told + _text([_LOG, *lines])


def _text(lines: Iterable[list[Any]]) -> str:
    """The lines as text, with commas between the values of a line."""
    file = StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()
