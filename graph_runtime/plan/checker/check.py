"""The independent checker: every plan passes it before it runs, whichever pass or file made the plan.

It shares no code with the passes: from a Plan it computes the bytes that every entry takes and the time for
which they are needed. Its error names the first of these rules that the plan breaks:

    rule       what holds in a plan that obeys the rule
    columns    every column has its length, and every id is in range
    order      every read comes after the write
    device     nodes read only entries on their own device
    layout     memory, layout and format exist on the device and can hold the dtype
    copy       a __copy converts only what a __copy may convert
    nop        a reshape shares its input's bytes, and the bytes mean the same tensor in both shapes
    storage    a storage is in the right memory, large enough, aligned and inside the memory
    at_input   only copies of graph inputs run when an input is set
    alias      an output is written into an input's buffer only if the output may be written there
    overlap    no node writes to bytes that something still needs
    models     the op models of a balancer fit node, core and chip; epochs and cores are consistent

The checker is conservative. Entries count with their padding, overlapping storages with their whole extent. A
graph input is needed for ever, because it may be set once for many runs. A __nop counts as a reader of its
input, and a write counts even if no node reads the value. In-place use requires equal types, and the op must
permit it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..types import Plan
from .facts import (
    Facts,
    check_columns,
    check_copies,
    check_devices,
    check_layouts,
    check_nops,
    check_order,
    refuse,
    storage_path,
    taken,
)
from .models import check_models
from .overlap import overwritten, sweep


def check(plan: Plan, *, inplace: Mapping[str, tuple[int, ...]] | None = None) -> Plan:
    """``plan``, if it is safe to run.

    ``inplace``: func_name -> inputs that output 0 may overwrite, from the libraries' manifests, which take
    precedence over the op registry. Raises CheckError with ``rule``, ``node``, ``entries`` and the path in
    the file."""
    check_columns(plan)
    facts = Facts.of(plan, inplace or {})
    check_order(facts)
    check_devices(facts)
    check_layouts(facts)
    check_copies(facts)
    check_nops(facts)
    check_storage(facts)
    check_at_input(facts)
    check_overlap(facts, check_alias(facts))
    if plan.model_id is not None:
        check_models(plan)
    return plan


# **************** storages ****************


def check_storage(facts: Facts) -> None:
    """Check that each entry lies on its device, in its layout's memory, and fits its storage; and that each
    storage is aligned and inside its memory."""
    plan, storage = facts.plan, facts.plan.storage
    table = np.zeros((3, len(facts.kinds)), np.int64)
    for row, (type_, layout, did) in enumerate(facts.kinds):
        descriptor = plan.devices[did].descriptor
        memory = next(m for m in descriptor.memories if m.name == layout.memory)
        table[:, row] = (*taken(type_, layout, memory), descriptor.memories.index(memory))
    extent, nbytes, memory = table[:, facts.kind]
    sid = plan.sid
    for wrong, say in (
        (storage.did[sid] != facts.entry_did, _on_two_devices),
        (storage.memory[sid] != memory, _in_two_memories),
        ((extent > storage.extent[sid]) | (nbytes > storage.nbytes[sid]), _too_small),
    ):
        if wrong.any():
            eid = int(np.flatnonzero(wrong)[0])
            text, fields = say(facts, eid, int(nbytes[eid]))
            nid, path = int(facts.maker[eid]), storage_path(plan, eid)
            raise refuse(plan, "storage", text, nid=nid, entries=(eid,), path=path, **fields)
    _check_offsets(facts)


def _on_two_devices(facts: Facts, eid: int, _nbytes: int) -> tuple[str, dict[str, Any]]:
    plan, sid = facts.plan, int(facts.plan.sid[eid])
    here, there = str(plan.devices[plan.storage.did[sid]]), str(plan.devices[facts.entry_did[eid]])
    text = (
        f"The same pool entry cannot be assigned to multiple devices: storage {sid} lies on {here}, "
        f"entry {eid} of {facts.name(eid)} on {there}"
    )
    return text, {"device": there, "got": here, "wanted": there}


def _in_two_memories(facts: Facts, eid: int, _nbytes: int) -> tuple[str, dict[str, Any]]:
    plan, sid = facts.plan, int(facts.plan.sid[eid])
    device, wanted = plan.devices[plan.storage.did[sid]], plan.layout(eid).memory
    lies = device.descriptor.memories[plan.storage.memory[sid]].name
    text = (
        f"storage {sid} lies in {device} {lies}, the layout of entry {eid} of {facts.name(eid)} says {wanted}"
    )
    return text, {"got": lies, "wanted": wanted}


def _too_small(facts: Facts, eid: int, nbytes: int) -> tuple[str, dict[str, Any]]:
    sid = int(facts.plan.sid[eid])
    has = int(facts.plan.storage.nbytes[sid])
    text = f"storage {sid} has {has} B, entry {eid} of {facts.name(eid)} needs {nbytes} B"
    return text, {"got": has, "wanted": nbytes}


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
        (storage.offset % align != 0, "begins at {offset}, which is no multiple of {align}"),
        (end > usable, "ends at {end}, the memory has {usable} B"),
        (end > peak, "ends at {end}, the plan's peak is {peak} B"),
    ):
        if wrong.any():
            sid = int(np.flatnonzero(wrong)[0])
            name, path = str(plan.devices[storage.did[sid]]), f"$.metadata.graph_runtime.storage[{sid}]"
            columns = {"offset": storage.offset, "end": end, "align": align, "usable": usable, "peak": peak}
            said = text.format(**{key: int(column[sid]) for key, column in columns.items()})
            raise refuse(plan, "storage", f"storage {sid} on {name} {said}", path=path, device=name)


# **************** when an input is set, when a run ends ****************


def check_at_input(facts: Facts) -> None:
    """Check each node that runs when an input is set. The node must be a __copy of that input, or a __copy of
    such a copy's output; no output may be written into the input."""
    plan, graph = facts.plan, facts.plan.graph
    nids = np.flatnonzero(plan.at_input)
    if not len(nids):
        return
    other = nids[~facts.copies[nids]]
    if len(other):
        nid = int(other[0])
        text = f"{graph.names[nid]!r} is no __copy, and only copies run when an input is set"
        raise refuse(plan, "at_input", text, nid=nid)
    source = graph.in_eid[graph.in_ptr[nids]]
    settable = np.zeros(graph.num_entries, bool)
    settable[graph.row_ptr[graph.inputs]] = True
    settable[graph.row_ptr[nids]] = True  # each node copies an input or an earlier copy, else it is refused
    late = nids[~settable[source]]
    if len(late):
        nid = int(late[0])
        text = f"{graph.names[nid]!r} runs when an input is set, but copies no graph input"
        raise refuse(plan, "at_input", text, nid=nid)
    written = {int(graph.row_ptr[graph.inputs[i]]): o for o, i in plan.aliases if 0 <= i < len(graph.inputs)}
    for nid, eid in zip(nids.tolist(), source.tolist(), strict=True):
        if eid in written:
            text = f"{graph.names[nid]!r} copies {facts.name(eid)} when it is set, but output {written[eid]} "
            text += "changes that input on every run"
            raise refuse(plan, "at_input", text, nid=nid, entries=(eid,))


