"""Placement -> PlacedGraph: a __copy wherever a node's input lives on another device.

One copy serves every consumer of an entry on a device, a value is never copied to where it already lives, and
a graph that has its copies is handed on as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..ir.graph import COPY, Func, Graph, Hints
from .columns import follow, is_copy, ragged, slot_nid, starts
from .types import PlacedGraph, Placement

__all__ = ["insert_transfers"]

COPY_FUNC = Func(
    COPY, None, {}, 1, 1, raw={"func_name": COPY, "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}
)


def insert_transfers(placement: Placement) -> PlacedGraph:
    """Insert the copies that the placement asks for, each right before its first consumer.

    A copy whose source is a graph input runs when that input is set (``at_input``), unless that is streamed,
    or an output is written into that input's buffer, which changes it on every run. Copies of the file
    run as written, at_input where the file says so.
    """
    graph, did = placement.graph, placement.did
    at_input = np.zeros(graph.num_nodes, bool)
    at_input[list(graph.hints.at_input)] = True
    placed = PlacedGraph(
        graph,
        placement.devices,
        did,
        np.arange(graph.num_nodes),
        at_input,
        placement.cause_id,
        placement.causes,
        placement.warnings,
    )
    entry_did = np.repeat(did, np.diff(graph.row_ptr))
    reader = slot_nid(graph)
    crossing = np.flatnonzero((entry_did[graph.in_eid] != did[reader]) & ~is_copy(graph)[reader])
    if not len(crossing):
        return placed
    chosen = set(placement.pricing.streamed)
    names = zip(graph.input_names, graph.input_eids.tolist(), strict=True)
    streamed = [eid for name, eid in names if name in chosen]
    return _insert(placed, _choose(placed, entry_did, crossing, reader[crossing]), streamed)


@dataclass(slots=True)
class _Insertions:
    """What to insert and which inputs to change. Entries >= num_entries are those of the new copies, in
    order."""

    source: list[int] = field(default_factory=list)  # eid in the old graph
    target: list[int] = field(default_factory=list)  # did
    before: list[int] = field(default_factory=list)  # nid of the first consumer
    slots: list[int] = field(default_factory=list)  # elements of in_eid to change ...
    eids: list[int] = field(default_factory=list)  # ... to these entries


def _choose(
    placed: PlacedGraph, entry_did: np.ndarray, slots: np.ndarray, readers: np.ndarray
) -> _Insertions:
    """Walk the crossing inputs in node order and find or make the copy that each reads."""
    graph, copies = placed.graph, _Insertions(slots=slots.tolist())
    value, made = _values(graph)
    sources, count, made_by = graph.in_eid[slots], graph.num_entries, graph.entry_nid.tolist()
    held = np.concatenate([value[sources], made])
    lives: dict[tuple[int, int], int] = {}  # (value, did) -> entry that holds it there
    for eid, key in zip(
        held.tolist(), zip(value[held].tolist(), entry_did[held].tolist(), strict=True), strict=True
    ):
        lives.setdefault(key, eid)
    rows = zip(
        sources.tolist(), value[sources].tolist(), placed.did[readers].tolist(), readers.tolist(), strict=True
    )
    for eid, of, did, nid in rows:
        at = lives.get((of, did))
        if at is None or (at < count and made_by[at] >= nid):  # a later copy of the file is no use
            at = lives[of, did] = count + len(copies.source)
            copies.source.append(eid)
            copies.target.append(did)
            copies.before.append(nid)
        copies.eids.append(at)
    return copies


def _values(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The entry each entry is a copy of (through the file's copies that keep the type), and those copies'
    entries.

    An at_input copy holds what its input was when it was set: it is a value of its own if that input is
    written later.
    """
    parent = np.arange(graph.num_entries)
    nids = np.flatnonzero(is_copy(graph))
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    same = (graph.type_id[made] == graph.type_id[source]) & ~np.isin(source, _written_inputs(graph))
    parent[made[same]] = source[same]
    return follow(parent), made[same]


def _written_inputs(graph: Graph) -> np.ndarray:
    """Entries of the inputs that an output is written into."""
    return graph.input_eids[[i for _, i in graph.hints.aliases if 0 <= i < len(graph.inputs)]]


# **************** the new graph ****************


def _insert(placed: PlacedGraph, copies: _Insertions, streamed: list[int]) -> PlacedGraph:
    """Renumber: old nodes keep their order, copy k comes before old node ``before[k]`` (ascending).
    ``streamed``: entries of inputs whose copies every run makes."""
    graph = placed.graph
    before = np.array(copies.before, np.int64)
    n, extra = graph.num_nodes, len(before)
    old_nid = np.arange(n) + np.searchsorted(before, np.arange(n), side="right")
    new_nid = before + np.arange(extra)
    source = np.array(copies.source, np.int64)
    names, causes = _describe(placed, copies)

    def merged(old, new, dtype):
        column = np.empty(n + extra, dtype)
        column[old_nid], column[new_nid] = old, new
        return column

    at_input = np.isin(source, graph.input_eids) & ~np.isin(source, [*_written_inputs(graph), *streamed])
    graph = _rebuild(graph, copies, old_nid, new_nid, tuple(merged(graph.names, names, object)))
    cause_id = merged(placed.cause_id, len(placed.causes) + np.arange(extra), np.int32)
    return PlacedGraph(
        graph,
        placed.devices,
        merged(placed.did, copies.target, np.int32),
        merged(placed.origin, -1, np.int64),
        merged(placed.at_input, at_input, bool),
        cause_id,
        (*placed.causes, *causes),
        placed.warnings,
    )


