"""Bytes in placement: what each memory of each device has, and what assignments would hold there.

A graph's inputs (parameters, and what runs set) are resident: they lie on each device that reads them, all
the time. Any other value lies on its owner's device, and on each that reads it, from the node that makes it
to the last that reads it there; a result to the end; one that is streamed, from its first reader there. Sizes
are those of the layouts that values will have, in bytes of one bank, and time is the node order: a plan may
come by with a little less, where outputs take over what they read, and need a little more, where blocks leave
gaps or queues overlap. Circular buffers come on top of the tensors in a core's L1, those of the node that
opens most, as plan/storage/capacity.py has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Room", "make_room"]

_MOST_CELLS = 1 << 22  # int64 that are held at once


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Columns over stores: the main memory of each device, in their order, then the L1 of those in which a
    value would lie. ``available`` int64 [stores]: bytes of a bank. ``device`` int64 [stores]: whose it is.

    ``resident`` int64 [inputs, stores]: bytes of each that is read. ``resident_uses`` int64 [uses, 2]: the
    distinct (node that reads it, which). ``live`` int64 [values, stores]: bytes of all other values.
    ``live_owner`` int64 [values]: the node that makes it, on whose device it lies. ``live_end`` bool
    [values]: results. ``live_uses`` int64 [uses, 2]: (node, which). ``most_live`` int64 [nodes, stores]: what
    lives while each node runs, with all on that device: no assignment has more. ``live_late`` bool [values]:
    streamed ones, which come to a device for their first reader there. ``resident_eid`` int64 [inputs].
    ``circular`` int64 [nodes, stores]: what a node's circular buffers take of it while any node runs.
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
        """Whether some device could not hold all."""
        most = self.resident.sum(0) + self.most_live.max(0, initial=0) + self.circular.max(0, initial=0)
        return bool((most > self.available).any())

    def stores(self, device: int) -> list[int]:
        """Those of a device, its main memory first."""
        return np.flatnonzero(self.device == device).tolist()

    def pooled(self, device: int, others: list[int]) -> Room:
        """Two devices: one, and all others as one with their memories together; main memories only, so that
        more has room than in fact."""

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
        """Equal for devices that hold the same."""
        tables = (self.resident, self.live, self.circular)
        mine = self.stores(device)
        return b"".join(part.tobytes() for part in (self.available[mine], *(t[:, mine] for t in tables)))

    def parameters(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, stores]: bytes of the inputs that each device reads; ``did`` int [rows, nodes], -1:
        not placed yet."""
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
        """int64 [rows, stores]: the most bytes of other values that live there at a time."""
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
        """int64 [k] each: the main memory of each device, then its L1, -1: no value would lie there."""
        k = self.num_devices
        other = np.full(k, -1, np.int64)
        other[self.device[k:]] = np.arange(k, len(self.device))
        return [np.arange(k)] if len(self.device) == k else [np.arange(k), other]

    def buffers(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, stores]: what circular buffers take, those of the node there that opens most."""
        held = np.zeros((len(did), len(self.available)), np.int64)
        for store in np.flatnonzero(self.circular.any(0)).tolist():
            here = did == self.device[store]
            held[:, store] = np.where(here, self.circular[:, store], 0).max(1, initial=0)
        return held

    def missing(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows, k]: bytes that each device lacks in the memory that lacks most; what is left in it,
        less than zero."""
        over = self.parameters(did) + self.activations(did) + self.buffers(did) - self.available
        most = over[:, : self.num_devices].copy()
        for store in range(self.num_devices, len(self.available)):
            at = self.device[store]
            most[:, at] = np.maximum(most[:, at], over[:, store])
        return most

    def excess(self, did: np.ndarray) -> np.ndarray:
        """int64 [rows]: the bytes by which assignments ``did`` int [rows, nodes] are beyond what devices
        have, 0: they fit. Nodes that are not placed (-1) hold nothing."""
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
    """A Room of its columns; ``most_live`` follows from them. ``live_late`` None: nothing is streamed.
    ``device`` None: each store is a device's main memory. ``circular`` None: there are no such buffers."""
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
    device = np.arange(len(available)) if device is None else device
    circular = np.zeros((num_nodes, len(available)), np.int64) if circular is None else circular
    return Room(
        available,
        device,
        resident,
        resident_uses,
        live,
        live_owner,
        live_end,
        live_uses,
        most,
        late,
        eids,
        circular,
    )
