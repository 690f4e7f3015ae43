"""Graph -> graph.json: canonical bytes, with one node and one column per line, in the JSON that TVM's reader
accepts.

Key order: nodes, arg_nodes, heads, attrs, node_row_ptr, metadata. Equal graphs give equal bytes, and reading
the bytes gives an equal graph. A plan is written as the graph that plan/record.py makes of the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Any

import numpy as np
import orjson

from ...base.errors import GraphError, no_such
from ...base.machine.devices import DLTYPE_CPU, boards, type_name
from ...base.unique import unique_values
from ..graph import NOP, Func, Graph, Hints
from .functions import FOR_PEOPLE

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters for which TVM's reader has no escape


def graph_to_json(graph: Graph, *, dialect: str = "gr") -> bytes:
    """graph.json of a graph.

    ``dialect``: "gr" writes the whole graph, without storage_id if storage is still to be planned. "tvm"
    writes only what TVM 0.5 to 0.19 read: no gr.* attributes, device_id or metadata, but always storage_id
    and device_index.

    Raises GraphError for a text that TVM's JSON cannot hold, for a device that files may not name, and in the
    dialect "tvm" for entries on a device kind with memory of its own, such as tt."""
    if dialect not in ("gr", "tvm"):
        raise GraphError(no_such("dialect", dialect, ("gr", "tvm")), got=dialect)
    _check_texts(graph)
    _check_devices(graph, dialect)
    parts = [
        ("nodes", _rows(_nodes(graph, dialect == "gr"))),
        ("arg_nodes", _line(graph.inputs.tolist())),
        ("heads", _line(_entries(graph, graph.outputs))),
        (
            "attrs",
            b"{\n"
            + b",\n".join(b"  " + _line(k) + b": " + _line(v) for k, v in _columns(graph, dialect))
            + b"\n }",
        ),
        ("node_row_ptr", _line(graph.row_ptr.tolist())),
    ]
    metadata = _metadata(graph.hints) if dialect == "gr" else {}
    if metadata:
        rows = [
            b"  " + _line(k) + b": " + (_rows(v, b"   ") if k in ("storage", "layouts") else _line(v))
            for k, v in metadata.items()
        ]
        parts.append(("metadata", b'{"graph_runtime": {\n' + b",\n".join(rows) + b"\n }}"))
    return b"{\n" + b",\n".join(b" " + _line(key) + b": " + value for key, value in parts) + b"\n}\n"


def _line(value: Any) -> bytes:
    return orjson.dumps(value)


def _rows(values: Iterable[Any], indent: bytes = b"  ") -> bytes:
    rows = b",\n".join(indent + _line(value) for value in values)
    return b"[\n" + rows + b"\n" + indent[1:] + b"]" if rows else b"[]"


# ---------------------------------------------------------------- checks


def _check_texts(graph: Graph) -> None:
    texts = chain(
        graph.names,
        graph.extra_columns,
        graph.hints.storage_scope or (),
        chain.from_iterable(chain(func.raw, func.raw.values()) for func in graph.funcs),
    )
    for text in texts:
        if _CONTROL.search(text):
            raise GraphError(
                f"{text[:60]!r} holds a control character, which TVM's JSON cannot hold: rename it", got=text
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            said = f"{text[:60]!r} holds half of a surrogate pair, which no UTF-8 file can hold: rename it"
            raise GraphError(said, got=text) from None


def _check_devices(graph: Graph, dialect: str) -> None:
    device_type = graph.hints.device_type
    if device_type is None:
        return
    for nid in unique_values(graph.entry_nid[device_type < 1])[:1].tolist():
        text = f"node {graph.names[nid]!r} is on a device that is for tests only and cannot stand in a file"
        raise GraphError(text, node=graph.names[nid])
    # TVM has no device kinds with their own memory and tensor layouts
    unknown = {d.kind: d.dl_type for d in boards().values() if not d.on_host}
    for kind, number in unknown.items() if dialect == "tvm" else ():
        there = unique_values(graph.entry_nid[device_type == number]).tolist()
        if there:
            names = ", ".join(repr(graph.names[nid]) for nid in there[:8]) + (
                ", ..." if len(there) > 8 else ""
            )
            text = f"TVM has no {kind} devices, and these nodes are on one: {names}; place them on cpu"
            raise GraphError(text, node=graph.names[there[0]])


# ---------------------------------------------------------------- parts


def _entries(graph: Graph, eids: np.ndarray) -> list[list[int]]:
    nids = graph.entry_nid[eids]
    return np.stack([nids, eids - graph.row_ptr[nids], np.zeros_like(eids)], axis=1).tolist()


def _nodes(graph: Graph, ours: bool) -> Iterable[dict[str, Any]]:
    attrs = [_attrs(func, ours) for func in graph.funcs]
    inputs, in_ptr = _entries(graph, graph.in_eid), graph.in_ptr.tolist()
    people = _for_people(graph) if ours else None
    for nid, (name, fid, (begin, end)) in enumerate(
        zip(graph.names, graph.func_id.tolist(), pairwise(in_ptr), strict=True)
    ):
        if fid < 0:
            node: dict[str, Any] = {"op": "null", "name": name, "inputs": []}
        else:
            node = {"op": "tvm_op", "name": name, "attrs": attrs[fid], "inputs": inputs[begin:end]}
            if people is not None:
                node["attrs"] = attrs[fid] | people[nid]
        if nid in graph.control_deps:
            node["control_deps"] = list(graph.control_deps[nid])
        yield node


def _attrs(func: Func, ours: bool) -> dict[str, str]:
    written = {
        "func_name": func.name,
        "num_inputs": func.raw.get("num_inputs", str(func.num_inputs)),
        "num_outputs": str(func.num_outputs),
        "flatten_data": func.raw.get("flatten_data", str(int(func.flatten))),
    }
    given = {key: text for key, text in func.raw.items() if key.startswith("gr.") and key != "gr.op"}
    if ours and func.op is not None:
        made = {f"gr.{key}": _line(value).decode() for key, value in func.attrs.items() if value is not None}
        written |= {"gr.op": func.op, **(given if func.raw else made)}
    return written | {
        k: v for k, v in func.raw.items() if k not in written and k != "gr.op" and k not in given
    }


def _for_people(graph: Graph) -> list[dict[str, str]] | None:
    """gr.device and gr.storage of each node. These attributes are for Netron, which shows a node's attributes
    but not the columns."""
    hints = graph.hints
    if hints.device_type is None:
        return None
    ids = hints.device_id if hints.device_id is not None else np.zeros(graph.num_entries, np.int64)
    sids = hints.storage_id
    first = graph.row_ptr.tolist()
    found: list[dict[str, str]] = []
    for begin, end in pairwise(first):
        if begin == end:
            found.append({})
            continue
        number = int(hints.device_type[begin])
        row = {FOR_PEOPLE[0]: f"{type_name(number) or f'type{number}'}:{ids[begin]}"}
        if sids is not None:
            row[FOR_PEOPLE[1]] = ",".join(map(str, sids[begin:end].tolist()))
        found.append(row)
    return found


def _columns(graph: Graph, dialect: str) -> Iterable[tuple[str, list[Any]]]:
    hints, count = graph.hints, graph.num_entries
    dltype = ["uint1" if t.dtype == "bool" else t.dtype for t in graph.types]
    shape = [list(t.shape) for t in graph.types]
    ids = graph.type_id.tolist()
    yield "dltype", ["list_str", [dltype[i] for i in ids]]
    storage_id, device_type, device_id = hints.storage_id, hints.device_type, hints.device_id
    if dialect == "tvm":
        storage_id = _one_each(graph) if storage_id is None else storage_id
        storage_id = np.unique(storage_id, return_inverse=True)[1]  # TVM wants ids without gaps
        device_type = np.full(count, DLTYPE_CPU) if device_type is None else device_type
        device_id = None
    for name, column in (("device_index", device_type), ("device_id", device_id), ("storage_id", storage_id)):
        if column is not None:
            yield name, ["list_int", column.tolist()]
    if hints.storage_scope is not None:
        yield "storage_scope", ["list_str", list(hints.storage_scope)]
    yield "shape", ["list_shape", [shape[i] for i in ids]]
    for name in sorted(graph.extra_columns):
        tag, value = graph.extra_columns[name]
        yield name, [tag, list(value) if tag == "list_int" else value]


def _one_each(graph: Graph) -> np.ndarray:
    """One storage id for every entry; a reshape, which TVM does not run, has the id of its input."""
    sid = np.arange(graph.num_entries)
    nop = [func.name == NOP for func in graph.funcs] + [False]
    for nid in np.flatnonzero(np.array(nop)[graph.func_id]).tolist():
        sid[graph.row_ptr[nid]] = sid[graph.in_eid[graph.in_ptr[nid]]]
    return sid


def _metadata(hints: Hints) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if hints.storage is not None:
        found["storage"] = hints.storage  # orjson writes dataclasses as JSON objects
    if hints.layouts is not None:
        found["layouts"] = [
            {"memory": x.memory, "layout": x.layout, "format": x.format, "shard": x.shard}
            for x in hints.layouts
        ]
    if hints.layout is not None:
        found["layout"] = hints.layout.tolist()
    if hints.aliases:
        found["aliases"] = [list(pair) for pair in hints.aliases]
    if hints.numerics:
        found["numerics"] = {name: dict(words) for name, words in hints.numerics.items()}
    if hints.policy is not None:
        found["policy"] = hints.policy
    if hints.at_input:
        found["at_input"] = list(hints.at_input)
    return {"version": 1, **found} if found else {}
