"""A plan as one block of bytes beside its graph.json in a bundle: loading it parses and plans nothing.

    Plan --write_snapshot--> bytes --read_snapshot--> Plan

It is a shortcut, never the truth: a bundle without it, for other devices, or of another version of this
package is read from its graph.json. What is read is held against the same rules as a document (ids, order,
the ops' rules), and the plan is checked by the independent checker.

    "GRPLAN" u16 version, u64 bytes of JSON, JSON (functions, types, layouts, texts, where each column lies),
    columns, each at a multiple of 64 bytes
"""
from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import orjson

from .. import dtypes
from ..bundles.weights import ALIGNMENT, lay_out, write_values
from ..devices import Device
from ..documents.columns import pool_type
from ..documents.functions import check_functions, make_functions
from ..errors import DocumentError
from ..graph import Graph, TensorType
from ..layout import Layout
from ..ops.numerics import Numerics
from .checker.check import check
from .types import Plan, Storage

__all__ = ["read_snapshot", "write_snapshot"]

_MAGIC = b"GRPLAN\x01\x00"
_HEAD = len(_MAGIC) + 8
_GRAPH = {"func_id": "int32", "row_ptr": "int64", "in_ptr": "int64", "in_eid": "int64", "type_id": "int32",
          "inputs": "int64", "outputs": "int64"}
_PLAN = {"did": "int32", "origin": "int64", "at_input": "bool", "cause_id": "int32", "layout_id": "int32",
         "sid": "int32"}
_STORAGE = {"did": "int32", "memory": "int32", "offset": "int64", "extent": "int64", "nbytes": "int64"}
_BY_MEMORY = ("peak", "lower_bound")          # {(did, memory): value}
_LISTS = ("causes", "layout_causes", "warnings", "aliases")
_OTHERS = ("graph", "devices", "layouts", "storage", "numerics", "placement")


def write_snapshot(plan: Plan) -> bytes | None:
    """The bytes of a plan; None for one that has what they do not hold: op models of a balancer, shards,
    control dependencies, a name with a zero character, functions without the attrs of a file."""
    if not _can_hold(plan):
        return None
    graph = plan.graph
    columns = {"names": np.frombuffer("\0".join(graph.names).encode(), np.uint8)}
    for prefix, source, names in (("graph", graph, _GRAPH), ("plan", plan, _PLAN),
                                  ("storage", plan.storage, _STORAGE)):
        columns |= {f"{prefix}.{name}": np.asarray(getattr(source, name)).astype(dtype)
                    for name, dtype in names.items()}
    slots, _ = lay_out({key: TensorType(column.dtype.name, column.shape) for key, column in columns.items()})
    header = {
        "devices": [device.spelling for device in plan.devices],
        "funcs": [[func.num_inputs, func.raw] for func in graph.funcs],
        "types": [[t.dtype, t.shape] for t in graph.types],
        "layouts": [[x.memory, x.layout, x.format] for x in plan.layouts],
        "numerics": [words.as_dict() for words in plan.numerics],
        "by_memory": {name: [[*key, value] for key, value in getattr(plan, name).items()]
                      for name in _BY_MEMORY},
        "lists": {name: getattr(plan, name) for name in _LISTS},
        "columns": {key: [slot.type.dtype, slot.type.shape[0], slot.offset] for key, slot in slots.items()}}
    text = orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    text += b" " * (-(_HEAD + len(text)) % ALIGNMENT)
    out = io.BytesIO()
    out.write(_MAGIC + len(text).to_bytes(8, "little") + text)
    write_values(out, slots, columns)
    return out.getvalue()


def _can_hold(plan: Plan) -> bool:
    graph, known = plan.graph, {*_PLAN, *_BY_MEMORY, *_LISTS, *_OTHERS}
    more = [getattr(plan, f.name) for f in fields(plan) if f.name not in known]
    return (all(value is None or value == () for value in more)
            and not graph.control_deps and not graph.extra_columns
            and all(layout.shard is None for layout in plan.layouts)
            and all("\0" not in name for name in graph.names)
            and all(func.raw for func in graph.funcs))


def read_snapshot(data: memoryview, devices: Sequence[Device],
                  inplace: Mapping[str, tuple[int, ...]] | None = None) -> Plan | None:
    """The plan in a snapshot, checked; None where it is of another version or for other devices.

    Raises DocumentError for bytes that are damaged, and GraphError or CheckError as loading a document does.
    """
    if bytes(data[:len(_MAGIC)]) != _MAGIC:
        return None
    try:
        size = int.from_bytes(data[len(_MAGIC):_HEAD], "little")
        header = orjson.loads(data[_HEAD:_HEAD + size])
        if header["devices"] != [device.spelling for device in devices]:
            return None
        plan = _plan(header, _columns(header, data[_HEAD + size:]), tuple(devices))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DocumentError(f"a plan's snapshot is damaged: {error}") from None
    check_functions(plan.graph)
    return check(plan, inplace=inplace)


