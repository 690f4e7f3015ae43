"""metadata.graph_runtime of a graph.json: the decisions of a plan that TVM's columns cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DeviceError, DocumentError, GraphError, did_you_mean
from ...base.json_text import json_path
from ...base.machine import devices
from ...base.machine.layout import HOST, L1, ROW_MAJOR, TILE, Layout
from ...base.machine.shards import Shard
from ..graph import COPY, Graph, StorageHint
from ..ops.numerics import options_error
from .columns import first_true, integers, of_length

_META = ("metadata", "graph_runtime")


def _path(*keys: str | int) -> str:
    return json_path((*_META, *keys))


def read_storage(
    ours: dict[Any, Any], sid: np.ndarray | None, device_type: np.ndarray | None
) -> tuple[StorageHint, ...] | None:
    """One row for each storage id, or None without ``storage``. Raises GraphError if rows, ids and device
    columns disagree."""
    if "storage" not in ours:
        return None
    if sid is None:
        text = "storage describes storage ids, and there is no column storage_id"
        raise GraphError(text, path=_path("storage"))
    rows = tuple(_storage_hint(row, i) for i, row in enumerate(ours["storage"]))
    count = int(sid.max(initial=-1)) + 1
    if len(rows) < count:
        text = f"storage has {len(rows)} rows, one a storage id, and the column goes up to {count - 1}"
        raise GraphError(text, path=_path("storage"), got=len(rows), wanted=count)
    if device_type is not None and len(sid):
        dl_type = np.array([devices.parse(row.device).dl_type for row in rows])
        if (eid := first_true(dl_type[sid] != device_type)) is not None:
            raise GraphError(
                f"storage puts id {sid[eid]} on {rows[sid[eid]].device}, device_index puts entry {eid} "
                "on device type "
                f"{device_type[eid]}",
                path=_path("storage", int(sid[eid]), "device"),
                got=rows[sid[eid]].device,
            )
    return rows


def _storage_hint(row: dict[str, Any], i: int) -> StorageHint:
    path = _path("storage", i, "device")
    try:
        device = devices.parse(row["device"])
        if device.descriptor.test_only:
            text = f"device {device} is for tests only and cannot stand in a file"
            raise GraphError(text, path=path, device=str(device))
        device.descriptor.memory(row["memory"])
    except DeviceError as error:
        raise GraphError(
            str(error),
            path=path if "memory" not in str(error) else _path("storage", i, "memory"),
            got=error.got,
        ) from None
    offset, nbytes = integers([row["offset"], row["bytes"]], *_META, "storage", i).tolist()
    return StorageHint(row["device"], row["memory"], offset, nbytes)


def read_layouts(ours: dict[str, Any]) -> tuple[Layout, ...] | None:
    """The distinct layouts, or None. Raises GraphError for an impossible layout."""
    return tuple(_layout(row, i) for i, row in enumerate(ours["layouts"])) if "layouts" in ours else None


def _layout(row: dict[str, Any], i: int) -> Layout:
    name, path = row["format"], _path("layouts", i, "format")
    fmt = dtypes.FORMATS.get(name)
    if fmt is None:
        try:
            known = dtypes.canonical(name) == name and name != "void"
        except DocumentError:
            known = False
        if not known:
            text = f"unknown format {name[:60]!r}{did_you_mean(name, dtypes.FORMATS)}"
            raise GraphError(text, path=path, got=name)
    if row["layout"] == TILE and (row["memory"] == HOST or fmt is None):
        text = f"layout tile exists on devices only, not for {name} in {row['memory']}"
        raise GraphError(text, path=_path("layouts", i, "layout"))
    if row["layout"] == ROW_MAJOR and fmt is not None and fmt.itemsize is None:
        raise GraphError(f"format {name} exists in layout tile only", path=path, got=name)
    return Layout(row["memory"], row["layout"], name, _shard(row, i))


def _shard(row: dict[str, Any], i: int) -> Shard | None:
    """The shards of a layout, or None. The plan checks whether the shards suit a tensor and a device."""
    said = row.get("shard")
    if said is None:
        return None
    if row["memory"] != L1:
        text = f"shards lie in the L1 of cores, not in {row['memory']}"
        raise GraphError(text, path=_path("layouts", i, "shard"), got=row["memory"], wanted=L1)
    (top, left), (bottom, right) = said["grid"]
    if top > bottom or left > right:
        raise GraphError(
            "grid is the first and the last core of a rectangle, [[row, column], [row, column]], both inside",
            path=_path("layouts", i, "shard", "grid"),
            got=said["grid"],
        )
    return Shard(
        said["kind"], ((top, left), (bottom, right)), tuple(said["shape"]), said.get("orientation", "row")
    )


def read_layout_column(
    ours: dict[Any, Any], layouts: tuple[Layout, ...] | None, count: int
) -> np.ndarray | None:
    """int64 [entries]: index into ``layouts``, -1 for an entry without a layout; None if the column is
    absent."""
    if "layout" not in ours:
        return None
    column = ours["layout"]
    of_length(column, count, *_META, "layout")
    values = integers(column, *_META, "layout")
    if (at := first_true(values >= len(layouts or ()))) is not None:
        text = f"layout {values[at]} is out of range: there are {len(layouts or ())} layouts"
        raise GraphError(text, path=_path("layout", at), got=int(values[at]), wanted=len(layouts or ()))
    return values


def read_aliases(ours: dict[Any, Any], graph: Graph) -> tuple[tuple[int, int], ...]:
    """Pairs (output index, input index) whose types are equal; no pair occurs twice. Raises GraphError."""
    pairs = [
        tuple(integers(pair, *_META, "aliases", i).tolist()) for i, pair in enumerate(ours.get("aliases", ()))
    ]
    taken: tuple[set[int], set[int]] = (set(), set())
    input_eids = graph.input_eids
    for i, (output, source) in enumerate(pairs):
        for side, (value, most, what) in enumerate(
            ((output, len(graph.outputs), "output"), (source, len(graph.inputs), "input"))
        ):
            if value >= most or value in taken[side]:
                text = f"out of range: the graph has {most}" if value >= most else "aliased twice"
                raise GraphError(f"{what} {value} is {text}", path=_path("aliases", i, side), got=value)
            taken[side].add(value)
        types = graph.entry_type(int(graph.outputs[output])), graph.entry_type(int(input_eids[source]))
        if types[0] != types[1]:
            raise GraphError(
                f"output {output} is {types[0]} and cannot be written into input {source}, which is "
                f"{types[1]}",
                path=_path("aliases", i),
                got=types[0],
                wanted=types[1],
            )
    return tuple(pairs)


def read_at_input(ours: dict[Any, Any], graph: Graph) -> tuple[int, ...]:
    """nids of __copy nodes that run when a graph input is set. Each of them reads a graph input or the result
    of another such copy. Raises GraphError for any other node."""
    nids = integers(ours.get("at_input", []), *_META, "at_input").tolist()
    known = [nid for nid in nids if nid < graph.num_nodes]
    set_then = {*graph.input_eids.tolist(), *graph.row_ptr[known].tolist()}
    seen: set[int] = set()
    for i, nid in enumerate(nids):
        fid = int(graph.func_id[nid]) if nid < graph.num_nodes else -1
        if (
            fid < 0
            or graph.funcs[fid].name != COPY
            or int(graph.in_eid[graph.in_ptr[nid]]) not in set_then
            or nid in seen
        ):
            raise GraphError(
                f"node {nid} is listed twice" if nid in seen else f"node {nid} is no {COPY} of a graph input",
                path=_path("at_input", i),
                got=nid,
            )
        seen.add(nid)
    return tuple(nids)


def read_numerics(ours: dict[str, Any]) -> dict[str, dict[str, str]]:
    """{device or kind: {option: word}}. Raises GraphError for an unknown option or word."""
    found = ours.get("numerics", {})
    for name, words in found.items():
        if reason := options_error(words):
            raise GraphError(f"numerics of {name}: {reason}", path=_path("numerics", name), got=words)
    return found
