"""Inputs that every run sets anew, as instructions of the run: the rule of plan/placing/problem.py.

They come from the first host of the plan, else from the caller's, wherever the plan keeps them: one copy to
each other device that reads them, on its queue copy_in, before the first node there that reads; on the host
they are free. Where a device gives them another layout when they are set, that is part of the run, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.machine.devices import Device, parse
from ..base.machine.layout import ROW_MAJOR, Layout
from ..costs import Cost, CostModel, ask
from ..plan.columns import input_behind, is_copy, slot_nid
from ..plan.queues.lanes import COMPUTE, COPY_IN, Lanes
from ..plan.types import Plan

__all__ = ["home_of", "with_uploads"]


def home_of(plan: Plan) -> Device:
    """Where what every run sets anew comes from: the caller's machine."""
    return next((d for d in plan.devices if d.is_callers_host), None) or parse("cpu:0")


def with_uploads(
    plan: Plan, found: Lanes, positions: Sequence[int], costs: CostModel
) -> tuple[Lanes, dict[int, Cost]]:
    """Lanes of a run with a row for each upload of the inputs at ``positions``, and {row: its cost}. The node
    of such a row is the copy that the plan makes when the input is set, or the input."""
    rows = sorted(_uploads(plan, positions))
    if not rows:
        return found, {}
    graph, queues = plan.graph, list(found.queues)
    home = home_of(plan)
    place = np.searchsorted(found.nid, [before for before, _, _ in rows])
    nids = np.array([nid for _, nid, _ in rows], np.int64)
    qids, found_costs = [], {}
    for i, (_, nid, role) in enumerate(rows):
        did = int(plan.did[nid])
        queue = (did, role)
        if queue not in queues:
            queues.append(queue)
        qids.append(queues.index(queue))
        if role == COMPUTE:
            continue
        eid = int(graph.row_ptr[nid])
        type_, layout = graph.entry_type(eid), plan.layout(eid)
        plain = Layout(home.main_memory.name, ROW_MAJOR, layout.format)
        what = f"a copy of {type_} from {home} to {plan.devices[did]}"
        found_costs[int(place[i]) + i] = ask(costs.copy, what, home, plain, plan.devices[did], layout, type_)
    new_of = np.arange(len(found.nid)) + np.searchsorted(place, np.arange(len(found.nid)), side="right")
    counts = np.insert(np.diff(found.wait_ptr), place, 0)
    qid = np.insert(found.qid, place, np.array(qids, found.qid.dtype))
    used = list(dict.fromkeys(qid.tolist()))  # queues are listed by first use
    rank = np.zeros(len(queues), qid.dtype)
    rank[used] = np.arange(len(used))
    lanes = Lanes(
        tuple(queues[q] for q in used),
        np.insert(found.nid, place, nids),
        rank[qid],
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        new_of[found.wait] if len(found.wait) else found.wait,
        found.warnings,
    )
    return lanes, found_costs


def _uploads(plan: Plan, positions: Sequence[int]) -> list[tuple[int, int, str]]:
    """(node before which it runs, node that stands for it, role of its queue) of each upload and relayout."""
    graph = plan.graph
    hosts = [did for did, d in enumerate(plan.devices) if d.is_callers_host]
    home = hosts[0] if hosts else -1
    written = {i for _, i in plan.aliases}
    chosen = [int(graph.inputs[p]) for p in positions if p not in written]
    copies = np.flatnonzero(plan.at_input)
    copies = copies[np.isin(input_behind(graph, copies), chosen)] if len(copies) else copies
    source = plan.did[graph.entry_nid[graph.in_eid[graph.in_ptr[copies]]]]
    here = source == plan.did[copies]
    reader, runs = slot_nid(graph), ~plan.at_input
    runs[copies[here]] = True
    found = [(int(nid), int(nid), COMPUTE) for nid in copies[here].tolist()]
    for nid in [*chosen, *copies[~here].tolist()]:
        reads = reader[(graph.in_eid == graph.row_ptr[nid]) & runs[reader]]
        if len(reads) and plan.did[nid] != home:
            found.append((_turn(plan, int(reads.min()), int(graph.row_ptr[nid])), int(nid), COPY_IN))
    return found


def _turn(plan: Plan, reader: int, eid: int) -> int:
    """The node before which an input is brought that ``reader`` reads: copies for one node go in the order of
    its inputs, so it is the first of those that the planner put there for later inputs, else the node."""
    graph, begin = plan.graph, reader
    copies = is_copy(graph) & (plan.origin < 0)
    while begin > 0 and copies[begin - 1]:
        begin -= 1
    reads = graph.in_eid[graph.in_ptr[reader] : graph.in_ptr[reader + 1]]
    later = graph.entry_nid[reads[np.flatnonzero(reads == eid)[0] + 1 :]]
    return int(later[(later >= begin) & copies[later] & ~plan.at_input[later]].min(initial=reader))
