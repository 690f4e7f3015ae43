"""Storage ids -> the pool: how large each storage is and where it lies in its device's memory."""

from __future__ import annotations

import numpy as np

from ...base.errors import PlanError
from ...base.machine.devices import Device, parse
from ...ir.graph import StorageHint
from ..columns import intern
from ..types import LaidOutGraph, Storage
from .sizes import Sizes, round_up

__all__ = ["lay_out"]

_TVM_ELEMENT = 4  # a pool is an array of float32: sizes round up to 4 bytes


def lay_out(
    laid_out: LaidOutGraph, sid: np.ndarray, sizes: Sizes, as_file: bool, offset: np.ndarray | None = None
) -> Storage:
    """The pool: sizes are the most over each sid's entries; offsets as given (``offset`` int64 [sids]), as
    the file says, or one sid after another."""
    hints = laid_out.placed.graph.hints
    count = max(int(sid.max(initial=-1)) + 1, len(hints.storage or ()) if as_file else 0)
    extent, nbytes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.maximum.at(extent, sid, round_up(sizes.extent, _TVM_ELEMENT))
    np.maximum.at(nbytes, sid, round_up(sizes.nbytes, _TVM_ELEMENT))
    region = np.zeros(count, np.int64)
    region[sid[::-1]] = sizes.region[::-1]  # the first entry of a sid says where it is
    storage = Storage(
        sizes.region_did[region].astype(np.int32),
        sizes.region_memory[region].astype(np.int32),
        _offsets(region, extent, sizes) if offset is None else offset,
        extent,
        nbytes,
    )
    if not as_file or hints.storage is None or _moved(laid_out):
        return storage
    return _as_file(laid_out, hints.storage, sid, storage)


def _offsets(region: np.ndarray, extent: np.ndarray, sizes: Sizes) -> np.ndarray:
    """int64 [sids]: each after the one before it in its region, aligned."""
    offset = np.zeros(len(extent), np.int64)
    for which in range(len(sizes.region_did)):
        mine = np.flatnonzero(region == which)
        taken = round_up(extent[mine], sizes.alignment[which])
        offset[mine] = taken.cumsum() - taken
    return offset


def _moved(laid_out: LaidOutGraph) -> bool:
    """True where the file's offsets mean nothing here: entries run on another type of device than its column
    says, or devices that it keeps apart are one."""
    placed, hints = laid_out.placed, laid_out.placed.graph.hints
    if hints.device_type is None:
        return False
    did = np.repeat(placed.did, np.diff(placed.graph.row_ptr))
    named = hints.device_type if hints.device_id is None else hints.device_type + (hints.device_id << 32)
    example = np.zeros(len(placed.devices), np.int64)
    example[did] = named
    dl_type = np.array([d.dl_type for d in placed.devices])
    return bool((dl_type[did] != hints.device_type).any() or (example[did] != named).any())


def _as_file(
    laid_out: LaidOutGraph, rows: tuple[StorageHint, ...], sid: np.ndarray, planned: Storage
) -> Storage:
    """Offsets, memories and sizes of metadata.graph_runtime.storage. Raises PlanError where it contradicts
    the columns."""
    placed = laid_out.placed
    if len(rows) != planned.count:
        raise PlanError(
            f"metadata.graph_runtime.storage has {len(rows)} rows, storage_id goes to {planned.count - 1}: "
            f"give one row for each sid",
            path="$.metadata.graph_runtime.storage",
            got=len(rows),
            wanted=planned.count,
        )
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
    """A storage row names the memory that the layouts of its entries do."""
    used = np.bincount(sid, minlength=planned.count) > 0
    wrong = np.flatnonzero(used & (memory != planned.memory))
    if not len(wrong):
        return
    at = int(wrong[0])
    eid = int(np.flatnonzero(sid == at)[0])
    graph = laid_out.placed.graph
    wanted = laid_out.placed.devices[planned.did[at]].descriptor.memories[planned.memory[at]].name
    raise PlanError(
        f"storage {at} is said to lie in {rows[at].memory}, the layout of its entry {eid} in {wanted}",
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
    """A storage row names its device as the columns do: kind and device_id."""
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
                f"storage {int(sid[eid])} is said to lie on {said}, the device columns put its entry {eid} "
                f"on {wanted}",
                path=f"$.metadata.graph_runtime.storage[{int(sid[eid])}].device",
                got=said,
                wanted=wanted,
                node=placed.graph.names[int(placed.graph.entry_nid[eid])],
            )
