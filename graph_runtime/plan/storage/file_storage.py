"""The storage that a file gives. The file's storage ids are followed if they are still safe after pins,
copies and relayouts. The file's offsets are followed if entries lie on the file's devices."""

from __future__ import annotations

import numpy as np

from ...base.errors import PlanError
from ...base.machine.devices import Device, parse
from ...ir.graph import Graph, StorageHint
from ..columns import Values, find_values, intern
from ..types import LaidOutGraph, Storage
from .buffers import Sizes, alias_entries


def follow_ids(graph: Graph, values: Values) -> np.ndarray:
    """The sids of the file. New entries get fresh sids; an alias output gets the sid of its input, and a
    reshape of a new copy gets the sid of the copy."""
    hinted = np.asarray(graph.hints.storage_id, np.int64)
    sid = hinted.copy()
    new = np.flatnonzero(hinted < 0)
    sid[new] = max(int(hinted.max(initial=-1)), len(graph.hints.storage or ()) - 1) + 1 + np.arange(len(new))
    rewired = (hinted[values.of] < 0) & (hinted >= 0)
    sid[rewired] = sid[values.of[rewired]]
    into = np.full(len(sid), -1, np.int64)
    for out, entry in alias_entries(graph):
        into[values.of[out]] = sid[entry]
    return np.where(into[values.of] >= 0, into[values.of], sid)


def is_unsafe(sid: np.ndarray, values: Values, donor: np.ndarray, sizes: Sizes) -> bool:
    """Whether a sid has entries in two memories, or two values that are live at once."""
    first = np.zeros(int(sid.max(initial=-1)) + 1, np.int64)
    first[sid] = np.arange(len(sid))
    return bool((sizes.region != sizes.region[first[sid]]).any()) or _overlap(sid, values, donor)


def _overlap(sid: np.ndarray, values: Values, donor: np.ndarray | None) -> bool:
    """Whether two values on one sid are live at once. ``donor``: the result of take_over; None accepts every
    in-place use."""
    firsts = values.firsts
    born, last = 2 * values.born, 2 * values.last
    if donor is None:
        last = np.maximum(last - 1, born)
    else:
        taken = firsts[donor[firsts] != firsts]
        taken = taken[sid[taken] == sid[donor[taken]]]
        last[donor[taken]] -= 1  # the value's last reader writes over the value
    order = firsts[np.lexsort((born[firsts], sid[firsts]))]
    return bool(((sid[order][1:] == sid[order][:-1]) & (last[order][:-1] >= born[order][1:])).any())


def was_unsafe(loaded: Graph) -> bool:
    """Whether the file contradicts itself before any pass changes it. Such a file's ids are followed, so that
    the check refuses them."""
    sid, hints = np.asarray(loaded.hints.storage_id, np.int64), loaded.hints
    at_input = np.zeros(loaded.num_nodes, bool)
    at_input[list(hints.at_input)] = True
    values = find_values(loaded, at_input)
    first = np.zeros(int(sid.max(initial=-1)) + 1, np.int64)
    first[sid] = np.arange(len(sid))
    for column in (hints.device_type, hints.device_id):
        if column is not None and (column != column[first[sid]]).any():
            return True
    return False if hints.aliases else _overlap(sid, values, None)


def is_moved(laid_out: LaidOutGraph) -> bool:
    """Whether the file's offsets are meaningless here: entries lie on another type of device than the device
    columns say, or devices that the file separates are one device here."""
    placed, hints = laid_out.placed, laid_out.placed.graph.hints
    if hints.device_type is None:
        return False
    did = np.repeat(placed.did, np.diff(placed.graph.row_ptr))
    named = hints.device_type if hints.device_id is None else hints.device_type + (hints.device_id << 32)
    example = np.zeros(len(placed.devices), np.int64)
    example[did] = named
    dl_type = np.array([d.dl_type for d in placed.devices])
    return bool((dl_type[did] != hints.device_type).any() or (example[did] != named).any())


