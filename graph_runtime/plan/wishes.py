"""Layouts that a caller asks for by name (wish.py has the words), over those of the file and the default."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..base.errors import DeviceError, GraphRuntimeError, PlanError
from ..base.machine.layout import Layout
from ..ir.graph import TensorType
from .columns import is_copy
from .globs import matching
from .types import PlacedGraph
from .wish import Wish, read_wishes, wished

__all__ = ["Table", "follow_wishes"]

# the distinct (layout, why) in use, and the id of each
Table = dict[tuple[Layout, str], int]


def follow_wishes(
    placed: PlacedGraph,
    wishes: Mapping[str, str],
    layout_id: np.ndarray,
    table: Table,
    unused: list[str] | None = None,
) -> np.ndarray:
    """int32 [entries]: ``layout_id`` with the wishes followed; new layouts go into ``table``.

    A glob names all entries of its nodes that live on devices, and the copies that the planner inserted of
    them; the last glob that names an entry wins. ``unused`` takes a sentence about each glob whose nodes all
    run on hosts. Raises PlanError for such a glob where that is None, for a word that means nothing, and a
    layout that the entry or its device cannot have.
    """
    graph, layout_id = placed.graph, layout_id.copy()
    entry_did = np.repeat(placed.did, np.diff(graph.row_ptr))
    far = ~np.array([d.descriptor.on_host for d in placed.devices])[entry_did]
    inserted = np.flatnonzero(is_copy(graph) & (placed.origin < 0))
    made, source = graph.row_ptr[inserted], graph.in_eid[graph.in_ptr[inserted]]
    for glob, wish in read_wishes(wishes).items():
        hit = np.repeat(matching(graph, glob, "layout"), np.diff(graph.row_ptr))
        hit[made] |= hit[source]
        eids = np.flatnonzero(hit & far)
        if not len(eids):
            text = f"layout {glob!r} names entries of the host only, which are row-major there"
            if unused is None:
                raise PlanError(f"{text}: place the nodes on a device", got=glob)
            unused.append(f"{text}, as the placement policy decided")
        rows = list(table)
        done: dict[tuple[int, int, int], int] = {}
        keys = zip(*(column[eids].tolist() for column in (graph.type_id, entry_did, layout_id)), strict=True)
        for eid, key in zip(eids.tolist(), keys, strict=True):
            if key not in done:
                layout = _apply(placed, eid, rows[key[2]][0], wish)
                done[key] = table.setdefault((layout, f"as layout {glob!r} asks"), len(table))
            layout_id[eid] = done[key]
    return layout_id


def _apply(placed: PlacedGraph, eid: int, layout: Layout, wish: Wish) -> Layout:
    graph = placed.graph
    nid = graph.maker(eid)
    type_, device = graph.entry_type(eid), placed.devices[placed.did[nid]]
    try:
        return wished(type_, layout, wish, device.descriptor)
    except (PlanError, DeviceError) as error:
        raise _at_node(placed, nid, wish, type_, error) from None


def _at_node(
    placed: PlacedGraph, nid: int, wish: Wish, type_: TensorType, error: GraphRuntimeError
) -> PlanError:
    name, origin = placed.graph.names[nid], int(placed.origin[nid])
    device = str(placed.devices[placed.did[nid]])
    return PlanError(
        f"node {name!r} on {device} makes {type_}, which cannot be {wish.text}: {error}",
        node=name,
        device=device,
        got=wish.text,
        path=f"$.nodes[{origin}]" if origin >= 0 else None,
    )