# **************** time ****************


class Lives:
    """Values (an entry and its reshapes are one value) and how long their bytes are needed, in half steps:
    node n reads and writes at 2 n; a value that its last reader n overwrites ends at 2 n - 1."""

    never: int
    reads: np.ndarray
    kept: np.ndarray

    def __init__(self, facts: Facts):
        graph = facts.plan.graph
        of = np.arange(graph.num_entries)
        nops = np.flatnonzero(facts.nops)
        of[graph.row_ptr[nops]] = graph.in_eid[graph.in_ptr[nops]]
        while len(nops) and (of[of] != of).any():
            of = of[of]
        self.of = of
        self.never = 2 * graph.num_nodes  # later than every node
        self.reads = 2 * facts.maker  # the last read; for a value without a reader, the write
        self.reads[of[graph.in_eid]] = 2 * facts.reader  # readers ascend, so the last is kept
        self.is_output = np.zeros(graph.num_entries, bool)
        self.is_output[of[graph.outputs]] = True
        self.kept = (facts.null | facts.plan.at_input)[facts.maker]
        self.born = np.where(self.kept, -2, 2 * facts.maker)
        self.last = np.where(self.kept | self.is_output, self.never, self.reads)


def check_alias(facts: Facts) -> Lives:
    """Check the outputs that are written into inputs' buffers. Each output and each input is in one alias
    only; both have the same type, layout and storage; and no node reads the input later."""
    plan, graph, lives = facts.plan, facts.plan.graph, Lives(facts)
    seen: set[tuple[str, int]] = set()
    for at, (o, i) in enumerate(plan.aliases):
        path = f"$.metadata.graph_runtime.aliases[{at}]"
        if not (0 <= o < len(graph.outputs) and 0 <= i < len(graph.inputs)):
            counts = f"{len(graph.outputs)} outputs and {len(graph.inputs)} inputs"
            raise refuse(plan, "alias", f"alias [{o}, {i}]: there are {counts}", path=path)
        out, into = int(graph.outputs[o]), int(graph.row_ptr[graph.inputs[i]])
        reason = _alias_fault(facts, lives, out, into)
        if {("out", int(lives.of[out])), ("in", into)} & seen:
            reason = "each output and each input can be in one alias"
        if reason:
            text = f"output {o} ({facts.name(out)}) cannot be written into input {i} "
            text += f"({facts.name(into)}): {reason}"
            raise refuse(plan, "alias", text, nid=int(facts.maker[out]), entries=(out, into), path=path)
        seen |= {("out", int(lives.of[out])), ("in", into)}
        lives.last[into] = lives.born[lives.of[out]] - 1
    return lives


