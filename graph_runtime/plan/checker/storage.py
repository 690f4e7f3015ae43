"""The checker's rules about memory: where storages lie, and copies at input time."""

from __future__ import annotations

import numpy as np

from .facts import Facts, refuse, storage_path, taken

__all__ = ["check_at_input", "check_storage"]


def check_storage(facts: Facts) -> None:
    """Each entry lies on its device, in its layout's memory, and fits; each storage is aligned and inside its
    memory."""
    plan, storage = facts.plan, facts.plan.storage
    table = np.zeros((3, len(facts.kinds)), np.int64)
    for row, (type_, layout, did) in enumerate(facts.kinds):
        descriptor = plan.devices[did].descriptor
        memory = next(m for m in descriptor.memories if m.name == layout.memory)
        table[:, row] = (*taken(type_, layout, memory), descriptor.memories.index(memory))
    extent, nbytes, memory = table[:, facts.kind]
    sid = plan.sid
    for wrong, complain in (
        (storage.did[sid] != facts.entry_did, _on_two_devices),
        (storage.memory[sid] != memory, _in_two_memories),
        ((extent > storage.extent[sid]) | (nbytes > storage.nbytes[sid]), _too_small),
    ):
        if wrong.any():
            complain(facts, int(np.flatnonzero(wrong)[0]), nbytes)
    _check_offsets(facts)


def _on_two_devices(facts: Facts, eid: int, _nbytes: np.ndarray) -> None:
    plan, sid = facts.plan, int(facts.plan.sid[eid])
    here, there = plan.devices[plan.storage.did[sid]], plan.devices[facts.entry_did[eid]]
    raise refuse(
        plan,
        "storage",
        f"The same pool entry cannot be assigned to multiple devices: storage {sid} lies on {here}, "
        f"entry {eid} of {facts.name(eid)} on {there}",
        nid=int(facts.maker[eid]),
        entries=(eid,),
        path=storage_path(plan, eid),
        device=str(there),
        got=str(here),
        wanted=str(there),
    )


def _in_two_memories(facts: Facts, eid: int, _nbytes: np.ndarray) -> None:
    plan, sid = facts.plan, int(facts.plan.sid[eid])
    device = plan.devices[plan.storage.did[sid]]
    lies = device.descriptor.memories[plan.storage.memory[sid]].name
    wanted = plan.layouts[plan.layout_id[eid]].memory
    raise refuse(
        plan,
        "storage",
        f"storage {sid} lies in {device} {lies}, the layout of entry {eid} of {facts.name(eid)} says "
        f"{wanted}",
        nid=int(facts.maker[eid]),
        entries=(eid,),
        path=storage_path(plan, eid),
        got=lies,
        wanted=wanted,
    )


def _too_small(facts: Facts, eid: int, nbytes: np.ndarray) -> None:
    plan, sid = facts.plan, int(facts.plan.sid[eid])
    raise refuse(
        plan,
        "storage",
        f"storage {sid} has {int(plan.storage.nbytes[sid])} B, entry {eid} of {facts.name(eid)} needs "
        f"{int(nbytes[eid])} B",
        nid=int(facts.maker[eid]),
        entries=(eid,),
        path=storage_path(plan, eid),
        got=int(plan.storage.nbytes[sid]),
        wanted=int(nbytes[eid]),
    )


def _check_offsets(facts: Facts) -> None:
    plan, storage = facts.plan, facts.plan.storage
    most = max(len(d.descriptor.memories) for d in plan.devices)
    limits = np.ones((3, len(plan.devices) * most), np.int64)
    for did, device in enumerate(plan.devices):
        for index, memory in enumerate(device.descriptor.memories):
            limits[:, did * most + index] = memory.alignment, memory.available, plan.peak.get((did, index), 0)
    align, usable, peak = limits[:, storage.did.astype(np.int64) * most + storage.memory]
    end = storage.offset + storage.extent
    for wrong, text in (
        (storage.offset % align != 0, "starts at {offset}, which is no multiple of {align}"),
        (end > usable, "ends at {end}, the memory has {usable} B"),
        (end > peak, "ends at {end}, the plan's peak is {peak} B"),
    ):
        if wrong.any():
            sid = int(np.flatnonzero(wrong)[0])
            said = text.format(
                offset=int(storage.offset[sid]),
                end=int(end[sid]),
                align=int(align[sid]),
                usable=int(usable[sid]),
                peak=int(peak[sid]),
            )
            raise refuse(
                plan,
                "storage",
                f"storage {sid} on {plan.devices[storage.did[sid]]} {said}",
                path=f"$.metadata.graph_runtime.storage[{sid}]",
                device=str(plan.devices[storage.did[sid]]),
            )


# **************** when an input is set, when a run ends ****************


def check_at_input(facts: Facts) -> None:
    """What runs when an input is set is a __copy of that input, which no output is written into, or a
    __copy of what such a copy makes."""
    plan, graph = facts.plan, facts.plan.graph
    nids = np.flatnonzero(plan.at_input)
    if not len(nids):
        return
    other = nids[~facts.copies[nids]]
    if len(other):
        raise refuse(
            plan,
            "at_input",
            f"{graph.names[int(other[0])]!r} is no __copy, it cannot run when an input is set",
            nid=int(other[0]),
        )
    source = graph.in_eid[graph.in_ptr[nids]]
    settable = np.zeros(graph.num_entries, bool)
    settable[graph.row_ptr[graph.inputs]] = True
    settable[graph.row_ptr[nids]] = True  # by order: each goes back to an input, or the first is refused
    late = nids[~settable[source]]
    if len(late):
        raise refuse(
            plan,
            "at_input",
            f"{graph.names[int(late[0])]!r} runs when an input is set, but it copies no graph input",
            nid=int(late[0]),
        )
    written = {int(graph.row_ptr[graph.inputs[i]]): o for o, i in plan.aliases if 0 <= i < len(graph.inputs)}
    for nid, eid in zip(nids.tolist(), source.tolist(), strict=True):
        if eid in written:
            raise refuse(
                plan,
                "at_input",
                f"{graph.names[nid]!r} copies {facts.name(eid)} when it is set, but output "
                f"{written[eid]} changes that input on every run",
                nid=nid,
                entries=(eid,),
            )
