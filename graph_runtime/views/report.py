"""A Plan as rows for machines and text for people, for `plan` and `inspect`. Nothing here prints.

Every function takes a Plan and returns JSON-able dicts, except ``text``, ``summary``, ``pictures``,
``picture`` and ``table``, which return strings.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.graph import COPY
from ..plan.card_programs import ground
from ..plan.columns import Values, find_values, func_mask
from ..plan.storage.memory import Modes
from ..plan.types import Plan

Row = dict[str, Any]
_MARKS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LEAST, _LEAST_LAST = 8, 20  # characters: least width of a narrowed column; least width of the last column


def describe(plan: Plan, modes: Modes | None = None) -> Row:
    """The whole report: {"nodes", "copies", "pool", "memories", "circular", "warnings"}."""
    return {
        "nodes": nodes(plan),
        "copies": copies(plan),
        "pool": pool(plan),
        "memories": memories(plan, modes),
        "circular": circular(plan),
        "warnings": list(plan.warnings),
    }


def nodes(plan: Plan) -> list[Row]:
    """One row per node: nid, name, op, device, the types, layouts and sids of its outputs, whether the node
    is in the user's file, and the causes."""
    rows = []
    for nid in range(plan.graph.num_nodes):
        view = plan.graph.node(nid)
        laid_out = view.outputs if plan.layout_causes else ()
        reasons = [plan.layout_causes[plan.layout_id[eid]] for eid in laid_out]
        rows.append(
            {
                "nid": nid,
                "name": view.name,
                "op": view.op,
                "device": str(plan.devices[plan.did[nid]]),
                "type": [str(t) for t in view.output_types],
                "layout": [str(plan.layout(eid)) for eid in view.outputs],
                "sid": [int(plan.sid[eid]) for eid in view.outputs],
                "inserted": bool(plan.origin[nid] < 0),
                "at_input": bool(plan.at_input[nid]),
                "cause": plan.causes[plan.cause_id[nid]],
                "layout_cause": list(dict.fromkeys(reasons)),
            }
        )
    return rows


def copies(plan: Plan) -> list[Row]:
    """One row per __copy: the copied value, the value's logical bytes, the devices from and to which it is
    copied, and the cause."""
    rows, entry_did = [], plan.entry_did()
    for nid in np.flatnonzero(func_mask(plan.graph, COPY)).tolist():
        view = plan.graph.node(nid)
        source = view.inputs[0]
        rows.append(
            {
                "nid": nid,
                "name": view.name,
                "of": plan.graph.names[plan.graph.maker(source)],
                "from": str(plan.devices[entry_did[source]]),
                "to": str(plan.devices[plan.did[nid]]),
                "bytes": view.output_types[0].nbytes,
                "inserted": bool(plan.origin[nid] < 0),
                "at_input": bool(plan.at_input[nid]),
                "cause": plan.causes[plan.cause_id[nid]],
            }
        )
    return rows


def pool(plan: Plan) -> list[Row]:
    """One row per storage: its place, its bytes, and the values that share it, with their lifetimes as nids
    (born = -1: set by the caller; last = number of nodes: kept to the end)."""
    values = find_values(plan.graph, plan.at_input)
    names = [plan.graph.names[nid] for nid in plan.graph.entry_nid.tolist()]
    holders: list[list[Row]] = [[] for _ in range(plan.storage.count)]
    for eid in values.firsts.tolist():
        holders[plan.sid[eid]].append(
            {
                "eid": eid,
                "name": names[eid],
                "type": str(plan.graph.entry_type(eid)),
                "born": int(values.born[eid]),
                "last": int(values.last[eid]),
            }
        )
    rows = []
    for sid, held in enumerate(holders):
        device = plan.devices[plan.storage.did[sid]]
        rows.append(
            {
                "sid": sid,
                "device": str(device),
                "memory": device.descriptor.memories[plan.storage.memory[sid]].name,
                "offset": int(plan.storage.offset[sid]),
                "extent": int(plan.storage.extent[sid]),
                "bytes": int(plan.storage.nbytes[sid]),
                "values": held,
            }
        )
    return rows


