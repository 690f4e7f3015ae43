"""Graph + devices -> Placement: which device each node runs on, and why.

A pin decides first, then the file's device columns, else devices[0]; an input without either goes to its
first consumer. The caller's list keeps its order: its first device is the fallback, whatever its kind.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..devices import NO_KERNELS, Device, dl_types, parse, type_name
from ..errors import PlanError, UnsupportedOpError, did_you_mean
from ..graph import COPY, NOP, Graph
from ..ops import registry
from ..ops.select import select
from .columns import first_of, intern, slot_nid
from .globs import matching
from .types import Placement

__all__ = ["place"]


def place(graph: Graph, devices: Sequence[Device], *, pins: Mapping[str, str | Device] | None = None,
          device_map: Mapping[str, str | Device] | None = None, strict: bool = False) -> Placement:
    """Give each node a device of ``devices``.

    ``pins``: glob over node name, op name and function name -> device; the last one that matches a node wins.
    ``device_map``: a DLDeviceType, by name or number, -> device: what the file's column calls "opencl" runs
    on tt:0. ``strict``: a type or ordinal that the list does not have is an error instead of a warning.

    Raises PlanError for a pin or mapping that names nothing, for a node whose outputs lie on two devices, and
    under ``strict``; UnsupportedOpError where a device has no kernel for a node.
    """
    devices = tuple(devices)
    causes = _Causes()
    did, cause_id, warnings = _from_columns(graph, devices, device_map or {}, strict, causes)
    pinned = _apply_pins(graph, devices, pins or {}, did, cause_id, causes)
    if graph.hints.device_type is None:
        _inputs_follow(graph, devices, pinned, did, cause_id, causes)
    _check_kernels(graph, devices, did)
    return Placement(graph, devices, did, cause_id, tuple(causes.texts), tuple(warnings))


class _Causes:
    """The sentences of one placement, each once."""

    def __init__(self):
        self.texts: list[str] = []

    def add(self, text: str) -> int:
        self.texts.append(text)
        return len(self.texts) - 1


# **************** columns ****************

def _from_columns(
    graph: Graph,
    devices: tuple[Device, ...],
    device_map: Mapping[str, str | Device],
    strict: bool,
    causes: _Causes,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """did and cause of each node from device_index and device_id, and the warnings about devices that are not
    there."""
    mapped = _read_map(devices, device_map)
    if graph.hints.device_type is None:
        first = causes.add(f"no device column: the first device of the list, {devices[0]}")
        return np.zeros(graph.num_nodes, np.int32), np.full(graph.num_nodes, first, np.int32), []
    types = np.asarray(graph.hints.device_type, np.int64)
    ids = (
        np.zeros_like(types) if graph.hints.device_id is None else np.asarray(graph.hints.device_id, np.int64)
    )
    rows, row = _distinct_pairs(types, ids)
    dids, reasons, warnings = [], [], []
    for dl_type, ordinal in rows:
        did, text, missing = _resolve(dl_type, ordinal, devices, mapped)
        if missing and strict:
            raise PlanError(f"{text}; strict placement has no fallback: add the device or map the type",
                            path="$.attrs.device_index", got=dl_type, wanted=[str(d) for d in devices])
        warnings += [text] if missing else []
        dids.append(did)
        reasons.append(causes.add(text))
    entry_did = np.array(dids, np.int32)[row]
    _check_outputs_agree(graph, entry_did, devices)
    node_row = _first_entry(graph, row)
    return (np.array([*dids, 0], np.int32)[node_row],
            np.array([*reasons, causes.add(f"makes nothing: the first device of the list, {devices[0]}")],
                     np.int32)[node_row], warnings)


def _distinct_pairs(types: np.ndarray, ids: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
    """The distinct (type, ordinal) pairs of the columns, and each entry's row in them."""
    if len(types) and 0 <= types.min() and types.max() < 64 and 0 <= ids.min() and ids.max() < 64:
        distinct, row = intern(types * 64 + ids, 64 * 64)
        return [(int(k) // 64, int(k) % 64) for k in distinct], row
    distinct, row = np.unique(np.stack([types, ids], 1), axis=0, return_inverse=True)
    return [(int(t), int(i)) for t, i in distinct], row.reshape(-1)


def _first_entry(graph: Graph, row: np.ndarray) -> np.ndarray:
    """row of each node's first entry; -1 for a node that makes nothing."""
    if len(row) == graph.num_nodes:
        return row
    empty = np.diff(graph.row_ptr) == 0
    return np.where(empty, -1, np.append(row, -1)[graph.row_ptr[:-1]])


def _resolve(dl_type: int, ordinal: int, devices: tuple[Device, ...],
             mapped: dict[int, int]) -> tuple[int, str, bool]:
    """Device index, cause, and whether the list lacks what the column asks for."""
    name = f"device_index {dl_type} ({type_name(dl_type) or 'unknown type'})"
    if dl_type in mapped:
        return mapped[dl_type], f"{name} is mapped to {devices[mapped[dl_type]]}", False
    same = [did for did, device in enumerate(devices) if device.dl_type == dl_type]
    if not same:
        return 0, f"{name}: no such device in the list, falls back to the first, {devices[0]}", True
    if not 0 <= ordinal < len(same):
        return same[0], (f"{name}, device_id {ordinal}: the list has {len(same)} of that type, "
                         f"falls back to the first of them, {devices[same[0]]}"), True
    return same[ordinal], f"{name}, device_id {ordinal}: {devices[same[ordinal]]}", False


def _read_map(devices: tuple[Device, ...], device_map: Mapping[str, str | Device]) -> dict[int, int]:
    """DLDeviceType -> index into devices."""
    mapped, types = {}, dl_types()
    for key, target in device_map.items():
        name = str(key).lower()
        if not name.isdecimal() and name not in types:
            raise PlanError(
                f"unknown device type {key!r} in the device map{did_you_mean(name, types)}", got=key
            )
        mapped[int(name) if name.isdecimal() else types[name]] = _index(
            devices, target, f"device map {key!r}"
        )
    return mapped


def _index(devices: tuple[Device, ...], target: str | Device, what: str) -> int:
    """The place of a device in the caller's list. Raises PlanError where it is not in it."""
    device = parse(target)
    for did, known in enumerate(devices):
        if (known.kind, known.ordinal) == (device.kind, device.ordinal):
            return did
    raise PlanError(
        f"{what}: {device} is not in the device list{did_you_mean(str(device), map(str, devices))}",
        got=str(device),
        wanted=[str(d) for d in devices],
    )


def _check_outputs_agree(graph: Graph, entry_did: np.ndarray, devices: tuple[Device, ...]) -> None:
    if graph.num_entries == graph.num_nodes:
        return
    differs = np.flatnonzero(np.diff(entry_did))
    nid = graph.entry_nid
    same_node = differs[nid[differs] == nid[differs + 1]]
    if len(same_node):
        eid = int(same_node[0])
        a, b = devices[entry_did[eid]], devices[entry_did[eid + 1]]
        raise PlanError(
            f"outputs of node {graph.names[nid[eid]]!r} are on {a} and {b}: a node's outputs lie on its own "
            f"device; copy one of them in a node of its own",
            path=f"$.attrs.device_index[1][{eid + 1}]",
            node=graph.names[nid[eid]],
            got=str(b),
            wanted=str(a),
        )


# **************** pins and inputs ****************

def _apply_pins(graph: Graph, devices: tuple[Device, ...], pins: Mapping[str, str | Device], did: np.ndarray,
                cause_id: np.ndarray, causes: _Causes) -> np.ndarray:
    """Write the pinned nodes into did and cause_id; bool [nodes], True where a pin matched."""
    pinned = np.zeros(graph.num_nodes, bool)
    for glob, target in pins.items():
        target_did = _index(devices, target, f"pin {glob!r}")
        hit = matching(graph, glob, "pin")
        pinned |= hit
        did[hit] = target_did
        cause_id[hit] = causes.add(f"pin {glob!r}: {devices[target_did]}")
    return pinned


def _inputs_follow(graph: Graph, devices: tuple[Device, ...], pinned: np.ndarray, did: np.ndarray,
                   cause_id: np.ndarray, causes: _Causes) -> None:
    """Inputs that nothing placed live where their first consumer runs."""
    if len(devices) == 1 or not (did != did[:1]).any():
        return
    consumer = np.full(graph.num_entries, -1, np.int64)
    consumer[graph.in_eid[::-1]] = slot_nid(graph)[::-1]      # the earliest is written last and stays
    free = np.flatnonzero((graph.func_id < 0) & ~pinned)
    reader = consumer[graph.row_ptr[free]]
    free, reader = free[reader >= 0], reader[reader >= 0]
    did[free] = did[reader]
    text_of = np.array(
        [causes.add(f"an input lives where its first consumer runs: {d}") for d in devices], np.int32
    )
    cause_id[free] = text_of[did[free]]


# **************** kernels ****************

def _check_kernels(graph: Graph, devices: tuple[Device, ...], did: np.ndarray) -> None:
    """Each (function, device) pair in use, once: nodes that share a function share their types."""
    calls = np.flatnonzero(graph.func_id >= 0)
    if not len(calls):
        return
    keys = graph.func_id[calls].astype(np.int64) * len(devices) + did[calls]
    distinct, row = intern(keys, len(graph.funcs) * len(devices))
    example = calls[first_of(row, len(distinct))]
    for key, nid in zip(distinct.tolist(), example.tolist(), strict=True):
        device = devices[key % len(devices)]
        reason = _no_kernel(graph, nid, key // len(devices), device)
        if reason:
            node = graph.node(nid)
            raise UnsupportedOpError(
                f"node {node.name!r} (op {node.op}) cannot run on {device}: {reason}; place it on "
                f"another device",
                path=f"$.nodes[{nid}]",
                node=node.name,
                op=node.op,
                device=str(device),
                reason=reason,
            )


def _no_kernel(graph: Graph, nid: int, fid: int, device: Device) -> str | None:
    """Why the registry has no body for a node on a device; None if it has, or if only a library can say."""
    func = graph.funcs[fid]
    op = None if func.op is None else registry.get(func.op)
    if op is None or op.is_nop or func.name in (COPY, NOP) or device.kernels == NO_KERNELS:
        return None
    node = graph.node(nid)
    try:
        select(op, func.attrs, device.kernels, node.input_types, node.output_types)
    except UnsupportedOpError as error:
        return str(error)
    return None