def storage_of_file(
    laid_out: LaidOutGraph, rows: tuple[StorageHint, ...], sid: np.ndarray, planned: Storage
) -> Storage:
    """The Storage with the offsets, memories and sizes of metadata.graph_runtime.storage. Raises PlanError if
    these contradict the columns."""
    placed = laid_out.placed
    if len(rows) != planned.count:
        text = (
            f"metadata.graph_runtime.storage has {len(rows)} rows, storage_id goes to {planned.count - 1}: "
            f"give one row for each sid"
        )
        raise PlanError(text, path="$.metadata.graph_runtime.storage", got=len(rows), wanted=planned.count)
    names = [(r.device, r.memory) for r in rows]
    table = {name: at for at, name in enumerate(dict.fromkeys(names))}
    name_id = np.fromiter(map(table.__getitem__, names), np.int64, len(names))
    _check_names(laid_out, sid, list(table), name_id)
    keys = name_id * len(placed.devices) + planned.did
    distinct, row = intern(keys, len(table) * len(placed.devices))
    memory = [
        _memory_index(placed.devices[k % len(placed.devices)], list(table)[k // len(placed.devices)][1])
        for k in distinct.tolist()
    ]
    _check_memories(laid_out, sid, rows, np.array(memory, np.int64)[row], planned)
    nbytes = np.fromiter((r.bytes for r in rows), np.int64, len(rows))
    on_host = np.array([d.descriptor.on_host for d in placed.devices])[planned.did]
    return Storage(
        planned.did,
        np.array(memory, np.int32)[row],
        np.fromiter((r.offset for r in rows), np.int64, len(rows)),
        np.where(on_host, nbytes, planned.extent),
        nbytes,
    )


def _check_memories(
    laid_out: LaidOutGraph,
    sid: np.ndarray,
    rows: tuple[StorageHint, ...],
    memory: np.ndarray,
    planned: Storage,
) -> None:
    """Check that each storage row names the memory of its entries' layouts."""
    used = np.bincount(sid, minlength=planned.count) > 0
    wrong = np.flatnonzero(used & (memory != planned.memory))
    if not len(wrong):
        return
    at = int(wrong[0])
    eid = int(np.flatnonzero(sid == at)[0])
    graph = laid_out.placed.graph
    wanted = laid_out.placed.devices[planned.did[at]].descriptor.memories[planned.memory[at]].name
    raise PlanError(
        f"storage {at} is said to lie in {rows[at].memory}, but the layout of its entry {eid} says {wanted}",
        path=f"$.metadata.graph_runtime.storage[{at}].memory",
        got=rows[at].memory,
        wanted=wanted,
        node=graph.names[int(graph.entry_nid[eid])],
    )


def _memory_index(device: Device, name: str) -> int:
    return device.descriptor.memories.index(device.descriptor.memory(name))


def _check_names(
    laid_out: LaidOutGraph, sid: np.ndarray, names: list[tuple[str, str]], name_id: np.ndarray
) -> None:
    """Check that each storage row names its device, by kind and device_id, as the columns do."""
    placed, hints = laid_out.placed, laid_out.placed.graph.hints
    did = np.repeat(placed.did, np.diff(placed.graph.row_ptr)).astype(np.int64)
    ordinal = np.zeros(len(sid), np.int64) if hints.device_id is None else np.maximum(hints.device_id, 0)
    keys = (ordinal * len(placed.devices) + did) * len(names) + name_id[sid]
    distinct, row = np.unique(keys, return_inverse=True)
    for at, key in enumerate(distinct.tolist()):
        rest, which = divmod(key, len(names))
        said, device = names[which][0], placed.devices[rest % len(placed.devices)]
        wanted = (
            f"{device.kind}:{rest // len(placed.devices)}" if hints.device_type is not None else str(device)
        )
        if str(parse(said)) != wanted:
            eid = int(np.flatnonzero(row == at)[0])
            raise PlanError(
                f"storage {int(sid[eid])} is said to lie on {said}, but the device columns put its entry "
                f"{eid} on {wanted}",
                path=f"$.metadata.graph_runtime.storage[{int(sid[eid])}].device",
                got=said,
                wanted=wanted,
                node=placed.graph.names[int(placed.graph.entry_nid[eid])],
            )
