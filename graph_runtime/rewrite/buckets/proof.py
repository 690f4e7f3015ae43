"""Proof that a bucket serves other sizes: each node of the graph at those sizes equals the real part of the
node in the bucket's graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.graph import Graph, NodeView
from ...ir.model import Constant, Model
from .regions import Region, Sizes, at_real, real_shape

# attributes that only give sizes; the proof compares the types of results instead
_SIZES = {"reshape": "shape", "broadcast_to": "shape", "slice": "ends", "tile": "repeats"}


def difference(model: Model, exact: Model, regions: Sequence[Region], sizes: Sizes) -> str | None:
    """The first difference between ``exact``, the graph at ``sizes``, and the real part of the model's graph;
    None if they are equal."""
    ours, others = model.graph, exact.graph
    same = ours.num_nodes == others.num_nodes and ours.input_names == others.input_names
    if not same or any(
        not np.array_equal(a, b)
        for a, b in (
            (ours.in_eid, others.in_eid),
            (ours.row_ptr, others.row_ptr),
            (ours.outputs, others.outputs),
            (ours.inputs, others.inputs),
        )
    ):
        return "the graph has other nodes at other sizes"
    order = _entries(ours)
    for at, eid in enumerate(order):
        if real_shape(regions[at], sizes) != others.entry_type(eid).shape:
            return (
                f"{ours.names[ours.maker(eid)]!r} is {others.entry_type(eid)}, "
                "which does not follow from the sizes of the inputs"
            )
        if ours.entry_type(eid).dtype != others.entry_type(eid).dtype:
            return f"{ours.names[ours.maker(eid)]!r} has another dtype"
    for nid in range(ours.num_nodes):
        if reason := _other_node(ours.node(nid), others.node(nid)):
            return reason
    by_name = dict(zip(ours.input_names, regions, strict=False))
    for name, constant in model.constants.items():
        if not _same_constant(constant, exact.constants.get(name), by_name[name], sizes):
            return f"the constant {name!r} ({constant.source}) depends on sizes"
    return None


def _entries(graph: Graph) -> list[int]:
    """Entries of the graph in a Net's order: first the entries of the inputs, then the entries of the
    nodes."""
    inputs = graph.inputs.tolist()
    of_inputs = set(inputs)
    rows = graph.row_ptr.tolist()
    rest = [e for n in range(graph.num_nodes) if n not in of_inputs for e in range(rows[n], rows[n + 1])]
    return [rows[n] for n in inputs] + rest


def _other_node(ours: NodeView, other: NodeView) -> str | None:
    if ours.op != other.op:
        return f"node {ours.name!r} is {other.op} at other sizes"
    if ours.func is None:
        return None
    sizes = _SIZES.get(ours.op)
    for key, value in ours.func.attrs.items():
        if key != sizes and other.callee.attrs.get(key) != value:
            return f"{key} of node {ours.name!r} depends on sizes"
    return None


def _same_constant(ours: Constant, other: Constant | None, region: Region, sizes: Sizes) -> bool:
    if other is None:
        return False
    if ours is other or ours.read is other.read:
        return True
    a, b = ours.read(), other.read()
    if a is b:
        return True
    return np.array_equal(a[at_real(region, sizes)] if region else a, b, equal_nan=a.dtype.kind == "f")
