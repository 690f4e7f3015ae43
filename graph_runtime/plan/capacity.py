"""Does a plan fit its devices? Asked before anything is allocated, answered with who holds the memory."""
from __future__ import annotations

import numpy as np

from ..errors import CapacityError
from .types import Plan

__all__ = ["check_capacity"]

_HOLDERS = 5


def check_capacity(plan: Plan) -> None:
    """Raises CapacityError, with ``needed``, ``available`` and the five largest ``holders`` [(node, bytes)],
    where the peak of a memory is beyond what it can hand out. All numbers but a tt buffer's size are bytes of
    one bank."""
    for (did, index), needed in plan.peak.items():
        memory = plan.devices[did].descriptor.memories[index]
        if needed > memory.usable:
            raise _error(plan, did, index, needed)


def _error(plan: Plan, did: int, index: int, needed: int) -> CapacityError:
    device, storage = plan.devices[did], plan.storage
    memory = device.descriptor.memories[index]
    mine = np.flatnonzero((storage.did == did) & (storage.memory == index))
    largest = mine[np.argsort(-storage.extent[mine], kind="stable")][:_HOLDERS]
    holders = [(_holder(plan, sid), int(storage.nbytes[sid])) for sid in largest.tolist()]
    named = ", ".join(f"{name} {size} B" for name, size in holders)
    if memory.banks == 1:
        text = (
            f"the plan needs {needed} B of {device} {memory.name} memory, {memory.usable} B are available "
            f"(the largest: {named})"
        )
    else:
        ends = storage.offset[mine] + storage.extent[mine]
        first = mine[np.flatnonzero(ends > memory.usable)[0]]
        taken = int(ends[ends <= memory.usable].max(initial=0))
        free = memory.usable - taken
        text = (
            f"Out of Memory: Not enough space to allocate {int(storage.nbytes[first])} B "
            f"{memory.name.upper()} buffer across {memory.banks} banks, where each bank needs to store "
            f"{int(storage.extent[first])} B, but bank size is {memory.usable} B (allocated: {taken} B, "
            f"free: {free} B, largest free block: {free} B); the plan needs {needed} B of each bank of "
            f"{device}; held by {named}"
        )
    return CapacityError(
        f"{text}; place less on {device}",
        device=str(device),
        needed=needed,
        available=memory.usable,
        holders=holders,
        node=holders[0][0] if holders else None,
    )


def _holder(plan: Plan, sid: int) -> str:
    """The name of the node whose entry is the largest on a sid."""
    graph, entries = plan.graph, np.flatnonzero(plan.sid == sid)
    if not len(entries):
        return f"storage {sid}"
    largest = max(entries.tolist(), key=lambda eid: graph.entry_type(eid).nbytes)
    return repr(graph.names[int(graph.entry_nid[largest])])
