"""simulate(): when every instruction of a plan would run, by the queues and waits of plan/lanes.py and the
times of costs/. Nothing is executed, and equal plans give equal timelines.

A queue runs its instructions one at a time in their order, runs after runs, so an event begins when its queue
is free and all that it waits for is over: one pass in schedule order finds every time.
"""
from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

import numpy as np

from .costs import BASES, Cost, Machine, copy_cost, dispatch_ns, node_cost
from .errors import InputError, did_you_mean
from .graph import COPY
from .plan.columns import follow, is_nop
from .plan.lanes import Lanes, lanes
from .plan.types import Plan
from .timeline import Timeline

__all__ = ["node_times", "simulate"]

_IN_FLIGHT = 8  # as Session.submit's bound


def simulate(
    plan: Plan,
    *,
    traced: bool = True,
    runs: int = 1,
    inputs: Collection[str] = (),
    in_flight: int = _IN_FLIGHT,
    host: Machine | None = None,
) -> Timeline:
    """The timeline of ``runs`` runs that are submitted at once.

    ``traced``: ops of stack ttnn are replayed from a trace, else the host enqueues each. ``inputs``: graph
    inputs that every run sets anew, so that their copies to devices are part of it. ``in_flight``: how many
    runs may have begun and not ended. ``host``: constants of the machine. Raises InputError.
    """
    for what, number in (("runs", runs), ("in_flight", in_flight)):
        if number < 1:
            raise InputError(f"{what} is {number}: simulate at least one run", got=number, wanted=1)
    found = lanes(plan, _positions(plan, inputs))
    kernel, dispatch, basis = node_times(plan, found.nid, traced=traced, host=host)
    time = kernel + dispatch
    start, cause = _schedule(found, time.tolist(), runs, in_flight)
    count = len(found.nid)
    return Timeline(
        plan, found.queues, np.tile(found.qid, runs), np.repeat(np.arange(runs, dtype=np.int32), count),
        np.tile(found.nid, runs), start, start + np.tile(time, runs), np.tile(dispatch, runs),
        np.tile(basis, runs), cause, critical_chain(plan, found, time), runs)


def _positions(plan: Plan, inputs: Collection[str]) -> list[int]:
    names = list(plan.graph.input_names)
    for name in inputs:
        if name not in names:
            raise InputError(f"the graph has no input {name!r}{did_you_mean(name, names)}", got=name,
                             wanted=names)
    return [names.index(name) for name in inputs]


# **************** how long ****************

