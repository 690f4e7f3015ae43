"""Bytes in placement: what each device's memory has, and what assignments would hold there.

A graph's inputs (parameters, and what runs set) are resident: they lie on each device that reads them, all
the time. Any other value lies on its owner's device, and on each that reads it, from the node that makes it
to the last that reads it there; a result to the end; one that is streamed, from its first reader there. Sizes
are those of the planner's own layouts, in bytes of one bank, and time is the node order: a plan may come by
with a little less, where outputs take over what they read, and need a little more, where blocks leave gaps or
queues overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...base.errors import PlanError
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, Layout, footprint
from ...ir.graph import NOP, Graph, TensorType
from ..columns import slot_nid

__all__ = ["Room", "find_room", "make_room"]

_MOST_CELLS = 1 << 22  # int64 that are held at once


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """``available`` int64 [k]: bytes of a bank of each device's memory.

    ``resident`` int64 [inputs, k]: bytes of each that is read. ``resident_uses`` int64 [uses, 2]: the
    distinct (node that reads it, which). ``live`` int64 [values, k]: bytes of all other values.
    ``live_owner`` int64 [values]: the node that makes it, on whose device it lies. ``live_end`` bool
    [values]: results. ``live_uses`` int64 [uses, 2]: (node, which). ``most_live`` int64 [nodes, k]: what
    lives while each node runs, with all on that device: no assignment has more. ``live_late`` bool [values]:
    streamed ones, which come to a device for their first reader there. ``resident_eid`` int64 [inputs].
    """

    available: np.ndarray
    resident: np.ndarray
    resident_uses: np.ndarray
    live: np.ndarray
    live_owner: np.ndarray
    live_end: np.ndarray
    live_uses: np.ndarray
    most_live: np.ndarray
    live_late: np.ndarray
    resident_eid: np.ndarray

    @property
    def binds(self) -> bool:
        """Whether some device could not hold all."""
        most = self.resident.sum(0) + self.most_live.max(0, initial=0)
        return bool((most > self.available).any())

    def pooled(self, device: int, others: list[int]) -> Room:
        """Two devices: one, and all others as one with their memories together."""

        def two(table: np.ndarray) -> np.ndarray:
            return np.stack([table[:, device], table[:, others].min(1)], 1)

        return replace(
            self,
            available=np.array([self.available[device], self.available[others].sum()]),
            resident=two(self.resident),
            live=two(self.live),
            most_live=two(self.most_live),
        )

    def key(self, device: int) -> bytes:
        """Equal for devices that hold the same."""
        return b"".join(
            part.tobytes()
            for part in (self.available[device], self.resident[:, device], self.live[:, device])
        )

    def parameters(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, k]: bytes of the inputs that each device reads; ``did`` int [rows, nodes], -1: not
        placed yet."""
        rows, k = len(did), len(self.available)
        held = np.zeros((rows, k), np.int64)
        if len(self.resident_uses):
            nid, which = self.resident_uses.T
            keys = which * k + did[:, nid] + (np.arange(rows) * len(self.resident) * k)[:, None]
            found = np.zeros(rows * len(self.resident) * k, bool)
            found[keys[did[:, nid] >= 0]] = True
            held = np.einsum("rik,ik->rk", found.reshape(rows, -1, k), self.resident)
        return held

    def activations(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, k]: the most bytes of other values that live on each device at a time."""
        (rows, count), k, values = did.shape, len(self.available), len(self.live)
        peak = np.zeros((rows, k), np.int64)
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
        change = np.zeros((rows, count + 2, k), np.int64)
        row, cell = np.nonzero(last >= 0)
        which, device = cell // k, cell % k
        np.add.at(change, (row, first[row, cell], device), self.live[which, device])
        np.subtract.at(change, (row, last[row, cell] + 1, device), self.live[which, device])
        return np.maximum(np.cumsum(change, 1).max(1), 0)

    def excess(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows]: the bytes by which assignments ``did`` int [rows, nodes] are beyond what devices
        have, 0: they fit. Nodes that are not placed (-1) hold nothing."""
        if not self.binds or not len(did):
            return np.zeros(len(did), np.int64)
        cells = max(len(self.resident), did.shape[1] + 2, len(self.live)) * len(self.available)
        step = max(_MOST_CELLS // cells, 1)
        return np.concatenate([self._excess(did[at : at + step]) for at in range(0, len(did), step)])

    def _excess(self, did: np.ndarray) -> np.ndarray:
        held = self.parameters(did)
        close = np.flatnonzero((held + self.most_live.max(0, initial=0) > self.available).any(1))
        held[close] += self.activations(did[close])
        return np.maximum(held - self.available, 0).sum(1)


def find_room(
    graph: Graph, devices: tuple[Device, ...], layouts: list[list[Layout | str]], streamed: np.ndarray
) -> Room:
    """``layouts`` [types][devices]: a sentence where a device cannot hold the type. ``streamed`` int64:
    entries of inputs that each run brings."""
    k, maker = len(devices), graph.entry_nid
    rows = zip(graph.types, layouts, strict=True)
    table = [[_bytes(type_, row[d], devices[d]) for d in range(k)] for type_, row in rows]
    size = np.array(table, np.int64).reshape(-1, k)[graph.type_id]
    base = np.arange(graph.num_entries)
    nop = np.array([f.name == NOP for f in graph.funcs] + [False])[graph.func_id]
    for nid in np.flatnonzero(nop).tolist():  # a reshape is the same bytes
        if graph.in_ptr[nid] < graph.in_ptr[nid + 1]:
            base[graph.row_ptr[nid]] = base[graph.in_eid[graph.in_ptr[nid]]]
    uses = np.stack([slot_nid(graph), base[graph.in_eid]], 1)
    uses = np.unique(uses[~nop[uses[:, 0]]], axis=0).reshape(-1, 2)
    null = graph.func_id[maker] < 0
    late = np.isin(np.arange(len(base)), streamed)
    null &= ~late
    resident = np.flatnonzero(null & np.isin(np.arange(len(base)), uses[:, 1]))
    live = np.flatnonzero(~null & (base == np.arange(len(base))))
    index = np.zeros(len(base), np.int64)
    index[resident], index[live] = np.arange(len(resident)), np.arange(len(live))
    of_input = null[uses[:, 1]]
    held, others = uses[of_input], uses[~of_input]
    ends = np.isin(live, base[np.asarray(graph.outputs, np.int64)])
    others = np.stack([others[:, 0], index[others[:, 1]]], 1)
    return make_room(
        np.array([device.descriptor.memories[0].available for device in devices], np.int64),
        size[resident],
        np.stack([held[:, 0], index[held[:, 1]]], 1),
        size[live],
        maker[live].astype(np.int64),
        ends,
        others,
        graph.num_nodes,
        late[live],
        resident,
    )


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
) -> Room:
    """A Room of its columns; ``most_live`` follows from them. ``live_late`` None: nothing is streamed."""
    late = np.zeros(len(live_owner), bool) if live_late is None else live_late
    last, first = live_owner.copy(), np.where(late, num_nodes - 1, live_owner)
    np.minimum.at(first, live_uses[:, 1], live_uses[:, 0])
    first = np.where(late, first, live_owner)
    np.maximum.at(last, live_uses[:, 1], live_uses[:, 0])
    last[live_end] = num_nodes - 1
    change = np.zeros((num_nodes + 1, len(available)), np.int64)
    np.add.at(change, first, live)
    np.subtract.at(change, last + 1, live)
    most = np.cumsum(change, 0)[:-1]
    eids = np.arange(len(resident)) if resident_eid is None else resident_eid
    return Room(available, resident, resident_uses, live, live_owner, live_end, live_uses, most, late, eids)


def _bytes(type_: TensorType, layout: Layout | str, device: Device) -> int:
    """Bytes of a bank; 0 where the device cannot hold the type, so that nothing that reads it runs there."""
    if isinstance(layout, str):
        return 0
    memory = device.descriptor.memory(layout.memory)
    try:
        nbytes = type_.nbytes if memory.name == HOST else footprint(layout, type_.shape, memory)[0]
    except PlanError:
        return 0
    return -(-nbytes // memory.alignment) * memory.alignment
