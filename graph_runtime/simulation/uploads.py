"""Inputs that every run sets anew become instructions of the run, by the same rule as in
plan/placing/problem.py.

The inputs come from the plan's first host that is the caller's machine or, if the plan has no such host, from
the caller's machine, wherever the plan keeps them. An input takes one copy to each other device that reads
it, on that device's queue copy_in, before its first reader there; on the host it takes no time. If a device
changes the layout of an input when it is set, that change is part of the run, too.
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


def home_of(plan: Plan) -> Device:
    """The device from which the inputs come that every run sets anew; it is the caller's machine."""
    return next((d for d in plan.devices if d.is_callers_host), None) or parse("cpu:0")


def with_uploads(
    plan: Plan, found: Lanes, positions: Sequence[int], costs: CostModel
) -> tuple[Lanes, dict[int, Cost]]:
    """Pair of the lanes of a run, with a row for each upload of the inputs at ``positions``, and {row: cost
    of the upload}. The node of such a row is the copy that the plan makes when the input is set, or, if there
    is none, the input."""
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
    used = list(dict.fromkeys(qid.tolist()))  # queues in order of first use
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
    """For each upload and each relayout of an input: the node before which it runs, the node of its row, and
    the role of its queue."""
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
    """The node before which an input for ``reader`` is uploaded: the first of the copies that the planner put
    before ``reader`` for later inputs of ``reader``, else ``reader`` itself. So the copies for one node
    follow the order of its inputs."""
    graph, begin = plan.graph, reader
    copies = is_copy(graph) & (plan.origin < 0)
    while begin > 0 and copies[begin - 1]:
        begin -= 1
    reads = graph.in_eid[graph.in_ptr[reader] : graph.in_ptr[reader + 1]]
    later = graph.entry_nid[reads[np.flatnonzero(reads == eid)[0] + 1 :]]
    return int(later[(later >= begin) & copies[later] & ~plan.at_input[later]].min(initial=reader))
