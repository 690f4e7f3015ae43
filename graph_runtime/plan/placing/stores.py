"""The Room of a graph: which memories of its devices its values would lie in, and how many bytes of them."""

from __future__ import annotations

import numpy as np

from ...base.errors import PlanError
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, L1, Layout, Memory, footprint
from ...ir.graph import NOP, Graph, TensorType
from ..columns import slot_nid
from ..supports import circular_room
from .holding import Room, make_room
from .value_kinds import Kinds

__all__ = ["find_room"]


def find_room(
    graph: Graph, devices: tuple[Device, ...], kinds: Kinds, streamed: np.ndarray, circular: np.ndarray
) -> Room:
    """``streamed`` int64: entries of inputs that each run brings. ``circular`` int64 [nodes, k]: bytes of a
    core's L1."""
    maker, every = graph.entry_nid, np.arange(graph.num_entries)
    stores = _stores(devices, kinds)
    size = _sizes(devices, kinds, stores)[kinds.of]
    base, moved = _bases(graph, kinds, devices)
    nop = np.array([f.name == NOP for f in graph.funcs] + [False])[graph.func_id]
    uses = np.stack([slot_nid(graph), base[graph.in_eid]], 1)
    behind = [(reader, moved[eid]) for reader, eid in uses.tolist() if eid in moved]
    seen = ~nop[uses[:, 0]] | np.isin(uses[:, 0], maker[list(moved)])
    uses = np.concatenate([uses[seen], np.array(behind, np.int64).reshape(-1, 2)])
    uses = np.unique(uses, axis=0).reshape(-1, 2)
    null = graph.func_id[maker] < 0
    late = np.isin(every, streamed)
    null &= ~late
    resident = np.flatnonzero(null & np.isin(every, uses[:, 1]))
    live = np.flatnonzero(~null & (base == every))
    index = np.zeros(len(base), np.int64)
    index[resident], index[live] = np.arange(len(resident)), np.arange(len(live))
    of_input = null[uses[:, 1]]
    held, others = uses[of_input], uses[~of_input]
    ends = np.isin(live, base[np.asarray(graph.outputs, np.int64)])
    others = np.stack([others[:, 0], index[others[:, 1]]], 1)
    return make_room(
        np.array([memory.available for _, memory in stores], np.int64),
        size[resident],
        np.stack([held[:, 0], index[held[:, 1]]], 1),
        size[live],
        maker[live].astype(np.int64),
        ends,
        others,
        graph.num_nodes,
        late[live],
        resident,
        np.array([did for did, _ in stores]),
        _beside(devices, stores, circular),
    )


def _stores(devices: tuple[Device, ...], kinds: Kinds) -> list[tuple[int, Memory]]:
    """(device, memory) of each store."""
    main = [(did, device.main_memory) for did, device in enumerate(devices)]
    more = []
    for did, device in enumerate(devices):
        layouts = [row[did] for row in kinds.layouts]
        named = {layout.memory for layout in layouts if isinstance(layout, Layout)}
        for memory in device.descriptor.memories[1:]:
            if memory.name == L1 and memory.name in named:
                more.append((did, memory))
    return main + more


def _sizes(devices: tuple[Device, ...], kinds: Kinds, stores: list[tuple[int, Memory]]) -> np.ndarray:
    """int64 [kinds, stores]: bytes of a bank."""
    table = np.zeros((len(kinds.types), len(stores)), np.int64)
    for kind, (type_, row) in enumerate(zip(kinds.types, kinds.layouts, strict=True)):
        for at, (did, memory) in enumerate(stores):
            layout = row[did]
            if isinstance(layout, Layout) and layout.memory == memory.name:
                table[kind, at] = _bytes(type_, layout, devices[did])
    return table


def _bases(graph: Graph, kinds: Kinds, devices: tuple[Device, ...]) -> tuple[np.ndarray, dict[int, int]]:
    """int64 [entries]: the value whose bytes an entry shows, as a reshape does; and of each reshape into
    another memory, which has bytes of its own on some device, the value that it is of."""
    base, moved = np.arange(graph.num_entries), dict[int, int]()
    nop = np.array([f.name == NOP for f in graph.funcs] + [False])[graph.func_id]
    for nid in np.flatnonzero(nop).tolist():
        if graph.in_ptr[nid] < graph.in_ptr[nid + 1]:
            made, read = int(graph.row_ptr[nid]), int(graph.in_eid[graph.in_ptr[nid]])
            ways = zip(kinds.layouts[kinds.of[read]], kinds.layouts[kinds.of[made]], strict=True)
            if any(isinstance(a, Layout) and isinstance(b, Layout) and a.memory != b.memory for a, b in ways):
                moved[made] = int(base[read])
            else:
                base[made] = base[read]
    return base, moved


def _beside(
    devices: tuple[Device, ...], stores: list[tuple[int, Memory]], circular: np.ndarray
) -> np.ndarray:
    """int64 [nodes, stores]: what circular buffers take of the bytes that tensors may have in a core's L1."""
    found = np.zeros((len(circular), len(stores)), np.int64)
    for at, (did, memory) in enumerate(stores):
        if memory.name == L1:
            free = circular_room(devices[did]) - memory.available  # what is no tensor's anyway
            found[:, at] = np.maximum(circular[:, did] - free, 0) * (circular[:, did] > 0)
    return found


def _bytes(type_: TensorType, layout: Layout, device: Device) -> int:
    """Bytes of a bank; 0 where the device cannot hold the type, so that nothing that reads it runs there."""
    memory = device.descriptor.memory(layout.memory)
    try:
        nbytes = type_.nbytes if memory.name == HOST else footprint(layout, type_.shape, memory)[0]
    except PlanError:
        return 0
    return -(-nbytes // memory.alignment) * memory.alignment
