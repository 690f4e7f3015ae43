"""graph.json -> Graph, with all checks that TVM's loader leaves out, so that passes can rely on every id."""

from __future__ import annotations

import math
import os
import warnings
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, GraphError, did_you_mean, nearest
from ...base.json_text import is_path, json_path, read_source
from ...base.progress import gc_paused
from ..graph import Func, Graph, TensorType
from .columns import (
    NodeColumns,
    entries,
    extra_columns,
    first_true,
    fraction_error,
    integers,
    node_columns,
    of_length,
    read_checked,
)
from .functions import check_functions, intern_functions
from .hints import HINTED, read_hints

MOST_BYTES = 1 << 62

_COLUMNS = ("dltype", "shape", "storage_id", "device_index", "device_id", "storage_scope")
_COMPILERS = ("dtype", "storage_inplace_index")  # columns in files of NNVM's compiler
_EARLIER = {"device_type": "device_index"}  # {name of a column in drafts of the format: name now}


def load_graph(source: bytes | str | os.PathLike[str], *, strict: bool = False) -> Graph:
    """The graph in a graph.json: bytes, text (a str that begins with "{"), or a path.

    ``strict`` refuses parts that TVM silently ignores: text after the document, keys after ``metadata``,
    columns that nothing reads, a num_inputs that differs from the number of inputs. Raises DocumentError for
    a malformed document, GraphError (UnsupportedOpError for an unknown op) for an invalid graph; both have a
    field ``path``, such as $.nodes[3].inputs[0], and the file's name in the text.
    """
    data = read_source(source, "graph.json")
    file = os.path.basename(source) if is_path(source) else None
    with gc_paused():
        try:
            graph = graph_from_document(*read_checked(data, strict, file or "graph.json"), strict=strict)
        except GraphError as error:
            if file is None:
                raise
            raise type(error)(f"{file}: {error}", **error.fields) from None
    warn_of_columns(graph)
    return graph


def graph_from_document(
    document: dict[str, Any], nodes: NodeColumns | None = None, *, strict: bool = False
) -> Graph:
    """The graph of a document that graph.schema.json accepts; ``nodes``: the columns of its nodes, if already
    read. Raises GraphError, DocumentError."""
    nodes, columns = nodes or node_columns(document["nodes"]), document["attrs"]
    names = tuple(nodes.names)
    func_id, funcs = intern_functions(nodes)
    row_ptr = _row_ptr(document, names, func_id, funcs)
    in_ptr, in_nid, in_eid = _inputs(nodes, row_ptr)
    check_order(names, func_id, in_ptr, in_nid)
    for name in ("dltype", "shape"):
        of_length(columns[name][1], int(row_ptr[-1]), "attrs", name, 1)
    type_id, types = intern_types(columns["dltype"][1], columns["shape"][1])
    _, outputs = _eids(entries(document["heads"], _head), row_ptr, _head, names)
    graph = Graph(
        names,
        func_id,
        funcs,
        row_ptr,
        in_ptr,
        in_eid,
        type_id,
        types,
        _arg_nodes(document, names, func_id),
        outputs,
        extra_columns=extra_columns(columns, _COLUMNS),
        control_deps=_control_deps(nodes),
    )
    check_placeholders(graph)
    check_functions(graph)
    if strict:
        _check_strict(graph)
    hinted = columns.keys() & HINTED or "metadata" in document
    return replace(graph, hints=read_hints(document, graph)) if hinted else graph


# ---------------------------------------------------------------- structure


def _row_ptr(
    document: dict[str, Any], names: tuple[str, ...], func_id: np.ndarray, funcs: tuple[Func, ...]
) -> np.ndarray:
    """node_row_ptr, checked against each node's number of outputs."""
    values = document["node_row_ptr"]
    if len(values) != len(names) + 1:
        raise GraphError(
            f"node_row_ptr has {len(values)} elements for {len(names)} nodes: it needs one more than "
            "there are nodes",
            path="$.node_row_ptr",
            got=len(values),
            wanted=len(names) + 1,
        )
    row_ptr = integers(values, "node_row_ptr")
    if row_ptr[0] != 0:
        text = f"node_row_ptr must begin with 0, got {row_ptr[0]}"
        raise GraphError(text, path="$.node_row_ptr[0]", got=int(row_ptr[0]), wanted=0)
    of_func = np.array([*(func.num_outputs for func in funcs), 1], np.int64)
    outputs = of_func[func_id]  # func_id -1 of a null node selects the last element, 1
    if (nid := first_true(np.diff(row_ptr) != outputs)) is not None:
        raise GraphError(
            f"node_row_ptr gives node {names[nid]!r} {row_ptr[nid + 1] - row_ptr[nid]} entries, it has "
            f"{outputs[nid]} outputs{'' if func_id[nid] < 0 else ' (num_outputs)'}",
            path=json_path(("node_row_ptr", nid + 1)),
            node=names[nid],
            got=int(row_ptr[nid + 1] - row_ptr[nid]),
            wanted=int(outputs[nid]),
        )
    return row_ptr


