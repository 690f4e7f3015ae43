"""The checker's rules about time: how long values are needed, aliases, and which values overwrite which."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort

import numpy as np

from ...ir.graph import COPY, NOP
from ..types import Plan
from .facts import Facts, refuse, storage_path

__all__ = ["check_alias", "check_overlap"]


class Lives:
    """Values (entries that reshapes make one) and how long their bytes are needed, in half steps: node n
    writes and reads at 2 n, a value that is written over as it is read for the last time ends at 2 n - 1."""

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
        self.reads = 2 * facts.maker  # the last read, or the write of a value without a reader
        self.reads[of[graph.in_eid]] = 2 * facts.reader  # readers ascend: the last one stays
        self.is_output = np.zeros(graph.num_entries, bool)
        self.is_output[of[graph.outputs]] = True
        self.kept = (facts.null | facts.plan.at_input)[facts.maker]
        self.born = np.where(self.kept, -2, 2 * facts.maker)
        self.last = np.where(self.kept | self.is_output, self.never, self.reads)


def check_alias(facts: Facts) -> Lives:
    """An output written into an input's buffer: one each, same type, layout and storage, and nothing reads
    the input later."""
    plan, graph, lives = facts.plan, facts.plan.graph, Lives(facts)
    seen: set[tuple[str, int]] = set()
    for at, (o, i) in enumerate(plan.aliases):
        path = f"$.metadata.graph_runtime.aliases[{at}]"
        if not (0 <= o < len(graph.outputs) and 0 <= i < len(graph.inputs)):
            raise refuse(
                plan,
                "alias",
                f"alias [{o}, {i}]: there are {len(graph.outputs)} outputs and {len(graph.inputs)} inputs",
                path=path,
            )
        out, into = int(graph.outputs[o]), int(graph.row_ptr[graph.inputs[i]])
        reason = _alias_fault(facts, lives, out, into)
        if {("out", int(lives.of[out])), ("in", into)} & seen:
            reason = "each output and each input can be in one alias"
        if reason:
            raise refuse(
                plan,
                "alias",
                f"output {o} ({facts.name(out)}) cannot be written into input {i} "
                f"({facts.name(into)}): {reason}",
                nid=int(facts.maker[out]),
                entries=(out, into),
                path=path,
            )
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
    same_bytes = (
        facts.entry_did[out] == facts.entry_did[into]
        and plan.sid[out] == plan.sid[into]
        and plan.layout(out) == plan.layout(into)
    )
    if not same_bytes:
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
    """No value is written to bytes of its device memory while another value there is needed."""
    plan, storage = facts.plan, facts.plan.storage
    values = np.flatnonzero(
        (lives.of == np.arange(len(lives.of))) & (storage.extent[plan.sid] > 0) & _sized(facts)
    )
    order = values[np.lexsort((values, lives.born[values], plan.sid[values]))]
    before, after = order[:-1], order[1:]
    touching = (plan.sid[before] == plan.sid[after]) & (lives.last[before] >= lives.born[after])
    before, after = before[touching], after[touching]
    allowed = _in_place(facts, lives, before, after)
    lives.last[before[allowed]] -= 1
    if not allowed.all():
        at = int(np.flatnonzero(~allowed)[0])
        raise _overwritten(facts, lives, int(before[at]), int(after[at]))
    if _storages_overlap(plan):
        _sweep(facts, lives, values)


def _sized(facts: Facts) -> np.ndarray:
    """bool [entries]: the entry has elements."""
    has = np.array([0 not in t.shape for t in facts.plan.graph.types])
    return has[facts.plan.graph.type_id]


def _in_place(facts: Facts, lives: Lives, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """bool [pairs]: ``after`` is output 0 of the node at which ``before`` ends, and the op may write it over
    ``before``."""
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
    """bool [slots]: the op lets output 0 (entry ``output``) be written over this input, and both have one
    type and layout."""
    graph, layout = facts.plan.graph, facts.same_layout[facts.plan.layout_id]
    read = graph.in_eid[slots]
    return (
        facts.may_overwrite(slots)
        & (graph.type_id[read] == graph.type_id[output])
        & (layout[read] == layout[output])
        & (graph.row_ptr[facts.reader[slots]] == output)
    )


def _storages_overlap(plan: Plan) -> bool:
    """True where two storages that hold something share bytes of one memory."""
    used = np.zeros(plan.storage.count, bool)
    used[plan.sid] = True
    sids = np.flatnonzero(used & (plan.storage.extent > 0))
    region = plan.storage.region[sids]
    order = np.lexsort((plan.storage.offset[sids], region))
    region, start = region[order], plan.storage.offset[sids][order]
    end = start + plan.storage.extent[sids][order]
    same = region[1:] == region[:-1]
    return bool(
        (same & (end[:-1] > start[1:])).any()
    )  # neighbours suffice: if none touch, the ends ascend too


def _sweep(facts: Facts, lives: Lives, values: np.ndarray) -> None:
    """Storages share bytes: walk the values in time and keep those alive sorted by address, region by
    region."""
    plan, storage = facts.plan, facts.plan.storage
    order = values[np.lexsort((values, lives.born[values]))].tolist()
    alive: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    ending: list[tuple[int, int]] = []
    span: dict[int, tuple[tuple[int, int], tuple[int, int, int]]] = {}  # (region, what of it) of a value
    for value in order:
        while ending and ending[0][0] < lives.born[value]:
            done = heapq.heappop(ending)[1]
            region, item = span.pop(done)
            alive[region].pop(bisect_left(alive[region], item))
        sid = int(plan.sid[value])
        region = int(storage.did[sid]), int(storage.memory[sid])
        start = int(storage.offset[sid])
        item = (start, start + int(storage.extent[sid]), value)
        row = alive.setdefault(region, [])
        at = bisect_left(row, item)
        for near in row[max(at - 1, 0) : at + 1]:
            if near[0] < item[1] and item[0] < near[1]:
                raise _overwritten(facts, lives, near[2], value)
        insort(row, item)
        span[value] = region, item
        heapq.heappush(ending, (int(lives.last[value]), value))


def _overwritten(facts: Facts, lives: Lives, first: int, second: int):
    plan, graph = facts.plan, facts.plan.graph
    sids = int(plan.sid[first]), int(plan.sid[second])
    where = (
        f"storage {sids[0]}"
        if sids[0] == sids[1]
        else f"storages {sids[0]} and {sids[1]}, which share bytes,"
    )
    last = int(lives.last[first])
    if lives.kept[first]:
        need = "which stays as it was set"
    elif last >= lives.never:
        need = "which is an output of the graph"
    else:
        need = (
            f"which {graph.names[last // 2]!r} still reads"
            if last > lives.born[first]
            else "which is written just then"
        )
    return refuse(
        plan,
        "overlap",
        f"{where} on {plan.devices[facts.entry_did[first]]}: {facts.name(second)} (entry {second}) "
        f"overwrites {facts.name(first)} (entry {first}), {need}{_not_in_place(facts, lives, first, second)}",
        nid=int(facts.maker[second]),
        entries=(first, second),
        path=storage_path(plan, second),
    )


def _not_in_place(facts: Facts, lives: Lives, first: int, second: int) -> str:
    """Advice where ``second`` is made of ``first`` by a library's function that may not write in place."""
    graph, nid = facts.plan.graph, int(facts.maker[second])
    read = lives.of[graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]]].tolist()
    func = graph.funcs[graph.func_id[nid]] if graph.func_id[nid] >= 0 else None
    if func is None or func.op is not None or first not in read or func.name in (COPY, NOP):
        return ""
    return (
        f"; the manifest of the library that has {func.name!r} does not let its output 0 overwrite input "
        f"{read.index(first)}: announce the kernel with `inplace {read.index(first)}` (docs/kernels.md), or "
        "give the two another storage_id each"
    )
