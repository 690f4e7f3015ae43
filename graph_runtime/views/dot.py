"""A plan as a Graphviz file: one cluster per device, and copies as red diamonds with their bytes. Netron
opens it.

dot -Tsvg plan.dot -o plan.svg
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.graph import COPY
from ..plan.types import Plan

_MOST = 2000  # most nodes that a picture can show


def dot_text(plan: Plan) -> str:
    """The text of a plan's Graphviz file. If there are more than _MOST nodes, each chain of nodes on one
    device is drawn as one node."""
    graph = plan.graph
    calls = np.flatnonzero(graph.func_id >= 0).tolist()
    group = _groups(plan, calls) if len(calls) > _MOST else {nid: nid for nid in calls}
    members: dict[int, list[int]] = {}
    for nid in calls:
        members.setdefault(group[nid], []).append(nid)
    lines = ["digraph plan {", '  rankdir=TB; node [shape=box, fontname="sans-serif", fontsize=10];']
    for did, device in enumerate(plan.devices):
        lines += [
            f"  subgraph cluster_{did} {{",
            f"    label={_quoted(str(device))}; style=rounded; color=gray;",
        ]
        lines += [
            f"    {_node(plan, first, nids)}" for first, nids in members.items() if plan.did[first] == did
        ]
        lines.append("  }")
    return "\n".join([*lines, *_edges(plan, calls, group), "}", ""])


def _groups(plan: Plan, calls: list[int]) -> dict[int, int]:
    """{nid: first nid of its chain}. A chain is a stretch of calls on one device. Each copy is a chain of its
    own."""
    found, first = {}, -1
    for nid in calls:
        if first < 0 or plan.did[nid] != plan.did[first] or _is_copy(plan, nid) or _is_copy(plan, first):
            first = nid
        found[nid] = first
    return found


def _is_copy(plan: Plan, nid: int) -> bool:
    return plan.graph.funcs[plan.graph.func_id[nid]].name == COPY


def _node(plan: Plan, first: int, nids: list[int]) -> str:
    node = plan.graph.node(first)
    if _is_copy(plan, first):
        label = f"{node.name}\n{sum(t.nbytes for t in node.output_types):,} B"
        return f"n{first} [label={_quoted(label)}, shape=diamond, color=red];"
    more = f"\nand {len(nids) - 1} more" if len(nids) > 1 else ""
    types = ", ".join(map(str, node.output_types))
    return f"n{first} [label={_quoted(f'{node.name}: {node.op}{more}')}, tooltip={_quoted(types)}];"


def _edges(plan: Plan, calls: list[int], group: dict[int, int]) -> list[str]:
    """One line of the file for each pair of chains of which one reads a value of the other. Inputs of the
    graph are not drawn."""
    graph = plan.graph
    seen: dict[Any, Any] = {}
    maker = graph.entry_nid
    for nid in calls:
        for eid in graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]].tolist():
            ends = group.get(int(maker[eid])), group[nid]
            if ends[0] is not None and ends[0] != ends[1]:
                seen.setdefault(ends, eid)
    return [
        f"  n{a} -> n{b} [tooltip={_quoted(str(graph.entry_type(eid)))}"
        + (", color=red, style=dashed];" if _is_copy(plan, a) or _is_copy(plan, b) else "];")
        for (a, b), eid in seen.items()
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
