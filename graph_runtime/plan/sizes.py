"""How many bytes each entry takes where its layout puts it."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..devices import Device
from ..errors import CapacityError, DeviceError, GraphRuntimeError, PlanError
from ..graph import TensorType
from ..layout import HOST, Layout, footprint
from .columns import intern
from .types import LaidOutGraph

__all__ = ["Sizes", "entry_sizes", "round_up"]


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Columns over entries, int64 [entries]: ``extent`` bytes in each bank, ``nbytes`` padded bytes in all
    banks (equal on host), ``region`` the row in the table of memories in use: ``region_did``,
    ``region_memory``, ``alignment`` [regions]."""

    extent: np.ndarray
    nbytes: np.ndarray
    region: np.ndarray
    region_did: np.ndarray
    region_memory: np.ndarray
    alignment: np.ndarray


def entry_sizes(laid_out: LaidOutGraph) -> Sizes:
    """Sizes of all entries; Python runs once for each distinct (type, layout, device).

    Raises PlanError for a block format that is not tiled and for a memory that the device does not have,
    CapacityError for one entry that is larger than its memory: sums of what is left cannot overflow.
    """
    graph, devices, layouts = laid_out.placed.graph, laid_out.placed.devices, laid_out.layouts
    entry_did = np.repeat(laid_out.placed.did, np.diff(graph.row_ptr))
    keys = (graph.type_id.astype(np.int64) * len(layouts) + laid_out.layout_id) * len(devices) + entry_did
    distinct, row = intern(keys, len(graph.types) * len(layouts) * len(devices))
    regions: dict[tuple[int, int], int] = {}
    table = np.zeros((3, len(distinct)), np.int64)
    for at, key in enumerate(distinct.tolist()):
        rest, did = divmod(key, len(devices))
        type_, layout = graph.types[rest // len(layouts)], layouts[rest % len(layouts)]
        try:
            memory, extent, nbytes = _size(type_, layout, devices[did])
        except (DeviceError, PlanError) as error:
            raise _with_place(laid_out, int(np.flatnonzero(row == at)[0]), error) from None
        table[:, at] = extent, nbytes, regions.setdefault((did, memory), len(regions))
    extent, nbytes, region = table[:, row]
    alignment = [devices[d].descriptor.memories[m].alignment for d, m in regions]
    dids, memories = np.array(list(regions), np.int64).reshape(-1, 2).T
    return Sizes(extent, nbytes, region, dids, memories, np.array(alignment, np.int64))


def _size(type_: TensorType, layout: Layout, device: Device) -> tuple[int, int, int]:
    """(index of the memory, extent in each bank, bytes over all banks)."""
    memory = device.descriptor.memory(layout.memory)
    index = device.descriptor.memories.index(memory)
    if memory.name == HOST:
        extent = nbytes = type_.nbytes
    else:
        extent, nbytes = footprint(layout, type_.shape, memory)
    if extent > memory.usable:
        raise CapacityError(
            f"{type_} takes {extent} B of each bank of {device} {memory.name}, {memory.usable} B are there",
            needed=extent,
            available=memory.usable,
        )
    return index, extent, nbytes


def _with_place(laid_out: LaidOutGraph, eid: int, error: GraphRuntimeError) -> PlanError:
    placed = laid_out.placed
    nid = int(placed.graph.entry_nid[eid])
    origin, device = int(placed.origin[nid]), str(placed.devices[placed.did[nid]])
    name, path = placed.graph.names[nid], f"$.nodes[{origin}]" if origin >= 0 else None
    kind = CapacityError if isinstance(error, CapacityError) else PlanError
    return kind(f"node {name!r}: {error}", **{**error.fields, "node": name, "device": device, "path": path})


def round_up(value: np.ndarray, step: int | np.integer) -> np.ndarray:
    """value rounded up to a multiple of step."""
    return -(-value // step) * step