def _inputs(nodes: NodeColumns, row_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(in_ptr [nodes + 1], the producing nid and the eid of each input)."""
    in_ptr = np.concatenate([[0], np.cumsum(nodes.in_count)])

    def locate(slot: int) -> tuple[str | int, ...]:
        nid = int(np.searchsorted(in_ptr, slot, side="right")) - 1
        return "nodes", nid, "inputs", slot - int(in_ptr[nid])

    nid, eid = _eids(nodes.reads, row_ptr, locate, nodes.names)
    return in_ptr, nid, eid


def _head(index: int) -> tuple[str | int, ...]:
    return "heads", index


def _eids(
    pairs: np.ndarray,
    row_ptr: np.ndarray,
    locate: Callable[[int], tuple[str | int, ...]],
    names: Sequence[str],
) -> tuple[np.ndarray, np.ndarray]:
    """(nid, eid) of rows (nid, index, ...). Raises GraphError for a row that is out of range."""
    nid, index = pairs[:, 0], pairs[:, 1]
    if (at := first_true(nid >= len(names))) is not None:
        text = f"node {nid[at]} is out of range: there are {len(names)} nodes"
        raise GraphError(text, path=json_path(locate(at)), got=int(nid[at]), wanted=len(names))
    eid = row_ptr[nid] + index
    if (at := first_true(eid >= row_ptr[nid + 1])) is not None:
        count = int(row_ptr[nid[at] + 1] - row_ptr[nid[at]])
        text = f"output {index[at]} of node {names[nid[at]]!r} is out of range: it has {count}"
        raise GraphError(text, path=json_path(locate(at)), got=int(index[at]), wanted=count)
    return nid, eid


def check_order(names: tuple[str, ...], func_id: np.ndarray, in_ptr: np.ndarray, in_nid: np.ndarray) -> None:
    """Raise GraphError unless every producer comes before its consumers, because nodes run in array order.
    Null nodes do not run and may be anywhere. Raises GraphError also for a null node with inputs."""
    consumer = np.repeat(np.arange(len(names)), np.diff(in_ptr))
    bad = func_id[consumer] < 0
    if bad.any():
        nid = int(consumer[np.argmax(bad)])
        text = f"node {names[nid]!r} is a null node, an input of the graph, and yet has inputs of its own"
        raise GraphError(text, path=json_path(("nodes", nid, "inputs")), node=names[nid])
    bad = (in_nid >= consumer) & (func_id[in_nid] >= 0)
    if not bad.any():
        return
    slot = int(np.argmax(bad))
    nid = int(consumer[slot])
    path = json_path(("nodes", nid, "inputs", slot - int(in_ptr[nid])))
    cycle = _cycle(in_ptr, in_nid)
    if cycle:
        loop = " -> ".join(repr(names[n]) for n in cycle[:8])
        loop += " -> ..." if len(cycle) > 8 else f" -> {names[cycle[0]]!r}"
        raise GraphError(f"nodes feed each other in a cycle: {loop}", path=path, node=names[nid])
    text = f"node {names[nid]!r} reads node {names[in_nid[slot]]!r}, which runs after it: put it behind"
    raise GraphError(text, path=path, node=names[nid])


def _cycle(in_ptr: np.ndarray, in_nid: np.ndarray) -> list[int]:
    """The nids of a cycle, in the direction of the data; [] if there is none."""
    reads = {nid: in_nid[begin:end].tolist() for nid, (begin, end) in enumerate(pairwise(in_ptr.tolist()))}
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        return error.args[1][1:]
    return []


# ---------------------------------------------------------------- inputs, outputs, the rest


def _arg_nodes(document: dict[str, Any], names: tuple[str, ...], func_id: np.ndarray) -> np.ndarray:
    """nids of the graph's inputs, from arg_nodes."""
    nids = integers(document["arg_nodes"], "arg_nodes")
    check_arg_nodes(nids, names, func_id)
    return nids


def check_arg_nodes(nids: np.ndarray, names: tuple[str, ...], func_id: np.ndarray) -> None:
    """Raise GraphError unless a graph's inputs are in range, distinct, and null nodes."""
    seen: set[int] = set()
    for i, nid in enumerate(nids.tolist()):
        if nid >= len(func_id):
            text = f"node {nid} is out of range: there are {len(func_id)} nodes"
        elif func_id[nid] >= 0:
            text = f"node {names[nid]!r} is no null node, so it cannot be an input"
        elif nid in seen:
            text = f"node {names[nid]!r} is listed twice"
        else:
            seen.add(nid)
            continue
        raise GraphError(text, path=json_path(("arg_nodes", i)), got=nid)


def check_placeholders(graph: Graph) -> None:
    """Raise GraphError for a null node that a node reads but that is no input of the graph, because nothing
    could set its value."""
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


def _control_deps(nodes: NodeColumns) -> dict[int, tuple[int, ...]]:
    found = {}
    for nid, values in nodes.control_deps.items():
        nids = integers(values, "nodes", nid, "control_deps")
        if (nids >= len(nodes.names)).any():
            i = int(np.argmax(nids >= len(nodes.names)))
            raise GraphError(
                f"node {nids[i]} is out of range: there are {len(nodes.names)} nodes",
                path=json_path(("nodes", nid, "control_deps", i)),
                got=int(nids[i]),
                node=nodes.names[nid],
            )
        found[nid] = tuple(nids.tolist())
    return found


def warn_of_columns(graph: Graph, strict: bool = False) -> None:
    """Warn of a column that nothing reads and whose name resembles a known name; if ``strict``, raise
    GraphError."""
    for name, (tag, _) in graph.extra_columns.items():
        meant = _EARLIER.get(name) or nearest(name, _COLUMNS)
        if meant is None or tag != "list_int" or name in _COMPILERS:
            continue
        text = f"column {name!r} is not read by anything: did you mean {meant!r}?"
        if strict:
            raise GraphError(text, path=json_path(("attrs", name)), got=name, wanted=meant)
        warnings.warn(text, stacklevel=3)


def _check_strict(graph: Graph) -> None:
    for name in graph.extra_columns:
        text = f"column {name!r} is not read by anything{did_you_mean(name, _COLUMNS)}"
        raise GraphError(text, path=json_path(("attrs", name)))
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


def intern_types(dltype: list[str], shape: list[list[int]]) -> tuple[np.ndarray, tuple[TensorType, ...]]:
    """(type_id int32 [entries], the distinct types) from two columns of equal length. Raises DocumentError or
    GraphError with the path of the entry."""
    try:
        array("q", list(chain.from_iterable(shape)))
    except (TypeError, OverflowError):
        raise fraction_error(shape, ("attrs", "shape", 1)) from None
    distinct: dict[tuple[Any, ...], int] = {}
    found, before, said = -1, None, None
    numbers = []
    for name, dims in zip(dltype, shape, strict=True):
        if dims != before or name != said:  # most entries have the same type as the entry before
            found = distinct.setdefault((name, *dims), len(distinct))
            before, said = dims, name
        numbers.append(found)
    ids = np.array(numbers, np.int32)
    types: dict[TensorType, int] = {}
    renumbered = []
    for key, i in distinct.items():
        try:
            made = pool_type(key[0], key[1:])
        except GraphError as error:
            column = "dltype" if "dtype" in error.fields else "shape"
            raise GraphError(
                str(error), path=json_path(("attrs", column, 1, int(np.argmax(ids == i)))), got=error.got
            ) from None
        renumbered.append(types.setdefault(made, len(types)))
    return np.array(renumbered, np.int32)[ids], tuple(types)


def pool_type(dtype: str, shape: tuple[int, ...]) -> TensorType:
    """The TensorType. Raises GraphError for a type that no pool can hold; the error has a field ``dtype`` if
    the dtype is the fault."""
    try:
        parsed = dtypes.parse(dtype)
    except DocumentError as error:
        raise GraphError(str(error), got=dtype, dtype=dtype) from None
    width = parsed.bits * parsed.lanes
    if width == 0 or (width % 8 and width not in (1, 4)):
        text = f"type {dtype!r} has {width} bits an element; a tensor needs whole bytes, 1 or 4 bits"
        raise GraphError(text, got=dtype, dtype=dtype)
    if math.prod(d for d in shape if d) * parsed.itemsize >= MOST_BYTES:
        raise GraphError(f"{dtype} {list(shape)} has more than 2**62 bytes", got=shape)
    return TensorType(parsed.name, shape)
