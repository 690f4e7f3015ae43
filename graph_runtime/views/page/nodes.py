"""The graph of a plan as columns: nodes with their causes, edges, kernels, and the code of these."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError
from ...base.packaged import data_folder
from ...ir.graph import NodeView
from ...ir.ops import registry
from ...ir.ops.select import select
from ...simulation.estimate import bounds
from .prefixes import open_at_first, tree_of
from .ranks import spots
from .shown import CONSTANT, EARLY, INPUT, KINDS, Shown

__all__ = ["graph_data"]

_MOST_LINES = 80  # of a kernel's code
_MOST_TEXT = 2000  # characters of an attribute


def graph_data(shown: Shown) -> dict[str, Any]:
    """{"kinds", "nodes": columns, a row a nid, "edges": columns, "tree": groups and where each child lies in
    its own, "codes": {kernel: file, line, text}, "notes": [rule, text, nids]}. Texts are numbers in the
    plan's table."""
    plan, text = shown.plan, shown.texts
    graph, bound = plan.graph, bounds(shown.timeline) if len(shown.timeline) else {}
    kernels = [_kernel(shown, nid) for nid in range(graph.num_nodes)]
    rows = [graph.node(nid) for nid in range(graph.num_nodes)]
    layouts = [", ".join(str(plan.layout(e)) for e in row.outputs) for row in rows]
    why = [
        "; ".join(dict.fromkeys(plan.layout_causes[plan.layout_id[e]] for e in row.outputs))
        if plan.layout_causes
        else ""
        for row in rows
    ]
    nodes = {
        "name": list(graph.names),
        "kind": shown.kinds,
        "op": [text(row.op) for row in rows],
        "device": plan.did,
        "type": [text(", ".join(map(str, row.output_types))) for row in rows],
        "dtype": [text(row.output_types[0].dtype if row.output_types else "") for row in rows],
        "layout": [text(layout) for layout in layouts],
        "cause": [text(plan.causes[i]) for i in plan.cause_id.tolist()],
        "layout_cause": [text(one) for one in why],
        "bytes": [sum(t.nbytes for t in row.output_types) for row in rows],
        "sids": [[int(plan.sid[e]) for e in row.outputs] for row in rows],
        "ns": [shown.ns.get(nid) for nid in range(graph.num_nodes)],
        "bound": [text(bound.get(nid, "")) for nid in range(graph.num_nodes)],
        "kernel": [text(kernel) for kernel in kernels],
        "attrs": [text(_attrs(row)) for row in rows],
        "inserted": (plan.origin < 0).astype(int),
        "circular": plan.circular,
        "from": {
            nid: list(shown.origins[name]) for nid, name in enumerate(graph.names) if _joined(shown, name)
        },
    }
    number = {name: nid for nid, name in enumerate(graph.names)}
    return {
        "kinds": KINDS,
        "nodes": nodes,
        "edges": _edges(shown),
        "tree": _tree(shown, rows),
        "codes": {kernel: code for kernel in dict.fromkeys(kernels) if kernel and (code := _code(kernel))},
        "notes": [
            [n.rule, n.text, [number[name] for name in n.nodes if name in number]] for n in shown.notes
        ],
    }


def _joined(shown: Shown, name: str) -> bool:
    """Whether the node stands for others than itself."""
    return name in shown.origins and shown.origins[name] != (name,)


def _attrs(node: NodeView) -> str:
    """gr.* of the file, a line each."""
    raw = node.func.raw if node.func is not None else {}
    own = {key.removeprefix("gr."): value for key, value in raw.items() if key.startswith("gr.")}
    lines = [f"{key}: {value[:_MOST_TEXT]}" for key, value in own.items() if key != "op"]
    return "\n".join(lines)


def _edges(shown: Shown) -> dict[str, Any]:
    """A row an input of a node: its maker, its reader, its type, layout and bytes, and whether it is
    drawn."""
    plan, graph, text = shown.plan, shown.plan.graph, shown.texts
    made_by = graph.entry_nid[graph.in_eid]
    types = [text(str(t)) for t in graph.types]
    sizes = np.array([t.nbytes for t in graph.types], np.int64)
    layouts = [text(str(layout)) for layout in plan.layouts]
    return {
        "from": made_by,
        "to": np.repeat(np.arange(graph.num_nodes), np.diff(graph.in_ptr)),
        "type": [types[i] for i in graph.type_id[graph.in_eid].tolist()],
        "layout": [layouts[i] for i in plan.layout_id[graph.in_eid].tolist()],
        "bytes": sizes[graph.type_id[graph.in_eid]],
        "drawn": _drawn(shown)[made_by].astype(int),
    }


