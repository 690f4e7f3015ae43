"""Placement -> PlacedGraph: a __copy for every node input that lies on another device than the node.

One copy serves every consumer of an entry on a device. A value is never copied to a device that has it. A
graph that already has its copies is unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..ir.graph import COPY, Func, Graph
from .columns import follow, is_copy, move_hints, ragged, slot_nid, starts
from .types import PlacedGraph, Placement

COPY_FUNC = Func(
    COPY, None, {}, 1, 1, raw={"func_name": COPY, "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}
)


def insert_transfers(placement: Placement) -> PlacedGraph:
    """Insert the copies that the placement needs, each right before its first consumer.

    A copy of a graph input runs when that input is set (``at_input``), unless the input is streamed, or an
    output is written into the input's buffer, which changes the input on every run. Copies in the file run as
    the file says, at_input or on every run.
    """
    graph, did, placed = placement.graph, placement.did, PlacedGraph.of(placement)
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
    """The copies to insert and the inputs to change. Entries from num_entries on are those of the new copies,
    in order."""

    source: list[int] = field(default_factory=list)  # eid of each copy's source in the old graph
    target: list[int] = field(default_factory=list)  # did of each copy
    before: list[int] = field(default_factory=list)  # nid of the first consumer of each copy
    slots: list[int] = field(default_factory=list)  # elements of in_eid to change
    eids: list[int] = field(default_factory=list)  # new entries of these elements


def _choose(
    placed: PlacedGraph, entry_did: np.ndarray, slots: np.ndarray, readers: np.ndarray
) -> _Insertions:
    """Walk the inputs that come from another device, in node order; find or make the copy that each of them
    reads."""
    graph, copies = placed.graph, _Insertions(slots=slots.tolist())
    value, made = _values(graph)
    sources, count, made_by = graph.in_eid[slots], graph.num_entries, graph.entry_nid.tolist()
    held = np.concatenate([value[sources], made])
    lives: dict[tuple[int, int], int] = {}  # {(value, did): entry that holds the value on the device}
    for eid, key in zip(
        held.tolist(), zip(value[held].tolist(), entry_did[held].tolist(), strict=True), strict=True
    ):
        lives.setdefault(key, eid)
    rows = zip(
        sources.tolist(), value[sources].tolist(), placed.did[readers].tolist(), readers.tolist(), strict=True
    )
    for eid, of, did, nid in rows:
        at = lives.get((of, did))
        if at is None or (at < count and made_by[at] >= nid):  # the file's copy comes too late
            at = lives[of, did] = count + len(copies.source)
            copies.source.append(eid)
            copies.target.append(did)
            copies.before.append(nid)
        copies.eids.append(at)
    return copies


def _values(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Pair of two arrays: for each entry, the entry of the value that it copies, through copies of the file
    that keep the type; and the entries of those copies.

    A copy of an input into which an output is written counts as a value of its own, because the copy keeps
    the bytes as they were set.
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
    """The graph with the copies. Old nodes keep their order; copy k comes before old node ``before[k]``
    (ascending). ``streamed``: entries of inputs that every run copies."""
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

    def spread(column: np.ndarray, empty: object) -> np.ndarray:
        wide = np.full(row_ptr[-1], empty, object if empty == "" else np.int64)
        wide[old_eid] = column
        return wide

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
        hints=move_hints(graph.hints, spread, old_nid),
        extra_columns={
            name: (tag, _move_column(value, old_eid, int(row_ptr[-1])))
            for name, (tag, value) in graph.extra_columns.items()
        },
        control_deps=deps,
    )


def _spread(ptr: np.ndarray, old_nid: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """(row pointers with a row of one element for each new node, new position of each old element)."""
    counts = np.ones(total, np.int64)
    counts[old_nid] = np.diff(ptr)
    moved = starts(counts)
    return moved, ragged(moved[old_nid], np.diff(ptr))


def _move_column(column, old_eid: np.ndarray, total: int):
    """Move a column that no code reads to the new graph. If the column has a number per entry, each number
    stays with its entry, and new entries get 0. A column of another length is unchanged."""
    if not isinstance(column, tuple) or len(column) != len(old_eid):
        return column
    wide = np.zeros(total, np.int64)
    wide[old_eid] = column
    return tuple(wide.tolist())