def memories(plan: Plan, modes: Modes | None = None) -> list[Row]:
    """One row per device memory in use. These columns are in bytes of one bank: the region that a session
    takes; the most bytes live at once, which is a lower bound for the region, and whether the region reaches
    that bound; the region in each of ``modes`` (modes.peaks); the memory's size. Two columns are for all
    banks together: the bytes of all storages, and the bytes of all entries if no two shared a storage.
    """
    entry_did, rows = plan.entry_did(), []
    logical = np.array([t.nbytes for t in plan.graph.types], np.int64)[plan.graph.type_id]
    for (did, index), peak in sorted(plan.peak.items()):
        memory = plan.devices[did].descriptor.memories[index]
        mine = (plan.storage.did == did) & (plan.storage.memory == index)
        rows.append(
            {
                "device": str(plan.devices[did]),
                "memory": memory.name,
                "peak": peak,
                "lower_bound": plan.lower_bound.get((did, index), 0),
                "status": plan.status[did, index],
                **{mode: peaks.get((did, index), 0) for mode, peaks in (modes or {}).items()},
                "available": memory.available,
                "banks": memory.banks,
                "storages": int(mine.sum()),
                "bytes": int(plan.storage.nbytes[mine].sum()),
                "unshared": int(logical[(entry_did == did) & mine[plan.sid]].sum()),
            }
        )
    return rows


def circular(plan: Plan) -> list[Row]:
    """One row per device whose nodes open circular buffers: the most bytes that they take of a core's L1, the
    node that takes them, and the source of the numbers."""
    rows = []
    for did, nbytes in plan.circular_peak().items():
        nid = int(np.flatnonzero((plan.did == did) & (plan.circular == nbytes))[0])
        rows.append(
            {
                "device": str(plan.devices[did]),
                "bytes": nbytes,
                "nid": nid,
                "node": plan.graph.names[nid],
                "ground": ground(plan, did),
            }
        )
    return rows


def circular_text(plan: Plan) -> str:
    """The rows of circular() as lines; "" without rows."""
    return "".join(
        f"circular buffers on {row['device']}: up to {row['bytes']} B of each core's L1 (node "
        f"{row['node']!r}), by {row['ground']}\n"
        for row in circular(plan)
    )


# **************** text ****************


def plan_text(plan: Plan, width: int | None = None, modes: Modes | None = None) -> str:
    """The whole report for people: nodes with causes, copies, memories, and the pool map, as a table and as
    pictures. ``width``: characters of the terminal; None: lines of any length."""
    parts = [table(nodes(plan), ("nid", "name", "op", "device", "layout", "sid", "cause"), width)]
    moved = copies(plan)
    if moved:
        total = sum(row["bytes"] for row in moved if not row["at_input"])
        columns = ("name", "of", "from", "to", "bytes", "at_input", "cause")
        parts.append(f"copies: {len(moved)}, {total} B on every run\n" + table(moved, columns, width))
    parts.append(summary(plan, width, modes))
    rows = [{**row, "values": [f"{v['name']} {_life(plan, v)}" for v in row["values"]]} for row in pool(plan)]
    parts.append(table(rows, ("sid", "device", "memory", "offset", "bytes", "values"), width))
    parts.append(pictures(plan))
    parts += [f"warning: {w}" for w in plan.warnings]
    return "\n\n".join(parts) + "\n"


def summary(plan: Plan, width: int | None = None, modes: Modes | None = None) -> str:
    """The memories in use as a table, with units."""
    columns = ("device", "memory", "banks", "peak", "lower_bound", "status", *(modes or ()))
    columns += ("available", "bytes", "unshared")
    said = "".join(f"{mode}, " for mode in modes or ())
    return (
        f"memories: peak, lower_bound, {said}available in bytes of one bank; bytes, unshared of all "
        "banks\n"
        + table(memories(plan, modes), columns, width)
        + (f"\n{circular_text(plan).rstrip()}" if plan.circular_peak() else "")
    )


def pictures(plan: Plan) -> str:
    """The pool maps of all memories in use, below a line that says how to read them."""
    legend = "pool maps: addresses down, nodes right; a mark is a sid in base 62, a dot is free"
    return "\n\n".join([legend, *(picture(plan, did, index) for did, index in sorted(plan.peak))])


