"""What a graph.json says about devices and memory: its columns and metadata.graph_runtime, checked against themselves, as Hints.

Whether a device list, a layout or a pool can do what they say is decided by the plan passes.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import devices, dtypes
from .columns import integers, of_length
from .document import json_path
from .errors import DeviceError, DocumentError, GraphError, did_you_mean
from .graph import COPY, Graph, Hints, StorageHint
from .layout import HOST, MEMORY_CODES, ROW_MAJOR, TILE, Layout

__all__ = ["read_hints"]

_META = ("metadata", "graph_runtime")
_SPARE_SIDS = 1 << 20


def read_hints(document: dict[str, Any], graph: Graph) -> Hints:
    """The Hints of a checked document whose graph (without hints) is ``graph``. Raises GraphError or DocumentError at the place."""
    columns, count = document["attrs"], graph.num_entries
    device_type, device_id = _device_columns(columns, graph)
    sid = _column(columns, "storage_id", count)
    scope = columns.get("storage_scope")
    if scope is not None:
        _check_scope(scope[1], graph)
    if sid is not None:
        _check_storage_ids(sid, device_type, device_id, graph)
    metadata = document.get("metadata")
    ours = metadata.get("graph_runtime", {}) if isinstance(metadata, dict) else {}
    layouts = tuple(_layout(row, i) for i, row in enumerate(ours["layouts"])) if "layouts" in ours else None
    return Hints(
        device_type, device_id, sid, None if scope is None else tuple(scope[1]), _storage(ours, sid, device_type), layouts,
        _layout_column(ours, layouts, count), _aliases(ours, graph), _at_input(ours, graph))


def _place(*places: str | int) -> str:
    return json_path((*_META, *places))


# ---------------------------------------------------------------- columns

def _column(columns: dict[str, Any], name: str, count: int) -> np.ndarray | None:
    if name not in columns:
        return None
    values = columns[name][1]
    of_length(values, count, "attrs", name, 1)
    return integers(values, "attrs", name, 1)


def _device_columns(columns: dict[str, Any], graph: Graph) -> tuple[np.ndarray | None, np.ndarray | None]:
    device_type = _column(columns, "device_index", graph.num_entries)
    device_id = _column(columns, "device_id", graph.num_entries)
    if device_type is None:
        if device_id is not None:
            raise GraphError("column device_id counts devices of the type that device_index names, and there is no device_index",
                             path="$.attrs.device_id")
        return None, None
    for column, name, least, text in ((device_type, "device_index", 1, "a DLDeviceType number from 1 (1 cpu, 12 tt)"),
                                      (device_id, "device_id", 0, "an ordinal from 0")):
        if column is not None and (column < least).any():
            eid = int(np.argmax(column < least))
            raise GraphError(f"{name} {column[eid]} must be {text}", path=json_path(("attrs", name, 1, eid)), got=int(column[eid]))
    _one_device_a_node(device_type, device_id, graph)
    return device_type, device_id


def _devices(device_type: np.ndarray, device_id: np.ndarray | None) -> np.ndarray:
    """int64 [entries]: one number a device."""
    return device_type if device_id is None else (device_type << 32) + device_id


def _name(device_type: np.ndarray, device_id: np.ndarray | None, eid: int) -> str:
    number = int(device_type[eid])
    known = {1: "cpu", 12: "tt"}.get(number) or {v: k for k, v in devices.DL_NAMES.items()}.get(number, f"device type {number}")
    return f"{known}:{0 if device_id is None else int(device_id[eid])}"


def _one_device_a_node(device_type: np.ndarray, device_id: np.ndarray | None, graph: Graph) -> None:
    device, nid = _devices(device_type, device_id), graph.entry_nid
    bad = device != device[graph.row_ptr[nid]] if len(nid) else np.zeros(0, bool)
    if bad.any():
        eid = int(np.argmax(bad))
        name, first = graph.names[nid[eid]], int(graph.row_ptr[nid[eid]])
        raise GraphError(f"node {name!r} has outputs on {_name(device_type, device_id, first)} and {_name(device_type, device_id, eid)}: "
                         f"a node runs on one device, and all its outputs lie there", path=json_path(("attrs", "device_index", 1, eid)),
                         node=name)


def _check_scope(scope: list[str], graph: Graph) -> None:
    of_length(scope, graph.num_entries, "attrs", "storage_scope", 1)
    unusual = set(scope) - {"", "global"}
    if unusual:
        eid = next(i for i, s in enumerate(scope) if s in unusual)
        node = graph.names[int(np.searchsorted(graph.row_ptr, eid, side="right")) - 1]
        raise GraphError(f"entry {eid} (an output of node {node!r}) wants memory scope {scope[eid][:60]!r}; there is only ordinary memory, \"\" "
                         f"or global (texture scopes exist on OpenCL devices only)", path=json_path(("attrs", "storage_scope", 1, eid)),
                         node=node, got=scope[eid], wanted=("", "global"))


def _check_storage_ids(sid: np.ndarray, device_type: np.ndarray | None, device_id: np.ndarray | None, graph: Graph) -> None:
    limit = _SPARE_SIDS + len(sid)
    bad = (sid < 0) | (sid > limit)
    if bad.any():
        eid = int(np.argmax(bad))
        text = "every entry needs a storage id from 0; leave the whole column out to have storage planned" if sid[eid] < 0 else \
            f"ids count pool entries from 0, and {len(sid)} entries cannot need more than {limit}"
        raise GraphError(f"storage_id {sid[eid]}: {text}", path=json_path(("attrs", "storage_id", 1, eid)), got=int(sid[eid]))
    if device_type is None or not len(sid):
        return
    device = _devices(device_type, device_id)
    first = np.zeros(int(sid.max()) + 1, np.int64)
    first[sid[::-1]] = np.arange(len(sid))[::-1]
    conflict = device != device[first[sid]]
    if conflict.any():
        eid = int(np.argmax(conflict))
        other = int(first[sid[eid]])
        nodes = [graph.names[n] for n in graph.entry_nid[[other, eid]]]
        raise GraphError(
            f"The same pool entry cannot be assigned to multiple devices: storage_id {sid[eid]} is on {_name(device_type, device_id, other)} "
            f"(node {nodes[0]!r}, entry {other}) and on {_name(device_type, device_id, eid)} (node {nodes[1]!r}, entry {eid}); give one "
            f"of them another storage_id", path=json_path(("attrs", "storage_id", 1, eid)), node=nodes[1], got=int(sid[eid]))


# ---------------------------------------------------------------- metadata.graph_runtime

def _storage(ours: dict, sid: np.ndarray | None, device_type: np.ndarray | None) -> tuple[StorageHint, ...] | None:
    if "storage" not in ours:
        return None
    if sid is None:
        raise GraphError("storage describes storage ids, and there is no column storage_id", path=_place("storage"))
    rows = tuple(_storage_hint(row, i) for i, row in enumerate(ours["storage"]))
    count = int(sid.max(initial=-1)) + 1
    if len(rows) < count:
        raise GraphError(f"storage has {len(rows)} rows, one a storage id, and the column goes up to {count - 1}", path=_place("storage"),
                         got=len(rows), wanted=count)
    if device_type is not None and len(sid):
        dl_type = np.array([devices.parse(row.device).dl_type for row in rows])
        bad = dl_type[sid] != device_type
        if bad.any():
            eid = int(np.argmax(bad))
            raise GraphError(f"storage puts id {sid[eid]} on {rows[sid[eid]].device}, device_index puts entry {eid} on device type "
                             f"{device_type[eid]}", path=_place("storage", int(sid[eid]), "device"), got=rows[sid[eid]].device)
    return rows


def _storage_hint(row: dict[str, Any], i: int) -> StorageHint:
    path = _place("storage", i, "device")
    try:
        device = devices.parse(row["device"])
        if device.descriptor.test_only:
            raise GraphError(f"device {device} is for tests only and cannot stand in a file", path=path, device=str(device))
        device.descriptor.memory(row["memory"])
    except DeviceError as error:
        raise GraphError(str(error), path=path if "memory" not in str(error) else _place("storage", i, "memory"), got=error.got) from None
    offset, nbytes = integers([row["offset"], row["bytes"]], *_META, "storage", i).tolist()
    return StorageHint(row["device"], row["memory"], offset, nbytes)


def _layout(row: dict[str, Any], i: int) -> Layout:
    name, path = row["format"], _place("layouts", i, "format")
    fmt = dtypes.FORMATS.get(name)
    if fmt is None:
        try:
            known = dtypes.canonical(name) == name and name != "void"
        except DocumentError:
            known = False
        if not known:
            raise GraphError(f"unknown format {name[:60]!r}{did_you_mean(name, dtypes.FORMATS)}", path=path, got=name)
    if row["layout"] == TILE and (row["memory"] == HOST or fmt is None):
        raise GraphError(f"layout tile exists on devices only, not for {name} in {row['memory']}", path=_place("layouts", i, "layout"))
    if row["layout"] == ROW_MAJOR and fmt is not None and fmt.itemsize is None:
        raise GraphError(f"format {name} exists in layout tile only", path=path, got=name)
    return Layout(row["memory"], row["layout"], name, None)


def _layout_column(ours: dict, layouts: tuple[Layout, ...] | None, count: int) -> np.ndarray | None:
    if "layout" not in ours:
        return None
    column = ours["layout"]
    of_length(column, count, *_META, "layout")
    values = integers(column, *_META, "layout")
    bad = values >= len(layouts or ())
    if bad.any():
        at = int(np.argmax(bad))
        raise GraphError(f"layout {values[at]} is out of range: there are {len(layouts or ())} layouts", path=_place("layout", at),
                         got=int(values[at]), wanted=len(layouts or ()))
    return values


def _aliases(ours: dict, graph: Graph) -> tuple[tuple[int, int], ...]:
    pairs = [tuple(integers(pair, *_META, "aliases", i).tolist()) for i, pair in enumerate(ours.get("aliases", ()))]
    taken: tuple[set[int], set[int]] = (set(), set())
    for i, (output, source) in enumerate(pairs):
        for side, (value, most, what) in enumerate(((output, len(graph.outputs), "output"), (source, len(graph.inputs), "input"))):
            if value >= most or value in taken[side]:
                text = f"out of range: the graph has {most}" if value >= most else "aliased twice"
                raise GraphError(f"{what} {value} is {text}", path=_place("aliases", i, side), got=value)
            taken[side].add(value)
        types = graph.entry_type(int(graph.outputs[output])), graph.entry_type(int(graph.input_eids[source]))
        if types[0] != types[1]:
            raise GraphError(f"output {output} is {types[0]} and cannot be written into input {source}, which is {types[1]}",
                             path=_place("aliases", i), got=types[0], wanted=types[1])
    return tuple(pairs)


def _at_input(ours: dict, graph: Graph) -> tuple[int, ...]:
    nids = integers(ours.get("at_input", []), *_META, "at_input").tolist()
    inputs = set(graph.input_eids.tolist())
    seen: set[int] = set()
    for i, nid in enumerate(nids):
        fid = int(graph.func_id[nid]) if nid < graph.num_nodes else -1
        if fid < 0 or graph.funcs[fid].name != COPY or int(graph.in_eid[graph.in_ptr[nid]]) not in inputs or nid in seen:
            raise GraphError(f"node {nid} is listed twice" if nid in seen else f"node {nid} is no {COPY} of a graph input",
                             path=_place("at_input", i), got=nid)
        seen.add(nid)
    return tuple(nids)


def extra_columns(columns: dict[str, Any], known: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """Columns that nothing reads, kept for the writer: {name: (tag, value)}."""
    found = {}
    for name, (tag, value) in columns.items():
        if name not in known:
            integers(value if tag == "list_int" else [value], "attrs", name, 1)
            found[name] = (tag, tuple(value) if tag == "list_int" else value)
    return found
