"""Bytes in placement: the size of each memory of each device, and the bytes that an assignment would hold.

A graph's inputs (parameters, and inputs that runs set) are resident: they lie all the time on each device
that reads them. Any other value lies on its owner's device and on each device that reads it, from the node
that makes the value to its last reader there. A result stays to the end; a streamed value comes with its
first reader on a device. Sizes are bytes of one bank, in the layouts that the plan will have, and time is the
node order. A plan may need a little less, because outputs take over inputs, or a little more, because blocks
leave gaps or queues overlap. In a core's L1, the circular buffers of the node that opens most come on top of
the tensors, as in plan/storage/memory.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...base.errors import PlanError
from ...base.machine.descriptors import Memory
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, L1, Layout, footprint
from ...ir.graph import Graph, TensorType
from ..columns import is_nop, slot_nid
from ..supports import circular_room
from .value_kinds import Kinds

_MOST_CELLS = 1 << 22  # most int64 numbers that are in memory at once


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Columns over stores, which are the main memory of each device in order, then the L1 of each device on
    which a value would lie in L1. ``available`` int64 [stores]: bytes of a bank. ``device`` int64 [stores]:
    the device of each store.

    ``resident`` int64 [inputs, stores]: bytes of each input that is read. ``resident_uses`` int64 [uses, 2]:
    the distinct (reader, row in resident). ``live`` int64 [values, stores]: bytes of all other values.
    ``live_owner`` int64 [values]: the node that makes the value, on whose device the value lies. ``live_end``
    bool [values]: whether the value is a result. ``live_uses`` int64 [uses, 2]: (reader, row in live).
    ``most_live`` int64 [nodes, stores]: bytes live while each node runs, if all nodes were on the store's
    device: no assignment has more. ``live_late`` bool [values]: whether the value is streamed, so that it
    comes to a device for its first reader there. ``resident_eid`` int64 [inputs]: the entry of each row of
    ``resident``. ``circular`` int64 [nodes, stores]: bytes of a node's circular buffers.
    """

    available: np.ndarray
    device: np.ndarray
    resident: np.ndarray
    resident_uses: np.ndarray
    live: np.ndarray
    live_owner: np.ndarray
    live_end: np.ndarray
    live_uses: np.ndarray
    most_live: np.ndarray
    live_late: np.ndarray
    resident_eid: np.ndarray
    circular: np.ndarray

    @property
    def num_devices(self) -> int:
        return int(self.device.max(initial=-1)) + 1

    @property
    def binds(self) -> bool:
        """Whether some device has too little room for some assignment."""
        most = self.resident.sum(0) + self.most_live.max(0, initial=0) + self.circular.max(0, initial=0)
        return bool((most > self.available).any())

    def stores(self, device: int) -> list[int]:
        """The stores of a device, its main memory first."""
        return np.flatnonzero(self.device == device).tolist()

    def pooled(self, device: int, others: list[int]) -> Room:
        """The room of two devices: ``device``, and all ``others`` as one device with their memories joined.
        Only main memories count, so the room is never too small."""

        def two(table: np.ndarray) -> np.ndarray:
            return np.stack([table[:, device], table[:, others].min(1)], 1)

        return replace(
            self,
            available=np.array([self.available[device], self.available[others].sum()]),
            device=np.arange(2),
            resident=two(self.resident),
            live=two(self.live),
            most_live=two(self.most_live),
            circular=two(self.circular),
        )

    def key(self, device: int) -> bytes:
        """A key that is equal for devices with the same room."""
        tables = (self.resident, self.live, self.circular)
        mine = self.stores(device)
        return b"".join(part.tobytes() for part in (self.available[mine], *(t[:, mine] for t in tables)))

    def parameters(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, stores]: bytes of the inputs that each device reads; ``did`` int [rows, nodes]: the
        device of each node; -1: the node is not placed yet."""
        rows, k = len(did), self.num_devices
        held = np.zeros((rows, len(self.available)), np.int64)
        if len(self.resident_uses):
            nid, which = self.resident_uses.T
            keys = which * k + did[:, nid] + (np.arange(rows) * len(self.resident) * k)[:, None]
            found = np.zeros(rows * len(self.resident) * k, bool)
            found[keys[did[:, nid] >= 0]] = True
            read = found.reshape(rows, -1, k)
            read = read if len(self.available) == k else read[:, :, self.device]
            held = np.einsum("ris,is->rs", read, self.resident)
        return held

    def activations(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, stores]: the most bytes of all other values that are live at one time."""
        (rows, count), k, values = did.shape, self.num_devices, len(self.live)
        peak = np.zeros((rows, len(self.available)), np.int64)
        if not values:
            return peak
        last = np.full((rows, values * k), -1, np.int64)
        first = np.tile(np.where(self.live_late, count, self.live_owner)[:, None], (rows, 1, k))
        first = first.reshape(rows, values * k)
        home = did[:, self.live_owner].astype(np.int64)
        row, which = np.nonzero(home >= 0)
        last[row, which * k + home[row, which]] = np.where(self.live_end, count, self.live_owner)[which]
        first[row, which * k + home[row, which]] = self.live_owner[which]
        for nid, which in self.live_uses.tolist():
            reader, maker = did[:, nid].astype(np.int64), home[:, which]
            known = np.flatnonzero((reader >= 0) & (maker >= 0))
            for device in (reader[known], maker[known]):  # a copy is made before its reader runs
                cell = which * k + device
                last[known, cell] = np.maximum(last[known, cell], nid)
                first[known, cell] = np.minimum(first[known, cell], nid)
        change = np.zeros((rows, count + 2, len(self.available)), np.int64)
        row, cell = np.nonzero(last >= 0)
        for store in self._layers():
            at = store[cell % k]
            here = at >= 0
            r, c, s = row[here], cell[here], at[here]
            np.add.at(change, (r, first[r, c], s), self.live[c // k, s])
            np.subtract.at(change, (r, last[r, c] + 1, s), self.live[c // k, s])
        return np.maximum(np.cumsum(change, 1).max(1), 0)

    def _layers(self) -> list[np.ndarray]:
        """The store of each device's main memory, int64 [k]. If values lie in some L1, a second array has the
        store of each device's L1; -1: no value lies in that L1."""
        k = self.num_devices
        other = np.full(k, -1, np.int64)
        other[self.device[k:]] = np.arange(k, len(self.device))
        return [np.arange(k)] if len(self.device) == k else [np.arange(k), other]

    def buffers(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, stores]: bytes of circular buffers of the store's node that opens most."""
        held = np.zeros((len(did), len(self.available)), np.int64)
        for store in np.flatnonzero(self.circular.any(0)).tolist():
            here = did == self.device[store]
            held[:, store] = np.where(here, self.circular[:, store], 0).max(1, initial=0)
        return held

    def missing(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, k]: bytes that each device lacks in its fullest memory; a negative number is bytes
        left."""
        over = self.parameters(did) + self.activations(did) + self.buffers(did) - self.available
        most = over[:, : self.num_devices].copy()
        for store in range(self.num_devices, len(self.available)):
            at = self.device[store]
            most[:, at] = np.maximum(most[:, at], over[:, store])
        return most

    def excess(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows]: bytes that each assignment of ``did`` int [rows, nodes] lacks on all devices
        together, 0 if it fits. Nodes that are not placed (-1) hold nothing."""
        if not self.binds or not len(did):
            return np.zeros(len(did), np.int64)
        cells = max(len(self.resident), did.shape[1] + 2, len(self.live)) * len(self.available)
        step = max(_MOST_CELLS // cells, 1)
        return np.concatenate([self._excess(did[at : at + step]) for at in range(0, len(did), step)])

    def _excess(self, did: np.ndarray) -> np.ndarray:
        held = self.parameters(did) + self.buffers(did)
        close = np.flatnonzero((held + self.most_live.max(0, initial=0) > self.available).any(1))
        held[close] += self.activations(did[close])
        return np.maximum(held - self.available, 0).sum(1)


def make_room(
    available: np.ndarray,
    resident: np.ndarray,
    resident_uses: np.ndarray,
    live: np.ndarray,
    live_owner: np.ndarray,
    live_end: np.ndarray,
    live_uses: np.ndarray,
    num_nodes: int,
    live_late: np.ndarray | None = None,
    resident_eid: np.ndarray | None = None,
    device: np.ndarray | None = None,
    circular: np.ndarray | None = None,
) -> Room:
    """A Room made of its columns; ``most_live`` is computed. ``live_late`` None: nothing is streamed.
    ``device`` None: each store is a device's main memory. ``circular`` None: no circular buffers."""
    late = np.zeros(len(live_owner), bool) if live_late is None else live_late
    last, first = live_owner.copy(), np.where(late, num_nodes - 1, live_owner)
    np.minimum.at(first, live_uses[:, 1], live_uses[:, 0])
    first = np.where(late, first, live_owner)
    np.maximum.at(last, live_uses[:, 1], live_uses[:, 0])
    last[live_end] = num_nodes - 1
    change = np.zeros((num_nodes + 1, len(available)), np.int64)
    np.add.at(change, first, live)
    np.subtract.at(change, last + 1, live)
    eids = np.arange(len(resident)) if resident_eid is None else resident_eid
    device = np.arange(len(available)) if device is None else device
    circular = np.zeros((num_nodes, len(available)), np.int64) if circular is None else circular
    values = live, live_owner, live_end, live_uses, np.cumsum(change, 0)[:-1], late
    return Room(available, device, resident, resident_uses, *values, eids, circular)


def find_room(
    graph: Graph, devices: tuple[Device, ...], kinds: Kinds, streamed: np.ndarray, circular: np.ndarray
) -> Room:
    """The Room of a graph on devices. ``streamed`` int64: entries of the inputs that every run copies from
    the host. ``circular`` int64 [nodes, k]: bytes of a core's L1."""
    maker, every = graph.entry_nid, np.arange(graph.num_entries)
    stores = _stores(devices, kinds)
    size = _sizes(devices, kinds, stores)[kinds.of]
    base, moved = _bases(graph, kinds, devices)
    nop = is_nop(graph)
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
        if any(isinstance(layout, Layout) and layout.memory == L1 for layout in layouts):
            more += [(did, memory) for memory in device.descriptor.memories[1:] if memory.name == L1]
    return main + more


def _sizes(devices: tuple[Device, ...], kinds: Kinds, stores: list[tuple[int, Memory]]) -> np.ndarray:
    """int64 [kinds, stores]: bytes of one bank for a value of each kind."""
    table = np.zeros((len(kinds.types), len(stores)), np.int64)
    for kind, (type_, row) in enumerate(zip(kinds.types, kinds.layouts, strict=True)):
        for at, (did, memory) in enumerate(stores):
            layout = row[did]
            if isinstance(layout, Layout) and layout.memory == memory.name:
                table[kind, at] = _bytes(type_, layout, devices[did])
    return table


def _bases(graph: Graph, kinds: Kinds, devices: tuple[Device, ...]) -> tuple[np.ndarray, dict[int, int]]:
    """Pair of two results. The first, int64 [entries], is the value whose bytes an entry presents, through
    reshapes. The second, {entry: value}, has the value behind each reshape into another memory; the result of
    such a reshape has its own bytes on some device."""
    base, moved = np.arange(graph.num_entries), dict[int, int]()
    for nid in np.flatnonzero(is_nop(graph)).tolist():
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
    """int64 [nodes, stores]: bytes that a node's circular buffers take of the L1 for tensors."""
    found = np.zeros((len(circular), len(stores)), np.int64)
    for at, (did, memory) in enumerate(stores):
        if memory.name == L1:
            free = circular_room(devices[did]) - memory.available  # bytes for circular buffers alone
            found[:, at] = np.maximum(circular[:, did] - free, 0) * (circular[:, did] > 0)
    return found


def _bytes(type_: TensorType, layout: Layout, device: Device) -> int:
    """Bytes of one bank; 0 if the device cannot hold the type (then no reader of the value runs there)."""
    memory = device.descriptor.memory(layout.memory)
    try:
        nbytes = type_.nbytes if memory.name == HOST else footprint(layout, type_.shape, memory)[0]
    except PlanError:
        return 0
    return -(-nbytes // memory.alignment) * memory.alignment
