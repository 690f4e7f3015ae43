"""Pictures of memory: pools over steps, L1 of each core over time, bytes of each bank."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ..base.machine.layout import L1
from ..plan.lifetimes import find_values
from ..plan.types import Plan
from ..simulation.timeline import Timeline
from .svg import Svg, heat, paint

__all__ = ["bank_pictures", "l1_over_time", "memory_maps"]

Span = tuple[int, int, int, np.ndarray]  # begin, end (ns), bytes of a core, bool [cores]
_WIDTH, _HEIGHT, _LEFT = 1000, 220, 90
_MOST_CELLS = 20_000


def memory_maps(plan: Plan) -> str:
    """For each memory in use: steps to the right, addresses of a bank downwards, a rectangle a value."""
    parts, values = [], find_values(plan.graph, plan.at_input)
    producer = plan.graph.entry_nid
    firsts, count = values.firsts.tolist(), max(plan.graph.num_nodes, 1)
    for (did, memory), peak in sorted(plan.peak.items()):
        if not peak:
            continue
        name = plan.devices[did].descriptor.memories[memory].name
        drawing = Svg(_LEFT + _WIDTH, _HEIGHT + 20)
        drawing.rect(_LEFT, 0, _WIDTH, _HEIGHT, "#fafafa", stroke="#ccc")
        for eid in firsts:
            sid = int(plan.sid[eid])
            extent = int(plan.storage.extent[sid])
            if (plan.storage.did[sid], plan.storage.memory[sid]) != (did, memory) or not extent:
                continue
            born, last = max(int(values.born[eid]), 0), min(int(values.last[eid]) + 1, count)
            offset = int(plan.storage.offset[sid])
            title = (
                f"{plan.graph.names[producer[eid]]} {plan.graph.entry_type(eid)} {plan.layout(eid)}, "
                f"storage {sid}: {offset} + {extent} B a bank, steps {born} to {last}"
            )
            drawing.rect(
                _LEFT + born * _WIDTH / count,
                offset * _HEIGHT / peak,
                (last - born) * _WIDTH / count,
                extent * _HEIGHT / peak,
                paint(sid),
                title,
                "#fff",
            )
        bound = plan.lower_bound[did, memory]
        drawing.line(_LEFT, bound * _HEIGHT / peak, _LEFT + _WIDTH, bound * _HEIGHT / peak, "#c00")
        drawing.text(_LEFT - 4, 10, "0", "end")
        drawing.text(_LEFT - 4, _HEIGHT, f"{peak:,} B", "end")
        drawing.text(_LEFT, _HEIGHT + 14, f"node 0 to {count}; the red line is the least that any plan needs")
        parts.append(f"<h3>{escape(str(plan.devices[did]))} {escape(name)}</h3>{drawing}")
    return "".join(parts)


def l1_over_time(timeline: Timeline) -> str:
    """For each device with L1 in use: time to the right, cores downwards, darker where more of it is taken.
    Interleaved tensors take their share of every core, sharded ones of the cores that have a shard; ops of an
    epoch have their buffers on their own cores."""
    parts, plan = [], timeline.plan
    for did, device in enumerate(plan.devices):
        index = next((i for i, m in enumerate(device.descriptor.memories) if m.name == L1), None)
        cut = next((b for b in plan.balanced if b.network.device == device), None)
        if index is None or not (cut or plan.peak.get((did, index))):
            continue
        memory, over = device.descriptor.memories[index], max(timeline.latency_ns, 1)
        spans = _l1_spans(timeline, did, index) + (_epoch_spans(timeline, cut) if cut else [])
        edges = np.unique([0, over, *(t for s in spans for t in s[:2])])
        if len(edges) * memory.banks > _MOST_CELLS:
            edges = np.unique(np.linspace(0, over, max(_MOST_CELLS // memory.banks, 2)).astype(np.int64))
        taken = np.zeros((memory.banks, len(edges)), np.int64)
        for begin, end, extent, cores in spans:
            first, last = (
                np.searchsorted(edges, begin),
                max(np.searchsorted(edges, end), np.searchsorted(edges, begin) + 1),
            )
            taken[cores, first:last] += extent
        parts.append(
            f"<h3>{escape(str(device))}: most on a core {int(taken.max()):,} of "
            f"{memory.available:,} B</h3>{_heat_map(taken / memory.available, edges, over)}"
        )
    return "".join(parts) or "<p>no tensor lies in L1</p>"


def _epoch_spans(timeline: Timeline, cut: Any) -> list[Span]:
    """What each op of a balanced board has in the L1 of its cores while its epoch lasts."""
    assert timeline.epoch is not None  # the board was cut into epochs
    found, over, ends = [], timeline.latency_ns, np.zeros(len(cut.epoch_cycles), np.int64)
    mine = np.isin(timeline.nid, [c.nid for c in cut.network.ops])
    np.maximum.at(ends, timeline.epoch[timeline.nid[mine]], timeline.end[mine])
    begins = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]])
    for op, epoch in enumerate(cut.choice.epoch.tolist()):
        spot, grid = cut.choice.spots[op], np.zeros(cut.network.device.descriptor.grid, bool)
        grid[spot.row : spot.row + spot.rows, spot.col : spot.col + spot.cols] = True
        taken = cut.model(op).l1_bytes + int(cut.extra[op])
        found.append((int(begins[epoch]), min(int(ends[epoch]), over), taken, grid.ravel()))
    return found


def _l1_spans(timeline: Timeline, did: int, memory: int) -> list[Span]:
    """What each value has in L1 while it lives."""
    plan, values = timeline.plan, find_values(timeline.plan.graph, timeline.plan.at_input)
    start, end = (np.zeros(plan.graph.num_nodes, np.int64) for _ in range(2))
    first = timeline.run == 0
    start[timeline.nid[first]], end[timeline.nid[first]] = timeline.start[first], timeline.end[first]
    banks, found = plan.devices[did].descriptor.memories[memory].banks, []
    for eid in values.firsts.tolist():
        sid = int(plan.sid[eid])
        if (plan.storage.did[sid], plan.storage.memory[sid]) != (did, memory):
            continue
        born, last = int(values.born[eid]), int(values.last[eid])
        cores, shard = np.ones(banks, bool), plan.layout(eid).shard
        if shard is not None:
            (top, left), (bottom, right) = shard.grid
            grid = np.zeros(plan.devices[did].descriptor.grid, bool)
            grid[top : bottom + 1, left : right + 1] = True
            cores = grid.ravel()
        until = int(end[last]) if last < plan.graph.num_nodes else timeline.latency_ns
        found.append((int(start[born]) if born >= 0 else 0, until, int(plan.storage.extent[sid]), cores))
    return found


def _heat_map(share: np.ndarray, edges: np.ndarray, over: int) -> Svg:
    cores, high = len(share), max(220 / len(share), 2.0)
    drawing = Svg(_LEFT + _WIDTH, cores * high + 20)
    for core in range(cores):
        begin = 0
        for at in range(1, len(edges)):
            if at + 1 < len(edges) and share[core, at] == share[core, begin]:
                continue
            x, x2 = (edges[i] * _WIDTH / over for i in (begin, at))
            drawing.rect(
                _LEFT + x,
                core * high,
                x2 - x,
                high,
                heat(float(share[core, begin])),
                f"core {core}: {share[core, begin]:.1%} from {edges[begin]:,} ns",
            )
            begin = at
    drawing.text(_LEFT - 4, 10, "core 0", "end")
    drawing.text(_LEFT - 4, cores * high, f"core {cores - 1}", "end")
    drawing.text(_LEFT, cores * high + 14, f"0 to {over:,} ns")
    return drawing


def bank_pictures(timeline: Timeline) -> str:
    """For each memory of each device: a bar a bank, bytes read above bytes written, in one run."""
    parts, plan = [], timeline.plan
    for (did, memory), counts in sorted(timeline.bank_bytes().items()):
        most, name = max(int(counts.sum(axis=1).max()), 1), plan.devices[did].descriptor.memories[memory].name
        wide = min(900 / len(counts), 60)
        drawing = Svg(_LEFT + wide * len(counts), 130)
        for bank, (out, into) in enumerate(counts.tolist()):
            title = f"bank {bank}: {out:,} B read, {into:,} B written"
            top, middle = (100 * part / most for part in (out + into, into))
            drawing.rect(_LEFT + bank * wide, 105 - top, wide * 0.8, top - middle, "#4a86c5", title)
            drawing.rect(_LEFT + bank * wide, 105 - middle, wide * 0.8, middle, "#d9822b", title)
        drawing.text(_LEFT - 4, 12, f"{most:,} B", "end")
        drawing.text(_LEFT, 122, f"bank 0 to {len(counts) - 1}: read (blue) and written (orange)")
        parts.append(f"<h3>{escape(str(plan.devices[did]))} {escape(name)}</h3>{drawing}")
    return "".join(parts) or "<p>no device memory is used</p>"
