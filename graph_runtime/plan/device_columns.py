"""The device columns of a file: the device of the caller's list that each node asks for, and the reason."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..base.errors import DeviceError, PlanError, all_there_are, did_you_mean
from ..base.machine.devices import Device, dl_kinds, dl_types, parse, type_name
from ..ir.graph import Graph
from .columns import intern
from .types import Causes

_MOST_DEVICES = 256  # most devices of one kind that a file may ask for


def from_columns(
    graph: Graph, devices: tuple[Device, ...], mapped: Mapping[int, int], strict: bool, causes: Causes
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Four results, from the columns device_index and device_id: the did of each node; the cause of each
    node; whether the columns give the node a device; warnings about missing devices. ``mapped``: mapping of
    device types, the result of read_map."""
    types = np.asarray(graph.hints.device_type, np.int64)
    ids = (
        np.zeros_like(types) if graph.hints.device_id is None else np.asarray(graph.hints.device_id, np.int64)
    )
    rows, row = _distinct_pairs(types, ids)
    dids, reasons, warnings = [], [], []
    for dl_type, ordinal in rows:
        did, text, missing = _resolve(dl_type, ordinal, devices, mapped)
        if missing and strict:
            text = f"{text}; strict placement has no fallback: add the device or map the type"
            raise PlanError(text, path="$.attrs.device_index", got=dl_type, wanted=[str(d) for d in devices])
        warnings += [text] if missing else []
        dids.append(did)
        reasons.append(causes.add(text))
    entry_did = np.array(dids, np.int32)[row]
    _check_outputs_agree(graph, entry_did, devices)
    node_row = _first_entry(graph, row)
    return (
        np.array([*dids, 0], np.int32)[node_row],
        np.array(
            [*reasons, causes.add(f"makes nothing: the first device of the list, {devices[0]}")], np.int32
        )[node_row],
        np.array([*(dl_type >= 0 for dl_type, _ in rows), False])[node_row],
        warnings,
    )


def _distinct_pairs(types: np.ndarray, ids: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
    """The distinct (type, ordinal) pairs of the columns, and each entry's row in them."""
    if len(types) and 0 <= types.min() and types.max() < 64 and 0 <= ids.min() and ids.max() < 64:
        distinct, row = intern(types * 64 + ids, 64 * 64)
        return [(int(k) // 64, int(k) % 64) for k in distinct], row
    distinct, row = np.unique(np.stack([types, ids], 1), axis=0, return_inverse=True)
    return [(int(t), int(i)) for t, i in distinct], row.reshape(-1)


def _first_entry(graph: Graph, row: np.ndarray) -> np.ndarray:
    """Element of ``row`` for each node's first entry; -1 for a node without entries."""
    if len(row) == graph.num_nodes:
        return row
    empty = np.diff(graph.row_ptr) == 0
    return np.where(empty, -1, np.append(row, -1)[graph.row_ptr[:-1]])


def _resolve(
    dl_type: int, ordinal: int, devices: tuple[Device, ...], mapped: Mapping[int, int]
) -> tuple[int, str, bool]:
    """Device index, cause, and whether the list lacks the device that the column names. A ``dl_type`` of -1
    gives no device."""
    if dl_type < 0:
        return 0, f"the file says no device: the first of the list, {devices[0]}", False
    name = f"device_index {dl_type} ({type_name(dl_type) or 'unknown type'})"
    if dl_type in mapped:
        return mapped[dl_type], f"{name} is mapped to {devices[mapped[dl_type]]}", False
    same = [did for did, device in enumerate(devices) if device.dl_type == dl_type]
    if not same:
        return 0, f"{name}: no such device in the list, falls back to the first, {devices[0]}", True
    if not 0 <= ordinal < len(same):
        return (
            same[0],
            (
                f"{name}, device_id {ordinal}: the list has {len(same)} of that type, "
                f"falls back to the first of them, {devices[same[0]]}"
            ),
            True,
        )
    return same[ordinal], f"{name}, device_id {ordinal}: {devices[same[ordinal]]}", False


def read_map(devices: tuple[Device, ...], device_map: Mapping[str, str | Device]) -> dict[int, int]:
    """DLDeviceType -> index into devices."""
    mapped, types = {}, dl_types()
    for key, target in device_map.items():
        name = str(key).lower()
        if name not in types and not (name.isdecimal() and len(name) < 10):
            raise PlanError(
                f"unknown device type {key!r} in the device map{all_there_are(name, types)}", got=key
            )
        mapped[int(name) if name.isdecimal() else types[name]] = index_of(
            devices, target, f"device map {key!r}"
        )
    return mapped


def index_of(devices: tuple[Device, ...], target: str | Device, what: str) -> int:
    """The position of a device in the caller's list. Raises PlanError if the list does not have the
    device."""
    device = parse(target)
    for did, known in enumerate(devices):
        if str(known) == str(device):
            return did
    text = f"{what}: {device} is not in the device list{did_you_mean(str(device), map(str, devices))}"
    raise PlanError(text, got=str(device), wanted=[str(d) for d in devices])


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
            "device; copy one of them in another node",
            path=f"$.attrs.device_index[1][{eid + 1}]",
            node=graph.names[nid[eid]],
            got=str(b),
            wanted=str(a),
        )


def asked_devices(graph: Graph) -> list[str]:
    """The devices that a file's columns ask for; cpu:0 if there are no columns.

    Raises DeviceError for more devices than a machine can have.
    """
    hints, found = graph.hints, list[str]()
    if hints.device_type is None:
        return ["cpu:0"]
    for number, kind in dl_kinds().items():
        of_kind = hints.device_type == number
        if of_kind.any():
            last = 0 if hints.device_id is None else int(hints.device_id[of_kind].max())
            if last >= _MOST_DEVICES:
                text = (
                    f"the file's columns ask for {last + 1} {kind} devices: say with --device where it runs"
                )
                raise DeviceError(text, got=last + 1, wanted=_MOST_DEVICES, path="$.attrs.device_id")
            found += [f"{kind}:{i}" for i in range(last + 1)]
    return found or ["cpu:0"]
