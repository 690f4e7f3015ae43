"""Devices and memory in a graph.json, as Hints: columns and metadata.graph_runtime, checked for consistency.

The passes of the plan decide whether devices, layouts and pools can satisfy the Hints.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import GraphError
from ...base.json_text import json_path
from ...base.machine import devices
from ..graph import Graph, Hints
from .columns import first_true, integers, of_length
from .metadata import (
    read_aliases,
    read_at_input,
    read_layout_column,
    read_layouts,
    read_numerics,
    read_storage,
)

HINTED = {"device_index", "device_id", "storage_id", "storage_scope"}  # columns read here
_SPARE_SIDS = 1 << 18  # storage ids allowed beyond one for each entry; their pool takes 20 MiB


def read_hints(document: dict[str, Any], graph: Graph) -> Hints:
    """The Hints of a checked document whose graph (without hints) is ``graph``. Raises GraphError or
    DocumentError with the path."""
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
    layouts = read_layouts(ours)
    return Hints(
        device_type,
        device_id,
        sid,
        None if scope is None else tuple(scope[1]),
        read_storage(ours, sid, device_type),
        layouts,
        read_layout_column(ours, layouts, count),
        read_aliases(ours, graph),
        read_at_input(ours, graph),
        read_numerics(ours),
        ours.get("policy"),
    )


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
            text = (
                "column device_id counts devices of the types in device_index, and there is no device_index"
            )
            raise GraphError(text, path="$.attrs.device_id")
        return None, None
    for column, name, least, text in (
        (device_type, "device_index", 1, "a DLDeviceType number from 1, which is cpu"),
        (device_id, "device_id", 0, "an ordinal from 0"),
    ):
        if column is not None and (column < least).any():
            eid = int(np.argmax(column < least))
            text = f"{name} {column[eid]} must be {text}"
            raise GraphError(text, path=json_path(("attrs", name, 1, eid)), got=int(column[eid]))
    _one_device_a_node(device_type, device_id, graph)
    return device_type, device_id


def _devices(device_type: np.ndarray, device_id: np.ndarray | None) -> np.ndarray:
    """int64 [entries]: the device of each entry as a number; different devices have different numbers."""
    return device_type if device_id is None else (device_type << 32) + device_id


def _name(device_type: np.ndarray, device_id: np.ndarray | None, eid: int) -> str:
    number = int(device_type[eid])
    known = devices.type_name(number) or f"device type {number}"
    return f"{known}:{0 if device_id is None else int(device_id[eid])}"


def _one_device_a_node(device_type: np.ndarray, device_id: np.ndarray | None, graph: Graph) -> None:
    device, nid = _devices(device_type, device_id), graph.entry_nid
    if (
        eid := first_true(device != device[graph.row_ptr[nid]] if len(nid) else np.zeros(0, bool))
    ) is not None:
        name, first = graph.names[nid[eid]], int(graph.row_ptr[nid[eid]])
        there, here = (_name(device_type, device_id, e) for e in (first, eid))
        text = f"node {name!r} has outputs on {there} and {here}: a node and its outputs are on one device"
        raise GraphError(text, path=json_path(("attrs", "device_index", 1, eid)), node=name)


def _check_scope(scope: list[str], graph: Graph) -> None:
    of_length(scope, graph.num_entries, "attrs", "storage_scope", 1)
    unusual = set(scope) - {"", "global"}
    if unusual:
        eid = next(i for i, s in enumerate(scope) if s in unusual)
        node = graph.names[graph.maker(eid)]
        raise GraphError(
            f"entry {eid} (an output of node {node!r}) wants memory scope {scope[eid][:60]!r}; there is only "
            'ordinary memory, "" or global (texture scopes exist on OpenCL devices only)',
            path=json_path(("attrs", "storage_scope", 1, eid)),
            node=node,
            got=scope[eid],
            wanted=("", "global"),
        )


def _check_storage_ids(
    sid: np.ndarray, device_type: np.ndarray | None, device_id: np.ndarray | None, graph: Graph
) -> None:
    limit = _SPARE_SIDS + len(sid)
    if (eid := first_true((sid < 0) | (sid > limit))) is not None:
        text = (
            "every entry needs a storage id from 0; leave the whole column out to have storage planned"
            if sid[eid] < 0
            else f"ids count pool entries from 0, and {len(sid)} entries cannot need more than {limit}"
        )
        text = f"storage_id {sid[eid]}: {text}"
        raise GraphError(text, path=json_path(("attrs", "storage_id", 1, eid)), got=int(sid[eid]))
    if device_type is None or not len(sid):
        return
    device = _devices(device_type, device_id)
    first = np.zeros(int(sid.max()) + 1, np.int64)
    first[sid[::-1]] = np.arange(len(sid))[::-1]
    if (eid := first_true(device != device[first[sid]])) is not None:
        other = int(first[sid[eid]])
        nodes = [graph.names[n] for n in graph.entry_nid[[other, eid]]]
        there, here = (_name(device_type, device_id, e) for e in (other, eid))
        raise GraphError(
            f"The same pool entry cannot be assigned to multiple devices: storage_id {sid[eid]} is on "
            f"{there} (node {nodes[0]!r}, entry {other}) and on {here} (node {nodes[1]!r}, entry {eid}); "
            "give one of them another storage_id",
            path=json_path(("attrs", "storage_id", 1, eid)),
            node=nodes[1],
            got=int(sid[eid]),
        )
