"""Does a plan fit its devices? Asked before anything is allocated, answered with who holds the memory."""
from __future__ import annotations

import numpy as np

from ..errors import CapacityError
from .sizes import out_of_memory, remedy
from .types import Plan

__all__ = ["check_capacity"]

_HOLDERS = 5


def check_capacity(plan: Plan) -> None:
    """Raises CapacityError, with ``node`` (the first that does not fit), ``needed``, ``available`` and the
    five largest ``holders`` [(node, bytes)], where the peak of a memory is beyond what it has for tensors.
    All numbers but a tt buffer's size are bytes of one bank; every bank holds the same ranges."""
    for (did, index), needed in plan.peak.items():
        memory = plan.devices[did].descriptor.memories[index]
        if needed > memory.available:
            raise _error(plan, did, index, needed)


def _error(plan: Plan, did: int, index: int, needed: int) -> CapacityError:
    device, storage = plan.devices[did], plan.storage
    memory = device.descriptor.memories[index]
    mine = np.flatnonzero((storage.did == did) & (storage.memory == index))
    largest = mine[np.argsort(-storage.extent[mine], kind="stable")][:_HOLDERS]
    holders = [(_holder(plan, sid), int(storage.nbytes[sid])) for sid in largest.tolist()]
    ends = storage.offset[mine] + storage.extent[mine]
    first = int(mine[np.flatnonzero(ends > memory.available)[0]])
    taken = int(ends[ends <= memory.available].max(initial=0))
    text = out_of_memory(device, memory, int(storage.nbytes[first]), int(storage.extent[first]), taken)
    each = "" if memory.banks == 1 else " of each bank"
    node = _holder(plan, first).strip("'")
    layout = plan.layout(int(np.flatnonzero(plan.sid == first)[0])) if (plan.sid == first).any() else None
    return CapacityError(
        f"{text} for {node!r}; the plan needs {needed} B{each}, held by "
        f"{', '.join(f'{name} {size} B' for name, size in holders)}"
        + (f"; {remedy(device, memory, layout, node)}" if layout else ""),
        device=str(device),
        needed=needed,
        available=memory.available,
        holders=holders,
        node=node,
    )


def _holder(plan: Plan, sid: int) -> str:
    """The name of the node whose entry is the largest on a sid."""
    graph, entries = plan.graph, np.flatnonzero(plan.sid == sid)
    if not len(entries):
        return f"storage {sid}"
    largest = max(entries.tolist(), key=lambda eid: graph.entry_type(eid).nbytes)
    return repr(graph.names[graph.maker(largest)])
