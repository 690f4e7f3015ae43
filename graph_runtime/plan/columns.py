"""Arithmetic on columns that the passes share: ragged ranges and interning. The checker has its own."""

from __future__ import annotations

import numpy as np

from ..ir.graph import COPY, NOP, Graph

__all__ = [
    "first_of",
    "follow",
    "func_mask",
    "input_behind",
    "intern",
    "is_copy",
    "is_nop",
    "ragged",
    "slot_nid",
    "starts",
]


def starts(counts: np.ndarray) -> np.ndarray:
    """int64 [n + 1]: 0 and the running sum of counts [n]."""
    total = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=total[1:])
    return total


def ragged(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """first[0] .. first[0] + counts[0] - 1, then first[1] .., one after another."""
    begin = starts(counts)
    return np.arange(begin[-1]) + np.repeat(first - begin[:-1], counts)


def intern(keys: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, ascending, and the row of each key in them. Keys lie in 0 .. bound - 1.

    A table where it is small, as np.unique sorts.
    """
    if bound > 8 * len(keys) + 4096:
        return np.unique(keys, return_inverse=True)
    used = np.zeros(bound, bool)
    used[keys] = True
    distinct = np.flatnonzero(used)
    row = np.empty(bound, np.int32)
    row[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, row[keys]


def first_of(row: np.ndarray, count: int) -> np.ndarray:
    """int64 [count]: where each of the rows 0 .. count - 1 first occurs in ``row``, which has all of them."""
    first = np.empty(count, np.int64)
    first[row[::-1]] = np.arange(len(row) - 1, -1, -1)
    return first


def follow(parent: np.ndarray) -> np.ndarray:
    """The root of each element: parent [n] points to a smaller index or to itself; chains of n take log n
    rounds."""
    while True:
        further = parent[parent]
        if np.array_equal(further, parent):
            return parent
        parent = further


def slot_nid(graph: Graph) -> np.ndarray:
    """int64 [inputs of all nodes]: the node that reads each element of graph.in_eid."""
    return np.repeat(np.arange(graph.num_nodes), np.diff(graph.in_ptr))


def input_behind(graph: Graph, copies: np.ndarray) -> np.ndarray:
    """int64 [copies]: the null node that the value of each of these nodes comes from, through copies of
    copies and reshapes."""
    entry_nid = graph.entry_nid
    source = copies
    while True:
        made = graph.func_id[source] >= 0
        if not made.any():
            return source
        source = source.copy()
        source[made] = entry_nid[graph.in_eid[graph.in_ptr[source[made]]]]


def func_mask(graph: Graph, name: str) -> np.ndarray:
    """bool [nodes]: the node calls the function of that name."""
    called = np.array([f.name == name for f in graph.funcs] + [False])
    return called[graph.func_id]  # -1, an input, reads the last


def is_copy(graph: Graph) -> np.ndarray:
    """bool [nodes]: the node is a __copy."""
    return func_mask(graph, COPY)


def is_nop(graph: Graph) -> np.ndarray:
    """bool [nodes]: the node is a __nop."""
    return func_mask(graph, NOP)
