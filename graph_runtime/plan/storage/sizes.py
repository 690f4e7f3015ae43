"""How many bytes each entry takes where its layout puts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.dtypes import FORMATS
from ...base.errors import CapacityError, DeviceError, GraphRuntimeError, PlanError
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, L1, Layout, Memory, footprint, shard_fault
from ...ir.graph import TensorType
from ..columns import first_of, intern
from ..types import LaidOutGraph

__all__ = ["Sizes", "entry_sizes", "out_of_memory", "remedy", "round_up"]


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

    Raises PlanError for a block format that is not tiled, for a shard that the tensor or the device cannot
    have and for a memory that the device does not have,
    CapacityError for one entry that is larger than its memory: sums of what is left cannot overflow.
    """
    graph, devices, layouts = laid_out.placed.graph, laid_out.placed.devices, laid_out.layouts
    entry_did = np.repeat(laid_out.placed.did, np.diff(graph.row_ptr))
    keys = (graph.type_id.astype(np.int64) * len(layouts) + laid_out.layout_id) * len(devices) + entry_did
    distinct, row = intern(keys, len(graph.types) * len(layouts) * len(devices))
    first, maker = first_of(row, len(distinct)), graph.entry_nid
    regions: dict[tuple[int, int], int] = {}
    table = np.zeros((3, len(distinct)), np.int64)
    for at, key in enumerate(distinct.tolist()):
        rest, did = divmod(key, len(devices))
        type_, layout = graph.types[rest // len(layouts)], layouts[rest % len(layouts)]
        try:
            name = graph.names[int(maker[first[at]])]
            memory, extent, nbytes = _size(type_, layout, devices[did], name)
        except (DeviceError, PlanError) as error:
            raise _at_node(laid_out, int(first[at]), error) from None
        table[:, at] = extent, nbytes, regions.setdefault((did, memory), len(regions))
    extent, nbytes, region = table[:, row]
    alignment = [devices[d].descriptor.memories[m].alignment for d, m in regions]
    dids, memories = np.array(list(regions), np.int64).reshape(-1, 2).T
    return Sizes(extent, nbytes, region, dids, memories, np.array(alignment, np.int64))


def _size(type_: TensorType, layout: Layout, device: Device, node: str) -> tuple[int, int, int]:
    """(index of the memory, extent in each bank, bytes over all banks) of an entry of a node's."""
    memory = device.descriptor.memory(layout.memory)
    index = device.descriptor.memories.index(memory)
    if memory.name == HOST:
        extent = nbytes = type_.nbytes
    else:
        reason = shard_fault(layout, type_.shape, memory, device.descriptor.grid)
        if reason:
            raise PlanError(f"{type_} cannot be {layout} on {device}: {reason}", got=str(layout))
        extent, nbytes = footprint(layout, type_.shape, memory)
    if extent > memory.available:
        raise CapacityError(
            f"{out_of_memory(device, memory, nbytes, extent, 0)}: {type_} in {layout} alone is too large; "
            f"{remedy(device, memory, layout, node)}",
            needed=extent,
            available=memory.available,
        )
    return index, extent, nbytes


def out_of_memory(device: Device, memory: Memory, nbytes: int, extent: int, taken: int) -> str:
    """tt-metal's text about a buffer that does not fit behind ``taken`` bytes of each bank."""
    if memory.banks == 1:
        return (
            f"Out of Memory: Not enough space to allocate {extent} B of {device} {memory.name} memory, "
            f"of which {memory.available} B are for tensors (allocated: {taken} B, free: "
            f"{memory.available - taken} B)"
        )
    return (
        f"Out of Memory: Not enough space to allocate {nbytes} B {memory.name.upper()} buffer across "
        f"{memory.banks} banks, where each bank needs to store {extent} B, but bank size is "
        f"{memory.available} B (allocated: {taken} B, free: {memory.available - taken} B, largest free "
        f"block: {memory.available - taken} B) on {device}"
    )


def remedy(device: Device, memory: Memory, layout: Layout | None, node: str) -> str:
    """What a user can change about a memory that is full, as that of a node's."""
    if memory.name == HOST:
        return f"place less on {device}"
    if memory.name == L1:
        cores = "shard it over more cores, or " if layout is not None and layout.shard else "shard it, or "
        return f"{cores}keep it in dram (--layout '{node}=dram')"
    blocks = layout is not None and FORMATS[layout.format].shared_exponent
    formats = "" if blocks else f"--format {device.kind}=bfp8_b, "
    return f"change: {formats}a smaller batch, or place less on {device}"


def _at_node(laid_out: LaidOutGraph, eid: int, error: GraphRuntimeError) -> PlanError:
    placed = laid_out.placed
    nid = placed.graph.maker(eid)
    origin, device = int(placed.origin[nid]), str(placed.devices[placed.did[nid]])
    name, path = placed.graph.names[nid], f"$.nodes[{origin}]" if origin >= 0 else None
    kind = CapacityError if isinstance(error, CapacityError) else PlanError
    return kind(f"node {name!r}: {error}", **{**error.fields, "node": name, "device": device, "path": path})


def round_up(value: Any, step: int | np.integer) -> Any:
    """A number, or an array of numbers, rounded up to a multiple of step."""
    return -(-value // step) * step