def _life(plan: Plan, value: Row) -> str:
    born = "set" if value["born"] < 0 else value["born"]
    return f"{born}..{'end' if value['last'] >= plan.graph.num_nodes else value['last']}"


def table(rows: Sequence[Row], columns: Sequence[str], width: int | None = None) -> str:
    """Rows as aligned text under a header, with numbers to the right and lists joined by commas. If lines
    would be longer than ``width``, the last column is folded, and long cells of other columns lose their
    middle."""
    cells = [list(columns), *([_cell(row[c]) for c in columns] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
    room = None if width is None else _fit(widths, width)
    right = [bool(rows) and all(_is_number(row[column]) for row in rows) for column in columns]
    lines = []
    for line in cells:
        *cut, last = [_shorten(c, w) for c, w in zip(line[:-1], widths[:-1], strict=True)] + line[-1:]
        head = "".join(
            (c.rjust(w) if r else c.ljust(w)) + "  "
            for c, w, r in zip(cut, widths[:-1], right[:-1], strict=True)
        )
        folded = [last] if room is None else textwrap.wrap(last, room, break_on_hyphens=False) or [""]
        if right[-1]:
            folded = [part.rjust(widths[-1]) for part in folded]
        lines += [(head + folded[0]).rstrip(), *(" " * len(head) + part for part in folded[1:])]
    return "\n".join(lines)


def _fit(widths: list[int], width: int) -> int:
    """Narrow the widest columns except the last, in place, until there is room for the last column; return
    that room."""
    least = min(widths[-1], _LEAST_LAST)
    while sum(widths[:-1]) + 2 * (len(widths) - 1) + least > width and max(widths[:-1], default=0) > _LEAST:
        widths[widths.index(max(widths[:-1]))] -= 1
    return max(width - sum(widths[:-1]) - 2 * (len(widths) - 1), least)


def _shorten(text: str, width: int) -> str:
    """The text; if it is too long, its head and tail around an ellipsis, because names often differ only at
    their ends."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - tail :]}"


def _is_number(value: Any) -> bool:
    """Whether the value is a number, or a list of numbers."""
    return type(value[0] if isinstance(value, list) and len(value) == 1 else value) is int


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def picture(plan: Plan, did: int, memory: int, *, width: int = 72, height: int = 16) -> str:
    """The pool map of one memory: time goes right, in the order of nodes, and addresses go down. A mark is
    the last character of a storage's number in base 62; a dot is free memory. A value kept from start to end
    fills its rows."""
    name = plan.devices[did].descriptor.memories[memory].name
    peak, count = plan.peak.get((did, memory), 0), plan.graph.num_nodes
    width, height = min(width, max(count, 1)), min(height, max(plan.storage.count, 1) * 2)
    banks = plan.devices[did].descriptor.memories[memory].banks
    each = f" of each of {banks} banks" if banks > 1 else ""
    head = f"{plan.devices[did]} {name}: {peak} B{each}, {count} nodes"
    if not peak:
        return head
    grid = np.full((height, width), ".")
    values = find_values(plan.graph, plan.at_input)
    for eid in values.firsts.tolist():
        sid = int(plan.sid[eid])
        if (plan.storage.did[sid], plan.storage.memory[sid]) == (did, memory) and plan.storage.extent[sid]:
            grid[_box(plan, values, eid, sid, (height, width), peak)] = _MARKS[sid % len(_MARKS)]
    return "\n".join([head, *("  |" + "".join(line) + "|" for line in grid)])


def _box(
    plan: Plan, values: Values, eid: int, sid: int, shape: tuple[int, int], peak: int
) -> tuple[slice, slice]:
    """(rows, columns) of the picture that a value fills: at least one row and one column."""
    height, width = shape
    count = plan.graph.num_nodes
    start, end = int(plan.storage.offset[sid]), int(plan.storage.offset[sid] + plan.storage.extent[sid])
    top, left = start * height // peak, max(int(values.born[eid]), 0) * width // count
    right = -(-(min(int(values.last[eid]), count - 1) + 1) * width // count)
    return slice(top, max(-(-end * height // peak), top + 1)), slice(left, max(right, left + 1))
