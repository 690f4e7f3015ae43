"""Columns of a graph for the passes: ragged ranges, interning, and lifetimes (which value is in each entry's
bytes, and for how long). The checker has its own such functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..ir.graph import COPY, NOP, Graph, Hints
from ..ir.ops import registry


def starts(counts: np.ndarray) -> np.ndarray:
    """int64 [n + 1]: 0, followed by the running sums of ``counts`` [n]."""
    total = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=total[1:])
    return total


def ragged(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers first[0] .. first[0] + counts[0] - 1, then first[1] .. first[1] + counts[1] - 1, and so
    on."""
    begin = starts(counts)
    return np.arange(begin[-1]) + np.repeat(first - begin[:-1], counts)


def intern(keys: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, ascending, and each key's row in them. Keys lie in 0 .. bound - 1. Small bounds use
    a table, because np.unique sorts."""
    if bound > 8 * len(keys) + 4096:
        return np.unique(keys, return_inverse=True)
    used = np.zeros(bound, bool)
    used[keys] = True
    distinct = np.flatnonzero(used)
    row = np.empty(bound, np.int32)
    row[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, row[keys]


def first_of(row: np.ndarray, count: int) -> np.ndarray:
    """int64 [count]: the first position of each row 0 .. count - 1 in ``row``, which contains every row."""
    first = np.empty(count, np.int64)
    first[row[::-1]] = np.arange(len(row) - 1, -1, -1)
    return first


def follow(parent: np.ndarray) -> np.ndarray:
    """The root of each element: parent [n] points to a smaller index or, for a root, to itself. Chains of n
    elements take log n rounds."""
    while True:
        further = parent[parent]
        if np.array_equal(further, parent):
            return parent
        parent = further


def slot_nid(graph: Graph) -> np.ndarray:
    """int64 [inputs of all nodes]: the node that reads each element of graph.in_eid."""
    return np.repeat(np.arange(graph.num_nodes), np.diff(graph.in_ptr))


def input_behind(graph: Graph, copies: np.ndarray) -> np.ndarray:
    """int64 [copies]: the null node from which the value of each of the nodes ``copies`` comes, through
    copies and reshapes."""
    entry_nid = graph.entry_nid
    source = copies
    while True:
        made = graph.func_id[source] >= 0
        if not made.any():
            return source
        source = source.copy()
        source[made] = entry_nid[graph.in_eid[graph.in_ptr[source[made]]]]


def move_hints(hints: Hints, move: Callable[[Any, Any], Any], at: np.ndarray) -> Hints:
    """The ``hints`` of a graph after its nodes were put in another order. ``move(column, empty)`` moves a
    column over entries, with ``empty`` for entries that the file does not have; ``at`` int64 [nodes]: the new
    place of each node.
    """
    names = "device_type", "device_id", "storage_id", "layout"
    columns = {name: getattr(hints, name) for name in names}
    moved: dict[str, Any] = {
        name: None if column is None else move(column, -1) for name, column in columns.items()
    }
    scope = hints.storage_scope
    scope = scope and tuple(move(np.array(scope, object), ""))
    return replace(
        hints, storage_scope=scope, at_input=tuple(sorted(at[list(hints.at_input)].tolist())), **moved
    )


def func_mask(graph: Graph, name: str) -> np.ndarray:
    """bool [nodes]: whether the node calls the function of that name."""
    called = np.array([f.name == name for f in graph.funcs] + [False])
    return called[graph.func_id]  # an input has func_id -1 and reads the last element


def is_copy(graph: Graph) -> np.ndarray:
    """bool [nodes]: whether the node is a __copy."""
    return func_mask(graph, COPY)


def is_nop(graph: Graph) -> np.ndarray:
    """bool [nodes]: whether the node is a __nop."""
    return func_mask(graph, NOP)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """``of`` int64 [entries]: the first entry of each entry's value. The other two columns are valid for
    first entries only. ``born`` int64 [entries]: the nid of the node that writes the value, -1 for a graph
    input or a copy made when an input is set. ``last`` int64 [entries]: the last nid that needs the value,
    num_nodes for outputs and for values that must never be overwritten (inputs, at_input copies)."""

    of: np.ndarray
    born: np.ndarray
    last: np.ndarray

    @property
    def firsts(self) -> np.ndarray:
        """int64 [values]: the first entry of each value, ascending."""
        return np.flatnonzero(self.of == np.arange(len(self.of)))


def find_values(graph: Graph, at_input: np.ndarray) -> Values:
    """The values of a graph and their lifetimes in node order. ``at_input`` bool [nodes]: whether the node
    runs when an input is set."""
    parent = np.arange(graph.num_entries)
    nops = np.flatnonzero(is_nop(graph) & (np.diff(graph.row_ptr) == 1) & (np.diff(graph.in_ptr) == 1))
    if len(nops):
        parent[graph.row_ptr[nops]] = graph.in_eid[graph.in_ptr[nops]]
        parent = follow(parent)
    made_by = graph.entry_nid
    born, last = made_by.copy(), made_by.copy()
    last[parent[graph.in_eid]] = slot_nid(graph)  # readers ascend, so the last is kept
    last[parent[graph.outputs]] = graph.num_nodes
    early = ((graph.func_id < 0) | at_input)[made_by]
    born[early], last[early] = -1, graph.num_nodes
    return Values(parent, born, last)


def inplace_slots(graph: Graph, inplace: Mapping[str, tuple[int, ...]] | None) -> np.ndarray:
    """bool [inputs of all nodes]: whether output 0 may be written over this input, if types and lifetimes
    allow it.

    ``inplace``: func_name -> inputs, from the libraries' manifests; the manifests take precedence over the op
    registry.
    """
    allowed = [_allowed(f, inplace or {}) for f in graph.funcs]
    if not any(allowed):
        return np.zeros(len(graph.in_eid), bool)
    most = 1 + max((i for row in allowed for i in row), default=0)
    table = np.zeros((len(graph.funcs) + 1, most + 1), bool)  # the last column is for inputs beyond ``most``
    for fid, row in enumerate(allowed):
        table[fid, list(row)] = True
    reader = slot_nid(graph)
    position = np.minimum(np.arange(len(graph.in_eid)) - graph.in_ptr[reader], most)
    return table[graph.func_id[reader], position]


def _allowed(func, inplace: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    if func.name in (COPY, NOP):
        return ()
    op = registry.get(func.op) if func.op else None
    return tuple(inplace.get(func.name, op.inplace if op else ()))


def most_live(lower: np.ndarray, upper: np.ndarray, size: np.ndarray) -> int:
    """The largest number of bytes that live at the same time. A lifetime includes its lower time, but not its
    upper time."""
    if not len(size):
        return 0
    times = np.concatenate([upper, lower])  # at equal times an end comes before a begin
    change = np.concatenate([-size, size])
    order = np.argsort(times, kind="stable")
    return int(change[order].cumsum().max())