def _drawn(shown: Shown) -> np.ndarray:
    """bool [nodes]: what runs on each run and what it sets; parameters and copies of them are in details
    only."""
    kinds = shown.kinds
    drawn = (kinds != CONSTANT) & (kinds != EARLY)
    if (
        not shown.constants
    ):  # nothing says which inputs are parameters: those of one element of a batch are many
        inputs = np.flatnonzero(kinds == INPUT)
        drawn[inputs] = len(inputs) <= 8
    return drawn


def _tree(shown: Shown, rows: list[NodeView]) -> dict[str, Any]:
    plan, graph = shown.plan, shown.plan.graph
    drawn = _drawn(shown)
    made_by = graph.entry_nid
    like = {}
    for nid in np.flatnonzero((plan.origin < 0) & drawn).tolist():
        source = int(made_by[rows[nid].inputs[0]]) if rows[nid].inputs else nid
        while plan.origin[source] < 0 and rows[source].inputs:
            source = int(made_by[rows[source].inputs[0]])
        like[nid] = source
    names = {nid: graph.names[nid] for nid in np.flatnonzero(drawn).tolist()}
    groups = tree_of(names, {nid: to for nid, to in like.items() if to in names})
    ends = np.stack([made_by[graph.in_eid], np.repeat(np.arange(graph.num_nodes), np.diff(graph.in_ptr))], 1)
    node_spots, group_spots = spots(groups, ends)
    home = np.full(graph.num_nodes, -1)
    for group in groups:
        home[group.nodes] = group.number
    return {
        "name": [group.name for group in groups],
        "parent": [-1 if group.parent is None else group.parent.number for group in groups],
        "count": [group.count for group in groups],
        "spot": [group_spots.get(group.number, (0, 0)) for group in groups],
        "home": home,
        "node_spot": [node_spots.get(nid, (0, 0)) for nid in range(graph.num_nodes)],
        "open": open_at_first(groups),
    }


# **************** kernels ****************


def _kernel(shown: Shown, nid: int) -> str:
    """The generic entry that serves the node, "cpu/softmax/f32"; "" where a library or no kernel does."""
    node, device = shown.plan.graph.node(nid), shown.plan.devices[shown.plan.did[nid]]
    op = registry.get(node.func.op) if node.func is not None and node.func.op else None
    if op is None or node.func is None or (op.is_nop and device.descriptor.on_host):
        return ""
    try:
        return select(op, node.func.attrs, device.kernels, node.input_types, node.output_types).generic
    except GraphRuntimeError:
        return ""  # a function of a library alone


@cache
def _bodies() -> dict[str, str]:
    """{"cpu/softmax": its header below native/kernels}."""
    from ...codegen.bodies import find_bodies  # only pages show code

    found = find_bodies(data_folder("graph_runtime.native") / "kernels")
    return {f"{one.kind}/{one.name}": one.header for one in found}


@cache
def _code(kernel: str) -> dict[str, Any] | None:
    """{"file", "line", "text"} of a kernel's body, cut after _MOST_LINES; None where it is not in the
    package."""
    kind, _, rest = kernel.partition("/")
    name = rest.partition("/")[0]
    header = _bodies().get(f"{kind}/{name}")
    if header is None:
        return None
    folder = data_folder("graph_runtime.native") / "kernels"
    for file in (header, "functions.h", "folds.h"):
        lines = (folder / file).read_text().splitlines()
        start = _start(lines, kind, name)
        if start is not None:
            end = next(
                (at for at in range(start, len(lines)) if lines[at] == "}" or _alone(lines[at], name)), start
            )
            shown = lines[start : min(end, start + _MOST_LINES) + 1]
            return {"file": f"native/kernels/{file}", "line": start + 1, "text": "\n".join(shown)}
    return {"file": f"native/kernels/{header}", "line": 1, "text": ""}


def _alone(line: str, name: str) -> bool:
    """A line of a list, which is all of a body."""
    return bool(re.match(rf"GR_\w+\({re.escape(name)}\b", line))


def _start(lines: list[str], kind: str, name: str) -> int | None:
    announced = re.compile(rf"/\* gr-kernel: {re.escape(kind)}/{re.escape(name)}\b")
    return next((at for at, line in enumerate(lines) if announced.search(line) or _alone(line, name)), None)
