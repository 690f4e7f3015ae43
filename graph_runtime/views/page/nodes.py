"""A plan's graph as columns: nodes with their causes, edges, kernels, and kernels' code."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError
from ...base.files.mapped import data_folder
from ...ir.graph import NodeView
from ...ir.ops import registry
from ...ir.ops.rules import select
from ...simulation.estimate import bounds
from .prefixes import open_at_first, tree_of
from .ranks import spots
from .shown import CONSTANT, EARLY, INPUT, KINDS, Shown

_MOST_LINES = 80  # most lines of a kernel's code
_MOST_TEXT = 2000  # most characters of an attribute


def graph_data(shown: Shown) -> dict[str, Any]:
    """{"kinds", "nodes": columns, one row per nid, "edges": columns, "tree": groups, with the place of each
    child in the drawing of its group, "codes": {kernel: file, line, text}, "notes": [rule, text, nids]}.
    Columns of texts have the number of each text in the plan's table of texts."""
    plan, text = shown.plan, shown.texts
    graph, bound = plan.graph, bounds(shown.timeline) if len(shown.timeline) else {}
    kernels = [_kernel(shown, nid) for nid in range(graph.num_nodes)]
    rows = [graph.node(nid) for nid in range(graph.num_nodes)]
    layouts = [", ".join(str(plan.layout(e)) for e in row.outputs) for row in rows]
    causes = (
        [[plan.layout_causes[plan.layout_id[e]] for e in row.outputs] for row in rows]
        if plan.layout_causes
        else [[]] * len(rows)
    )
    nodes = {
        "name": list(graph.names),
        "kind": shown.kinds,
        "op": [text(row.op) for row in rows],
        "device": plan.did,
        "type": [text(", ".join(map(str, row.output_types))) for row in rows],
        "dtype": [text(row.output_types[0].dtype if row.output_types else "") for row in rows],
        "layout": [text(layout) for layout in layouts],
        "cause": [text(plan.causes[i]) for i in plan.cause_id.tolist()],
        "layout_cause": [text("; ".join(dict.fromkeys(said))) for said in causes],
        "bytes": [sum(t.nbytes for t in row.output_types) for row in rows],
        "sids": [[int(plan.sid[e]) for e in row.outputs] for row in rows],
        "ns": [shown.ns.get(nid) for nid in range(graph.num_nodes)],
        "bound": [text(bound.get(nid, "")) for nid in range(graph.num_nodes)],
        "kernel": [text(kernel) for kernel in kernels],
        "attrs": [text(_attrs(row)) for row in rows],
        "inserted": (plan.origin < 0).astype(int),
        "circular": plan.circular,
        "from": {  # names of the source's nodes that a node replaces, if not only its own
            nid: list(of)
            for nid, name in enumerate(graph.names)
            if (of := shown.origins.get(name, (name,))) != (name,)
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


def _attrs(node: NodeView) -> str:
    """The attributes gr.* that the node has in the file, one per line."""
    raw = node.func.raw if node.func is not None else {}
    own = {key.removeprefix("gr."): value for key, value in raw.items() if key.startswith("gr.")}
    lines = [f"{key}: {value[:_MOST_TEXT]}" for key, value in own.items() if key != "op"]
    return "\n".join(lines)


def _edges(shown: Shown) -> dict[str, Any]:
    """Columns with one row per input of a node: the node that makes the value, the node that reads the value,
    the value's type, layout and bytes, and whether the edge is drawn."""
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
    """bool [nodes]: whether a node is drawn. The nodes of every run and the inputs that a run sets are drawn.
    Parameters and the copies of parameters appear only in a node's details."""
    kinds = shown.kinds
    drawn = (kinds != CONSTANT) & (kinds != EARLY)
    if not shown.constants:  # parameters are unknown: more than eight inputs are taken to be parameters
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
    """The generic kernel of the node, as "cpu/softmax/f32"; "" if a library runs the node, or no kernel
    does."""
    node, device = shown.plan.graph.node(nid), shown.plan.devices[shown.plan.did[nid]]
    op = registry.get(node.func.op) if node.func is not None and node.func.op else None
    if op is None or node.func is None or (op.is_nop and device.descriptor.on_host):
        return ""
    try:
        return select(op, node.func.attrs, device.kernels, node.input_types, node.output_types).generic
    except GraphRuntimeError:
        return ""  # only a library knows the function


@cache
def _bodies() -> dict[str, str]:
    """{name of a kernel's body, such as "cpu/softmax": path of the body's header, relative to
    native/kernels}."""
    from ...codegen.bodies import find_bodies  # only pages show code

    found = find_bodies(data_folder("graph_runtime.native") / "kernels")
    return {f"{one.kind}/{one.name}": one.header for one in found}


@cache
def _code(kernel: str) -> dict[str, Any] | None:
    """{"file", "line", "text"} of a kernel's body, cut after _MOST_LINES; None if the package does not
    contain the body."""
    kind, _, rest = kernel.partition("/")
    name = rest.partition("/")[0]
    header = _bodies().get(f"{kind}/{name}")
    if header is None:
        return None
    folder = data_folder("graph_runtime.native") / "kernels"
    announced = re.compile(rf"/\* gr-kernel: {re.escape(kind)}/{re.escape(name)}\b")
    for file in (header, "functions.h", "folds.h"):
        lines = (folder / file).read_text().splitlines()
        places = enumerate(lines)
        start = next((at for at, line in places if announced.search(line) or _alone(line, name)), None)
        if start is not None:
            ends = (at for at in range(start, len(lines)) if lines[at] == "}" or _alone(lines[at], name))
            shown = lines[start : min(next(ends, start), start + _MOST_LINES) + 1]
            return {"file": f"native/kernels/{file}", "line": start + 1, "text": "\n".join(shown)}
    return {"file": f"native/kernels/{header}", "line": 1, "text": ""}


def _alone(line: str, name: str) -> bool:
    """Whether the line is an entry of ``name`` in a list; such an entry is a body by itself."""
    return bool(re.match(rf"GR_\w+\({re.escape(name)}\b", line))