def _columns(header: Mapping[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    found = {}
    for key, (dtype, count, offset) in header["columns"].items():
        end = offset + count * np.dtype(dtype).itemsize
        if offset < 0 or count < 0 or end > len(data):
            raise ValueError(f"column {key} ends behind the file")
        found[key] = np.frombuffer(data[offset:end], dtypes.to_numpy(dtype))
    return found


def _plan(header: Mapping[str, Any], columns: Mapping[str, np.ndarray], devices: tuple[Device, ...]) -> Plan:
    graph = _graph(header, columns)
    made = {name: columns[f"plan.{name}"] for name in _PLAN}
    storage = Storage(**{name: columns[f"storage.{name}"] for name in _STORAGE})
    layouts = tuple(Layout(*row) for row in header["layouts"])
    nodes, entries = graph.num_nodes, graph.num_entries
    memories = np.array([len(d.descriptor.memories) for d in devices])
    for name, values, count, least, most in (
            ("did", made["did"], nodes, 0, len(devices)), ("origin", made["origin"], nodes, -1, nodes),
            ("cause_id", made["cause_id"], nodes, 0, len(header["lists"]["causes"])),
            ("at_input", made["at_input"], nodes, 0, 2),
            ("layout_id", made["layout_id"], entries, 0, len(layouts)),
            ("sid", made["sid"], entries, 0, storage.count),
            ("storage.did", storage.did, storage.count, 0, len(devices))):
        _require(name, values, count, least, most)
    for name in _STORAGE:
        _require(name, getattr(storage, name), storage.count, 0, 1 << 62)
    if (storage.memory >= memories[storage.did]).any():
        raise ValueError("a storage lies in a memory that its device does not have")
    lists = {name: tuple(map(tuple, value) if name == "aliases" else value)
             for name, value in header["lists"].items() if name in _LISTS}
    by_memory = {name: {(did, memory): value for did, memory, value in rows}
                 for name, rows in header["by_memory"].items() if name in _BY_MEMORY}
    return Plan(graph=graph, devices=devices, layouts=layouts, storage=storage, **made, **lists, **by_memory,
                numerics=tuple(Numerics(**words) for words in header["numerics"]))


def _graph(header: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> Graph:
    """The graph, its ids in range and its order a schedule."""
    names = tuple(columns["names"].tobytes().decode().split("\0")) if len(columns["names"]) else ()
    given = {name: columns[f"graph.{name}"] for name in _GRAPH}
    funcs = make_functions([(count, raw) for count, raw in header["funcs"]])
    types = tuple(pool_type(dtype, tuple(shape)) for dtype, shape in header["types"])
    graph = Graph(names=names, funcs=funcs, types=types, **given)
    if not names:
        raise ValueError("there are no nodes")
    nodes = len(names)
    _require("func_id", graph.func_id, nodes, -1, len(funcs))
    inputs, outputs = (np.array([*(getattr(f, what) for f in funcs), null], np.int64)[graph.func_id]
                       for what, null in (("num_inputs", 0), ("num_outputs", 1)))
    for name, pointers, wanted in (("row_ptr", graph.row_ptr, outputs), ("in_ptr", graph.in_ptr, inputs)):
        if len(pointers) != nodes + 1 or pointers[0] != 0 or (np.diff(pointers) != wanted).any():
            raise ValueError(f"{name} is not what the nodes' functions take and give")
    entries = graph.num_entries
    _require("in_eid", graph.in_eid, int(graph.in_ptr[-1]), 0, entries)
    _require("type_id", graph.type_id, entries, 0, len(types))
    _require("inputs", graph.inputs, len(graph.inputs), 0, nodes)
    _require("outputs", graph.outputs, len(graph.outputs), 0, entries)
    reader = np.repeat(np.arange(nodes), np.diff(graph.in_ptr))
    maker = graph.entry_nid[graph.in_eid]
    if ((maker >= reader) & (graph.func_id[maker] >= 0)).any() or (graph.func_id[graph.inputs] >= 0).any():
        raise ValueError("the order of nodes is no schedule")
    return graph


def _require(name: str, values: np.ndarray, count: int, least: int, most: int) -> None:
    if len(values) != count or (count and not (least <= values.min() and values.max() < most)):
        raise ValueError(f"column {name} is no list of {count} numbers from {least} to {most - 1}")