def _alias_fault(facts: Facts, lives: Lives, out: int, into: int) -> str | None:
    plan, graph = facts.plan, facts.plan.graph
    value = int(lives.of[out])
    if lives.kept[value]:
        return "it is an input, or a copy made when one is set"
    if graph.type_id[out] != graph.type_id[into]:
        return f"types differ, {graph.entry_type(out)} and {graph.entry_type(into)}"
    same_device = facts.entry_did[out] == facts.entry_did[into]
    if not same_device or plan.sid[out] != plan.sid[into] or plan.layout(out) != plan.layout(into):
        return "device, layout and storage must be the same"
    if lives.is_output[into]:
        return "the input is an output itself"
    wrote = int(lives.born[value])
    if lives.reads[into] > wrote:
        late = int(lives.reads[into]) // 2
        return f"{graph.names[late]!r} reads the input after {facts.name(value)} has overwritten it"
    if lives.reads[into] == wrote and graph.func_id[wrote // 2] >= 0:
        slots = np.arange(graph.in_ptr[wrote // 2], graph.in_ptr[wrote // 2 + 1])
        slots = slots[lives.of[graph.in_eid[slots]] == into]
        if not _permitted(facts, slots, np.full(len(slots), value)).all():
            return f"{facts.name(value)} reads it too, and its op may not write over that input"
    return None


# **************** which values overwrite which ****************


def check_overlap(facts: Facts, lives: Lives) -> None:
    """Check that no value is written to bytes of its device's memory while another value there is needed."""
    plan, storage = facts.plan, facts.plan.storage
    sized = np.array([0 not in t.shape for t in plan.graph.types])[plan.graph.type_id]
    firsts = lives.of == np.arange(len(lives.of))
    values = np.flatnonzero(firsts & (storage.extent[plan.sid] > 0) & sized)
    order = values[np.lexsort((values, lives.born[values], plan.sid[values]))]
    before, after = order[:-1], order[1:]
    touching = (plan.sid[before] == plan.sid[after]) & (lives.last[before] >= lives.born[after])
    before, after = before[touching], after[touching]
    allowed = _in_place(facts, lives, before, after)
    lives.last[before[allowed]] -= 1
    if not allowed.all():
        at = int(np.flatnonzero(~allowed)[0])
        raise overwritten(facts, lives, int(before[at]), int(after[at]))
    if _storages_overlap(plan):
        sweep(facts, lives, values)


def _in_place(facts: Facts, lives: Lives, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """bool [pairs]: whether ``after`` is output 0 of the node at which ``before`` ends, and the op allows the
    output to be written over ``before``."""
    graph = facts.plan.graph
    nid = facts.maker[after]
    ok = (lives.last[before] == 2 * nid) & (lives.born[after] == 2 * nid) & (graph.row_ptr[nid] == after)
    if not ok.any():
        return ok
    donor = np.full(graph.num_nodes, -1, np.int64)
    donor[nid[ok]] = before[ok]
    heir = np.zeros(graph.num_nodes, np.int64)
    heir[nid[ok]] = after[ok]
    slots = np.flatnonzero(lives.of[graph.in_eid] == donor[facts.reader])
    reads, faults = np.zeros(graph.num_nodes, bool), np.zeros(graph.num_nodes, bool)
    reads[facts.reader[slots]] = True
    faults[facts.reader[slots[~_permitted(facts, slots, heir[facts.reader[slots]])]]] = True
    return ok & reads[nid] & ~faults[nid]


def _permitted(facts: Facts, slots: np.ndarray, output: np.ndarray) -> np.ndarray:
    """bool [slots]: whether the op allows output 0 (entry ``output``) to be written over this input, and both
    have the same type and layout."""
    graph, layout = facts.plan.graph, facts.same_layout[facts.plan.layout_id]
    read = graph.in_eid[slots]
    return (
        facts.may_overwrite(slots)
        & (graph.type_id[read] == graph.type_id[output])
        & (layout[read] == layout[output])
        & (graph.row_ptr[facts.reader[slots]] == output)
    )


def _storages_overlap(plan: Plan) -> bool:
    """True if two storages that hold something share bytes of one memory."""
    used = np.zeros(plan.storage.count, bool)
    used[plan.sid] = True
    sids = np.flatnonzero(used & (plan.storage.extent > 0))
    region = plan.storage.region[sids]
    order = np.lexsort((plan.storage.offset[sids], region))
    region, start = region[order], plan.storage.offset[sids][order]
    end = start + plan.storage.extent[sids][order]
    # it is enough to compare neighbours: if no neighbours overlap, the ends ascend, too
    return bool(((region[1:] == region[:-1]) & (end[:-1] > start[1:])).any())
