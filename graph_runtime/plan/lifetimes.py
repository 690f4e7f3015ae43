"""Which value holds which bytes how long: entries that a __nop makes one value, and values that may take
over a dying one's buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..ir.graph import COPY, NOP, Graph
from ..ir.ops import registry
from .columns import follow, is_nop, slot_nid
from .types import LaidOutGraph

__all__ = ["Values", "find_values", "inplace_slots", "take_over"]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """``of`` int64 [entries]: the first entry of the value each entry is. For those first entries: ``born``
    int64 [entries], the nid that writes it, -1 for a graph input or a copy made when one is set; ``last``
    int64 [entries], the last nid that needs it, num_nodes for what must never be overwritten (inputs,
    at_input copies) and for outputs."""

    of: np.ndarray
    born: np.ndarray
    last: np.ndarray

    @property
    def firsts(self) -> np.ndarray:
        """int64 [values]: the first entry of each value, ascending."""
        return np.flatnonzero(self.of == np.arange(len(self.of)))


def find_values(graph: Graph, at_input: np.ndarray) -> Values:
    """The values of a graph and their lifetimes in node order. ``at_input`` bool [nodes]."""
    parent = np.arange(graph.num_entries)
    nops = np.flatnonzero(is_nop(graph) & (np.diff(graph.row_ptr) == 1) & (np.diff(graph.in_ptr) == 1))
    if len(nops):
        parent[graph.row_ptr[nops]] = graph.in_eid[graph.in_ptr[nops]]
        parent = follow(parent)
    made_by = graph.entry_nid
    born, last = made_by.copy(), made_by.copy()
    last[parent[graph.in_eid]] = slot_nid(graph)  # ascending, and the last one written stays
    last[parent[graph.outputs]] = graph.num_nodes
    early = ((graph.func_id < 0) | at_input)[made_by]
    born[early], last[early] = -1, graph.num_nodes
    return Values(parent, born, last)


def inplace_slots(graph: Graph, inplace: Mapping[str, tuple[int, ...]] | None) -> np.ndarray:
    """bool [inputs of all nodes]: output 0 may be written over this input, if types and lifetimes allow it.

    ``inplace``: func_name -> inputs, from the libraries' manifests; it goes before the op registry.
    """
    allowed = [_allowed(f, inplace or {}) for f in graph.funcs]
    if not any(allowed):
        return np.zeros(len(graph.in_eid), bool)
    most = 1 + max((i for row in allowed for i in row), default=0)
    table = np.zeros((len(graph.funcs) + 1, most + 1), bool)  # last column: inputs beyond
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


def take_over(laid_out: LaidOutGraph, values: Values, slots: np.ndarray) -> np.ndarray:
    """int64 [entries]: for a value's first entry, the value whose buffer it may be written over; itself if
    there is none.

    The dying value must have exactly the type and layout of the node's output 0, end at that node, and be
    read there only through ``slots`` (inplace_slots) of that type.
    """
    graph = laid_out.placed.graph
    donor = np.arange(graph.num_entries)
    if not slots.any():
        return donor
    reader, value = slot_nid(graph), values.of[graph.in_eid]
    slots = slots & (np.diff(graph.row_ptr) > 0)[reader]
    output = np.minimum(graph.row_ptr[reader], graph.num_entries - 1)  # a node may make nothing
    entry_did = np.repeat(laid_out.placed.did, np.diff(graph.row_ptr))
    dies = (values.last[value] == reader) & (values.born[value] >= 0)
    fits = (
        slots
        & dies
        & _equal(laid_out, entry_did, graph.in_eid, output)
        & _equal(laid_out, entry_did, value, output)
    )
    spoilt = np.zeros(graph.num_entries, bool)
    spoilt[value[dies & ~fits]] = True
    fits &= ~spoilt[value]
    made = output[fits][::-1]  # the first fitting input of a node is written last and stays
    donor[made] = value[fits][::-1]
    return donor


def _equal(laid_out: LaidOutGraph, entry_did: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    type_id, layout_id = laid_out.placed.graph.type_id, laid_out.layout_id
    return (type_id[a] == type_id[b]) & (layout_id[a] == layout_id[b]) & (entry_did[a] == entry_did[b])
