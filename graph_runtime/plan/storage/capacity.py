"""Does a plan fit its devices? Asked before anything is allocated, answered with the memory's holders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...base.errors import CapacityError
from ...base.machine.layout import L1, Layout
from ..supports import circular_room, too_large
from ..types import Plan
from .sizes import out_of_memory, remedy, round_up

__all__ = ["check_capacity", "check_circular", "room_beside"]

_HOLDERS = 5


def check_capacity(plan: Plan) -> None:
    """Raises CapacityError, with ``plan``, ``device``, ``memory``, ``node`` (the first that does not fit),
    ``needed``, ``available``, what of it ``parameters`` (with other inputs) and ``activations`` take, and the
    five largest ``holders`` [(node, bytes)], where the peak of a memory is beyond what it has for tensors.
    All numbers but a tt buffer's size are bytes of one bank; every bank holds the same ranges."""
    for (did, index), needed in plan.peak.items():
        memory = plan.devices[did].descriptor.memories[index]
        if needed > memory.available:
            raise _error(plan, did, index, needed)


def room_beside(plan: Plan, did: int) -> int:
    """Bytes of a core's L1 that circular buffers have beside the plan's tensors: what kernels are checked
    against, and what op models are made for."""
    device, tensors = plan.devices[did], 0
    for index, memory in enumerate(device.descriptor.memories):
        if memory.name == L1:
            tensors = int(round_up(plan.peak.get((did, index), 0), memory.alignment))
    return max(circular_room(device) - tensors, 0)


def check_circular(plan: Plan, needs: np.ndarray) -> None:
    """Raises CapacityError, with ``plan``, ``node``, ``needed`` (bytes of a core's L1), ``available`` and
    ``holders`` as check_capacity, where a node's circular buffers find no room below the plan's tensors.
    ``needs`` int64 [nodes]: what each node opens."""
    for did in range(len(plan.devices)):
        mine = np.where(plan.did == did, needs, 0)
        if not mine.any():
            continue
        room = room_beside(plan, did)
        if int(mine.max()) > room:
            raise _no_room(replace(plan, circular=needs), did, int(mine.argmax()), int(mine.max()), room)


def _no_room(plan: Plan, did: int, nid: int, needed: int, room: int) -> CapacityError:
    device, storage, graph = plan.devices[did], plan.storage, plan.graph
    index = [memory.name for memory in device.descriptor.memories].index(L1)
    mine = np.flatnonzero((storage.did == did) & (storage.memory == index))
    largest = mine[np.argsort(-storage.extent[mine], kind="stable")][:_HOLDERS]
    holders = [(_holder(plan, sid), int(storage.extent[sid])) for sid in largest.tolist()]
    node, tensors = graph.names[nid], plan.peak.get((did, index), 0)
    text = f"node {node!r} ({graph.node(nid).op} on {device}) {too_large(needed, device)}"
    if tensors:
        change = remedy(
            device,
            device.descriptor.memories[index],
            _layout(plan, int(largest[0])),
            holders[0][0].strip("'"),
        )
        text += (
            f", and the plan's tensors take {tensors} B of it, held by "
            f"{', '.join(f'{name} {size} B' for name, size in holders)}: at most "
            f"{max(circular_room(device) - needed, 0)} B of tensors fit beside; {change}"
        )
    else:
        text += f": cut node {node!r} into smaller ones, or place it elsewhere"
    return CapacityError(
        text,
        device=str(device),
        memory=L1,
        needed=needed,
        available=room,
        holders=holders,
        node=node,
        plan=plan,
    )


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
    layout = _layout(plan, first)
    parameters = _parameters(plan, mine)
    return CapacityError(
        f"{text} for {node!r}; the plan needs {needed} B{each}, parameters and inputs {parameters} B of them "
        f"and activations {needed - parameters} B, held by "
        f"{', '.join(f'{name} {size} B' for name, size in holders)}"
        + (f"; {remedy(device, memory, layout, node)}" if layout else ""),
        device=str(device),
        memory=memory.name,
        needed=needed,
        available=memory.available,
        parameters=parameters,
        activations=needed - parameters,
        holders=holders,
        node=node,
        plan=plan,
    )


def _parameters(plan: Plan, sids: np.ndarray) -> int:
    """Bytes of a bank of those storages that inputs, or copies of them made when they are set, lie on."""
    early = (plan.graph.func_id < 0) | plan.at_input
    of_input = np.unique(plan.sid[early[plan.graph.entry_nid]])
    return int(plan.storage.extent[np.intersect1d(sids, of_input)].sum())


def _layout(plan: Plan, sid: int) -> Layout | None:
    """That of the first entry on a sid, None where none is."""
    entries = np.flatnonzero(plan.sid == sid)
    return plan.layout(int(entries[0])) if len(entries) else None


def _holder(plan: Plan, sid: int) -> str:
    """The name of the node whose entry is the largest on a sid."""
    graph, entries = plan.graph, np.flatnonzero(plan.sid == sid)
    if not len(entries):
        return f"storage {sid}"
    largest = max(entries.tolist(), key=lambda eid: graph.entry_type(eid).nbytes)
    return repr(graph.names[graph.maker(largest)])