def _describe(placed: PlacedGraph, copies: _Insertions) -> tuple[list[str], list[str]]:
    """Unique names ("x_copy_tt0") and causes of the new copies."""
    graph, devices = placed.graph, [str(d) for d in placed.devices]
    short = [str(d).replace("/", "_").replace(":", "") for d in placed.devices]
    source = np.array(copies.source, np.int64)
    nids = graph.entry_nid[source]
    rows = zip(
        nids.tolist(),
        (source - graph.row_ptr[nids]).tolist(),
        placed.did[nids].tolist(),
        copies.target,
        copies.before,
        strict=True,
    )
    taken, names, causes = set(graph.names), [], []
    used: dict[str, int] = {}
    for nid, index, here, there, consumer in rows:
        name = base = f"{graph.names[nid]}{f'_{index}' if index else ''}_copy_{short[there]}"
        while name in taken:
            used[base] = used.get(base, 1) + 1
            name = f"{base}_{used[base]}"
        taken.add(name)
        names.append(name)
        causes.append(
            f"{graph.names[consumer]!r} on {devices[there]} reads {graph.names[nid]!r}, "
            f"which lives on {devices[here]}"
        )
    return names, causes


def _rebuild(
    graph: Graph, copies: _Insertions, old_nid: np.ndarray, new_nid: np.ndarray, names: tuple[str, ...]
) -> Graph:
    fid = next(
        (i for i, f in enumerate(graph.funcs) if f.name == COPY and f.num_inputs == 1), len(graph.funcs)
    )
    funcs = graph.funcs if fid < len(graph.funcs) else (*graph.funcs, COPY_FUNC)
    total = len(names)
    func_id = np.full(total, fid, np.int32)
    func_id[old_nid] = graph.func_id
    row_ptr, old_eid = _spread(graph.row_ptr, old_nid, total)
    in_ptr, old_slot = _spread(graph.in_ptr, old_nid, total)
    new_eid = row_ptr[new_nid]
    renumber = np.concatenate([old_eid, new_eid])
    reads = graph.in_eid.copy()
    reads[copies.slots] = copies.eids
    in_eid = np.empty(in_ptr[-1], np.int64)
    in_eid[old_slot], in_eid[in_ptr[new_nid]] = renumber[reads], old_eid[copies.source]
    type_id = np.empty(row_ptr[-1], graph.type_id.dtype)
    type_id[old_eid], type_id[new_eid] = graph.type_id, graph.type_id[copies.source]
    deps = {int(old_nid[k]): tuple(old_nid[list(v)].tolist()) for k, v in graph.control_deps.items()}
    return replace(
        graph,
        names=names,
        func_id=func_id,
        funcs=funcs,
        row_ptr=row_ptr,
        in_ptr=in_ptr,
        in_eid=in_eid,
        type_id=type_id,
        inputs=old_nid[graph.inputs],
        outputs=old_eid[graph.outputs],
        hints=_move_hints(graph.hints, old_eid, int(row_ptr[-1]), old_nid),
        extra_columns={
            name: (tag, _move_column(value, old_eid, int(row_ptr[-1])))
            for name, (tag, value) in graph.extra_columns.items()
        },
        control_deps=deps,
    )


def _spread(ptr: np.ndarray, old_nid: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Row pointers with a row of one element for each new node, and where each old element went."""
    counts = np.ones(total, np.int64)
    counts[old_nid] = np.diff(ptr)
    moved = starts(counts)
    return moved, ragged(moved[old_nid], np.diff(ptr))


def _move_hints(hints: Hints, old_eid: np.ndarray, total: int, old_nid: np.ndarray) -> Hints:
    """The hints in the new numbering; -1 where the file says nothing, as for every new copy."""

    def moved(column):
        if column is None:
            return None
        wide = np.full(total, -1, np.int64)
        wide[old_eid] = column
        return wide

    scope = hints.storage_scope
    if scope is not None:
        wide = np.full(total, "", object)
        wide[old_eid] = scope
        scope = tuple(wide)
    return replace(
        hints,
        device_type=moved(hints.device_type),
        device_id=moved(hints.device_id),
        storage_id=moved(hints.storage_id),
        storage_scope=scope,
        layout=moved(hints.layout),
        at_input=tuple(int(old_nid[n]) for n in hints.at_input),
    )


def _move_column(column, old_eid: np.ndarray, total: int):
    """A column that nothing reads keeps its elements, 0 for the new entries; one that has not one an entry
    stays."""
    if not isinstance(column, tuple) or len(column) != len(old_eid):
        return column
    wide = np.zeros(total, np.int64)
    wide[old_eid] = column
    return tuple(wide.tolist())