def node_times(
    plan: Plan, nid: np.ndarray, *, traced: bool = True, host: Machine | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ns, ns of dispatch, basis as an index of costs.BASES) of each node in ``nid``, int64, int64, int8:
    equal calls are asked for once."""
    known: dict[tuple, tuple[int, int, int]] = {}
    rows = [known.get(key) or known.setdefault(key, _time(plan, n, traced, host))
            for n, key in zip(nid.tolist(), _keys(plan, nid), strict=True)]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].astype(np.int8)


def _keys(plan: Plan, nid: np.ndarray) -> list[tuple]:
    """Of each node what its time depends on: function, device; of each argument type, layout, device."""
    graph, place = plan.graph, plan.entry_did()
    # one number an entry: equal where type, layout and device are
    entry = (graph.type_id.astype(np.int64) * len(plan.layouts) + plan.layout_id) * len(plan.devices) + place
    read, made = entry[graph.in_eid].tolist(), entry.tolist()
    in_ptr, row_ptr = graph.in_ptr.tolist(), graph.row_ptr.tolist()
    func, did = graph.func_id.tolist(), plan.did.tolist()
    model = plan.model_id.tolist() if plan.model_id is not None else None
    return [(func[n], did[n], model[n] if model else -1, *read[in_ptr[n]:in_ptr[n + 1]], -1,
             *made[row_ptr[n]:row_ptr[n + 1]]) for n in nid.tolist()]


def _time(plan: Plan, nid: int, traced: bool, host: Machine | None) -> tuple[int, int, int]:
    graph = plan.graph
    reads = graph.in_eid[graph.in_ptr[nid]:graph.in_ptr[nid + 1]].tolist()
    makes = range(int(graph.row_ptr[nid]), int(graph.row_ptr[nid + 1]))
    device = plan.devices[plan.did[nid]]
    if graph.funcs[graph.func_id[nid]].name == COPY:
        source = plan.devices[plan.did[np.searchsorted(graph.row_ptr, reads[0], side="right") - 1]]
        cost = copy_cost(source, plan.layout(reads[0]), device, plan.layout(makes[0]),
                         graph.entry_type(makes[0]), host)
        begins = source == device
    else:
        fidelity = plan.numerics[plan.did[nid]].fidelity if plan.numerics else ""
        cost = node_cost(graph, nid, device, [plan.layout(e) for e in (*reads, *makes)], host=host,
                         fidelity=fidelity)
        begins = True
    start = dispatch_ns(device.descriptor, traced=traced) if begins else Cost(0.0, BASES[0], "no kernel")
    grounds = [one.basis for one in (cost, start) if one.cycles > 0] or [cost.basis]
    return round(cost.cycles), round(start.cycles), max(map(BASES.index, grounds))


# **************** when ****************

def _schedule(found: Lanes, time: list[int], runs: int, in_flight: int) -> tuple[np.ndarray, np.ndarray]:
    """(start, cause) of each event. What an event waits for stands before it, so one pass is enough."""
    count, qid = len(time), found.qid.tolist()
    pointers, wait = found.wait_ptr.tolist(), found.wait.tolist()
    waits = [wait[a:b] for a, b in pairwise(pointers)]
    start, cause, end = [0] * (count * runs), [-1] * (count * runs), [0] * (count * runs)
    last = [-1] * len(found.queues)         # the event that stands last on each queue
    over: list[int] = []                    # of each run the event that ended last
    for run in range(runs):
        base, latest = run * count, -1
        gate = over[run - in_flight] if run >= in_flight else -1
        for i, q in enumerate(qid):
            why = last[q]
            begin = end[why] if why >= 0 else 0
            for j in waits[i]:
                if end[base + j] > begin:
                    why, begin = base + j, end[base + j]
            if gate >= 0 and end[gate] > begin:
                why, begin = gate, end[gate]
            at = base + i
            start[at], cause[at], end[at], last[q] = begin, why, begin + time[i], at
            if latest < 0 or end[at] > end[latest]:
                latest = at
        over.append(latest if not over or latest < 0 or end[latest] >= end[over[-1]] else over[-1])
    return np.array(start, np.int64), np.array(cause, np.int64)


def critical_chain(plan: Plan, found: Lanes, time: np.ndarray) -> np.ndarray:
    """int64: rows of the longest chain of instructions that need each other's values, or the storage that
    another queue's used before."""
    needs = _needs(plan, found)
    ns, until, before = time.tolist(), [0] * len(time), [-1] * len(time)
    for i, row in enumerate(needs):
        for j in row:
            if before[i] < 0 or until[j] > until[before[i]]:
                before[i] = j
        until[i] = ns[i] + (until[before[i]] if before[i] >= 0 else 0)
    rows, at = [], int(np.argmax(until)) if until else -1
    while at >= 0:
        rows.append(at)
        at = before[at]
    return np.array(rows[::-1], np.int64)


def _needs(plan: Plan, found: Lanes) -> list[list[int]]:
    """The instructions whose values each reads, through __nop, and those that it waits for."""
    graph = plan.graph
    source = np.arange(graph.num_nodes)
    nops = np.flatnonzero(is_nop(graph) & (np.diff(graph.in_ptr) > 0))
    source[nops] = graph.entry_nid[graph.in_eid[graph.in_ptr[nops]]]
    row_of = np.full(graph.num_nodes, -1, np.int64)
    row_of[found.nid] = np.arange(len(found.nid))
    made_by = row_of[follow(source)[graph.entry_nid[graph.in_eid]]].tolist()
    in_ptr, pointers, wait = graph.in_ptr.tolist(), found.wait_ptr.tolist(), found.wait.tolist()
    return [[j for j in made_by[in_ptr[n]:in_ptr[n + 1]] if j >= 0] + wait[pointers[i]:pointers[i + 1]]
            for i, n in enumerate(found.nid.tolist())]
