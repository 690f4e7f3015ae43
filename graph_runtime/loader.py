"""graph.json -> Graph: everything is checked that TVM's loader leaves unchecked, so that no pass need doubt
an id again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from .columns import entries, extra_columns, integers, intern_types, of_length
from .document import json_path, read_document, read_source
from .errors import GraphError, did_you_mean
from .functions import check_functions, intern_functions
from .graph import Func, Graph
from .hints import read_hints

__all__ = ["gc_paused", "graph_from_document", "load_graph"]

_COLUMNS = ("dltype", "shape", "storage_id", "device_index", "device_id", "storage_scope")


def load_graph(source: bytes | str | os.PathLike, *, strict: bool = False) -> Graph:
    """The graph in a graph.json: bytes, text (a str that begins with "{"), or a path.

    ``strict`` refuses what TVM ignores without a word: text after the document, keys after ``metadata``,
    columns nothing reads, a num_inputs that is not the number of inputs. Raises DocumentError for what is no
    document, GraphError (UnsupportedOpError for an unknown op) for one that is no graph; both with ``path``,
    as $.nodes[3].inputs[0].
    """
    with gc_paused():
        return graph_from_document(
            read_document(read_source(source, "graph.json"), strict=strict), strict=strict
        )


@contextmanager
def gc_paused() -> Iterator[None]:
    """Loading makes many objects and no garbage: collecting in the middle of it only costs time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def graph_from_document(document: dict[str, Any], *, strict: bool = False) -> Graph:
    """The graph of a document that graph.schema.json accepts. Raises GraphError, DocumentError."""
    nodes, columns = document["nodes"], document["attrs"]
    func_id, funcs = intern_functions(nodes)
    row_ptr = _row_ptr(document, func_id, funcs)
    in_ptr, in_nid, in_eid = _inputs(nodes, row_ptr)
    _check_order(nodes, func_id, in_ptr, in_nid)
    for name in ("dltype", "shape"):
        of_length(columns[name][1], int(row_ptr[-1]), "attrs", name, 1)
    type_id, types = intern_types(columns["dltype"][1], columns["shape"][1])
    _, outputs = _eids(document["heads"], row_ptr, lambda i: ("heads", i), nodes)
    graph = Graph(
        tuple([node["name"] for node in nodes]),
        func_id,
        funcs,
        row_ptr,
        in_ptr,
        in_eid,
        type_id,
        types,
        _arg_nodes(document, func_id),
        outputs,
        extra_columns=extra_columns(columns, _COLUMNS),
        control_deps=_control_deps(nodes),
    )
    _check_placeholders(graph)
    check_functions(graph)
    if strict:
        _check_strict(graph)
    return replace(graph, hints=read_hints(document, graph))


# ---------------------------------------------------------------- structure


def _row_ptr(document: dict[str, Any], func_id: np.ndarray, funcs: tuple[Func, ...]) -> np.ndarray:
    """node_row_ptr, held against the number of outputs of each node."""
    nodes, values = document["nodes"], document["node_row_ptr"]
    if len(values) != len(nodes) + 1:
        raise GraphError(
            f"node_row_ptr has {len(values)} elements for {len(nodes)} nodes: it needs one more than "
            "there are nodes",
            path="$.node_row_ptr",
            got=len(values),
            wanted=len(nodes) + 1,
        )
    row_ptr = integers(values, "node_row_ptr")
    if row_ptr[0] != 0:
        raise GraphError(
            f"node_row_ptr must begin with 0, got {row_ptr[0]}",
            path="$.node_row_ptr[0]",
            got=int(row_ptr[0]),
            wanted=0,
        )
    outputs = np.array([*(func.num_outputs for func in funcs), 1], np.int64)[
        func_id
    ]  # a null node's -1 reads the last
    bad = np.diff(row_ptr) != outputs
    if bad.any():
        nid = int(np.argmax(bad))
        raise GraphError(
            f"node_row_ptr gives node {nodes[nid]['name']!r} {row_ptr[nid + 1] - row_ptr[nid]} "
            "entries, it has "
            f"{outputs[nid]} outputs{'' if func_id[nid] < 0 else ' (num_outputs)'}",
            path=json_path(("node_row_ptr", nid + 1)),
            node=nodes[nid]["name"],
            got=int(row_ptr[nid + 1] - row_ptr[nid]),
            wanted=int(outputs[nid]),
        )
    return row_ptr


