"""The same graph arranged in another way, for comparing runs: all values kept, every node alone, other
devices, other storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.machine.devices import Device
from ..ir.graph import Graph, Hints
from ..plan.columns import starts
from ..plan.types import Plan

__all__ = ["as_placed", "cut", "keep_all", "permuted", "replanned"]


def as_placed(graph: Graph, planned: Plan) -> Graph:
    """The loaded graph with the plan's device of each node as columns, so that a rearranged graph keeps
    them."""
    did = np.zeros(graph.num_nodes, np.int64)
    loaded = planned.origin >= 0
    did[planned.origin[loaded]] = planned.did[loaded]
    types = np.array([d.dl_type for d in planned.devices])
    ordinals = np.array([types[:i].tolist().count(t) for i, t in enumerate(types.tolist())])
    entry_did = did[graph.entry_nid]
    return replace(
        graph, hints=replace(graph.hints, device_type=types[entry_did], device_id=ordinals[entry_did])
    )


def replanned(graph: Graph) -> Graph:
    """Without the file's storage, layouts and aliases: they are planned anew. Devices stay."""
    hints = graph.hints
    return replace(graph, hints=Hints(device_type=hints.device_type, device_id=hints.device_id))


def keep_all(graph: Graph) -> Graph:
    """Every entry is an output, by eid, so that no storage is used twice."""
    return replace(replanned(graph), outputs=np.arange(graph.num_entries, dtype=np.int64))


def permuted(graph: Graph, devices: Sequence[Device], order: Sequence[int]) -> Graph:
    """What was on device i of the list is on device order[i]. The graph has device columns."""
    types = np.array([d.dl_type for d in devices])
    ordinals = np.array([types[:i].tolist().count(t) for i, t in enumerate(types.tolist())])
    column = np.zeros(graph.num_entries, np.int64)
    for i in range(len(devices)):
        here = (graph.hints.device_type == types[i]) & (graph.hints.device_id == ordinals[i])
        column[here] = order[i]
    return replace(graph, hints=replace(graph.hints, device_type=types[column], device_id=ordinals[column]))


def cut(graph: Graph) -> tuple[Graph, dict[str, int]]:
    """Every node alone: what it reads is a graph input. Returns the graph and {input name: eid in ``graph``
    that it stands for}.

    The outputs are the entries that functions make, in their order; an input lives on the device of the entry
    that it stands for.
    """
    read = np.unique(graph.in_eid)
    feeds = {f"entry{eid}": int(eid) for eid in read.tolist()}
    calls = np.flatnonzero(graph.func_id >= 0)
    made = np.flatnonzero((graph.func_id >= 0)[graph.entry_nid])
    old_eid = np.concatenate([read, made])
    counts = np.concatenate([np.ones(len(read), np.int64), np.diff(graph.row_ptr)[calls]])
    reads = [graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]] for nid in calls.tolist()]
    sizes = np.concatenate([np.zeros(len(read), np.int64), [len(r) for r in reads]]).astype(np.int64)
    hints = graph.hints
    columns: dict[str, Any] = {
        name: None if column is None else np.asarray(column)[old_eid]
        for name, column in (("device_type", hints.device_type), ("device_id", hints.device_id))
    }
    alone = Graph(
        names=(*feeds, *(graph.names[nid] for nid in calls.tolist())),
        func_id=np.concatenate([np.full(len(read), -1), graph.func_id[calls]]).astype(np.int32),
        funcs=graph.funcs,
        row_ptr=starts(counts),
        in_ptr=starts(sizes),
        in_eid=np.searchsorted(read, np.concatenate([*reads, np.zeros(0, np.int64)])).astype(np.int64),
        type_id=graph.type_id[old_eid],
        types=graph.types,
        inputs=np.arange(len(read), dtype=np.int64),
        outputs=np.arange(len(read), len(old_eid), dtype=np.int64),
        hints=Hints(**columns),
    )
    return alone, feeds
