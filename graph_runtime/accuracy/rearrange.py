"""The same graph in other arrangements, to compare runs: with all values kept, with every node alone, on
other devices, with other storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.machine.devices import Device
from ..ir.graph import Graph, Hints
from ..plan.columns import starts
from ..plan.types import Plan


def as_placed(graph: Graph, planned: Plan) -> Graph:
    """The loaded graph with the plan's device of each node in its device columns, so that a rearranged graph
    keeps these devices."""
    did = np.zeros(graph.num_nodes, np.int64)
    loaded = planned.origin >= 0
    did[planned.origin[loaded]] = planned.did[loaded]
    return _on(graph, planned.devices, did[graph.entry_nid])


def _numbers(devices: Sequence[Device]) -> tuple[np.ndarray, np.ndarray]:
    """(type of each device, number of each device among the devices of its type)."""
    types = [d.dl_type for d in devices]
    return np.array(types), np.array([types[:i].count(t) for i, t in enumerate(types)])


def _on(graph: Graph, devices: Sequence[Device], did: np.ndarray) -> Graph:
    """The graph with the entries on given devices. ``did``: for each entry the index of its device in the
    list."""
    types, ordinals = _numbers(devices)
    return replace(graph, hints=replace(graph.hints, device_type=types[did], device_id=ordinals[did]))


def replanned(graph: Graph) -> Graph:
    """The graph without the file's storage, layouts and aliases, so that they are planned anew. Devices are
    kept."""
    hints = graph.hints
    return replace(graph, hints=Hints(device_type=hints.device_type, device_id=hints.device_id))


def keep_all(graph: Graph) -> Graph:
    """The graph with every entry as an output, in order of eid, so that no storage is reused."""
    return replace(replanned(graph), outputs=np.arange(graph.num_entries, dtype=np.int64))


def permuted(graph: Graph, devices: Sequence[Device], order: Sequence[int]) -> Graph:
    """The graph with the nodes of device i moved to device order[i]; i and order[i] are indices in the device
    list. The graph must have device columns."""
    types, ordinals = _numbers(devices)
    column = np.zeros(graph.num_entries, np.int64)
    for i in range(len(devices)):
        here = (graph.hints.device_type == types[i]) & (graph.hints.device_id == ordinals[i])
        column[here] = order[i]
    return _on(graph, devices, column)


def cut(graph: Graph) -> tuple[Graph, dict[str, int]]:
    """(the graph cut so that every input of a node is a graph input, {name of such an input: eid of the entry
    of ``graph`` that the input replaces}).

    The outputs are the entries that functions make, in order. An input is on the device of the entry that it
    replaces.
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