def _inputs(nodes: list[dict[str, Any]], row_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(in_ptr [nodes + 1], the producing nid and the eid of each input)."""
    lists = [node["inputs"] for node in nodes]
    in_ptr = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), out=in_ptr[1:])

    def locate(slot: int) -> tuple[str | int, ...]:
        nid = int(np.searchsorted(in_ptr, slot, side="right")) - 1
        return "nodes", nid, "inputs", slot - int(in_ptr[nid])

    nid, eid = _eids(list(chain.from_iterable(lists)), row_ptr, locate, nodes)
    return in_ptr, nid, eid


def _eids(
    values: list[list[int]],
    row_ptr: np.ndarray,
    locate: Callable[[int], tuple[str | int, ...]],
    nodes: list[dict[str, Any]],
) -> tuple[np.ndarray, np.ndarray]:
    """(nid, eid) of entries [nid, index, ...]. Raises GraphError where one is out of range."""
    pairs = entries(values, locate)
    nid, index = pairs[:, 0], pairs[:, 1]
    bad = nid >= len(nodes)
    if bad.any():
        at = int(np.argmax(bad))
        raise GraphError(
            f"node {nid[at]} is out of range: there are {len(nodes)} nodes",
            path=json_path(locate(at)),
            got=int(nid[at]),
            wanted=len(nodes),
        )
    eid = row_ptr[nid] + index
    bad = eid >= row_ptr[nid + 1]
    if bad.any():
        at = int(np.argmax(bad))
        count = int(row_ptr[nid[at] + 1] - row_ptr[nid[at]])
        raise GraphError(
            f"output {index[at]} of node {nodes[nid[at]]['name']!r} is out of range: it has {count}",
            path=json_path(locate(at)),
            got=int(index[at]),
            wanted=count,
        )
    return nid, eid


def _check_order(
    nodes: list[dict[str, Any]], func_id: np.ndarray, in_ptr: np.ndarray, in_nid: np.ndarray
) -> None:
    """Nodes run in array order, so a producer stands before its consumers; null nodes do not run and may
    stand anywhere. A null node has no inputs.
    """
    consumer = np.repeat(np.arange(len(nodes)), np.diff(in_ptr))
    bad = func_id[consumer] < 0
    if bad.any():
        nid = int(consumer[np.argmax(bad)])
        raise GraphError(
            f"node {nodes[nid]['name']!r} is a null node, an input of the graph, and yet has inputs of "
            "its own",
            path=json_path(("nodes", nid, "inputs")),
            node=nodes[nid]["name"],
        )
    bad = (in_nid >= consumer) & (func_id[in_nid] >= 0)
    if not bad.any():
        return
    slot = int(np.argmax(bad))
    nid = int(consumer[slot])
    path = json_path(("nodes", nid, "inputs", slot - int(in_ptr[nid])))
    cycle = _cycle(in_ptr, in_nid)
    if cycle:
        names = " -> ".join(repr(nodes[n]["name"]) for n in cycle[:8]) + (
            " -> ..." if len(cycle) > 8 else f" -> {nodes[cycle[0]]['name']!r}"
        )
        raise GraphError(f"nodes feed each other in a cycle: {names}", path=path, node=nodes[nid]["name"])
    raise GraphError(
        f"node {nodes[nid]['name']!r} reads node {nodes[in_nid[slot]]['name']!r}, which runs after it: "
        "put it behind",
        path=path,
        node=nodes[nid]["name"],
    )


def _cycle(in_ptr: np.ndarray, in_nid: np.ndarray) -> list[int]:
    """The nids of a cycle in the direction of the data, or []."""
    count = len(in_ptr) - 1
    consumers: list[list[int]] = [[] for _ in range(count)]
    waiting = np.diff(in_ptr).tolist()
    for nid in range(count):
        for producer in in_nid[in_ptr[nid] : in_ptr[nid + 1]].tolist():
            consumers[producer].append(nid)
    ready = [nid for nid in range(count) if not waiting[nid]]
    while ready:
        for nid in consumers[ready.pop()]:
            waiting[nid] -= 1
            if not waiting[nid]:
                ready.append(nid)
    at = next((nid for nid in range(count) if waiting[nid]), None)
    seen: dict[int, int] = {}
    while at is not None and at not in seen:  # every node that still waits has a producer that still waits
        seen[at] = len(seen)
        at = next(p for p in in_nid[in_ptr[at] : in_ptr[at + 1]].tolist() if waiting[p])
    return list(seen)[seen[at] :][::-1] if at is not None else []


# ---------------------------------------------------------------- inputs, outputs, the rest


def _arg_nodes(document: dict[str, Any], func_id: np.ndarray) -> np.ndarray:
    """nids of the graph's inputs: in range, null nodes, none twice."""
    nids = integers(document["arg_nodes"], "arg_nodes")
    seen: set[int] = set()
    for i, nid in enumerate(nids.tolist()):
        if nid >= len(func_id):
            text = f"node {nid} is out of range: there are {len(func_id)} nodes"
        elif func_id[nid] >= 0:
            text = f"node {document['nodes'][nid]['name']!r} is no null node, so it cannot be an input"
        elif nid in seen:
            text = f"node {document['nodes'][nid]['name']!r} is listed twice"
        else:
            seen.add(nid)
            continue
        raise GraphError(text, path=json_path(("arg_nodes", i)), got=nid)
    return nids


def _check_placeholders(graph: Graph) -> None:
    """A null node that is read is an input, or nothing could ever set it."""
    unset = graph.func_id < 0
    unset[graph.inputs] = False
    read = np.zeros(graph.num_nodes, bool)
    read[graph.entry_nid[graph.in_eid]] = True
    read[graph.entry_nid[graph.outputs]] = True
    for nid in np.flatnonzero(unset & read)[:1].tolist():
        raise GraphError(
            f"null node {graph.names[nid]!r} is read and not in arg_nodes, so nothing could set it: "
            f"add {nid} to arg_nodes",
            path=json_path(("nodes", nid)),
            node=graph.names[nid],
        )


def _control_deps(nodes: list[dict[str, Any]]) -> dict[int, tuple[int, ...]]:
    found = {}
    for nid in [nid for nid, node in enumerate(nodes) if "control_deps" in node]:
        nids = integers(nodes[nid]["control_deps"], "nodes", nid, "control_deps")
        if (nids >= len(nodes)).any():
            i = int(np.argmax(nids >= len(nodes)))
            raise GraphError(
                f"node {nids[i]} is out of range: there are {len(nodes)} nodes",
                path=json_path(("nodes", nid, "control_deps", i)),
                got=int(nids[i]),
                node=nodes[nid]["name"],
            )
        found[nid] = tuple(nids.tolist())
    return found


def _check_strict(graph: Graph) -> None:
    for name in graph.extra_columns:
        raise GraphError(
            f"column {name!r} is not read by anything{did_you_mean(name, _COLUMNS)}",
            path=json_path(("attrs", name)),
        )
    said = np.array([int(func.raw["num_inputs"]) for func in graph.funcs] + [0])[graph.func_id]
    bad = said != np.diff(graph.in_ptr)
    for nid in np.flatnonzero(bad)[:1].tolist():
        raise GraphError(
            f"node {graph.names[nid]!r} says num_inputs {said[nid]} and has "
            f"{graph.in_ptr[nid + 1] - graph.in_ptr[nid]}",
            path=json_path(("nodes", nid, "attrs", "num_inputs")),
            node=graph.names[nid],
            got=int(said[nid]),
        )
