"""Layouts that a caller asks for by node name (wish.py has the words). They take precedence over the file's
layouts and the default layout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..base.errors import DeviceError, PlanError
from ..base.machine.layout import Layout
from .columns import is_copy
from .globs import matching
from .types import PlacedGraph
from .wish import Wish, read_wishes, wished

# {(layout, reason): id} of the layouts in use
Table = dict[tuple[Layout, str], int]


def follow_wishes(
    placed: PlacedGraph,
    wishes: Mapping[str, str],
    layout_id: np.ndarray,
    table: Table,
    unused: list[str] | None = None,
) -> np.ndarray:
    """int32 [entries]: ``layout_id`` after the wishes are followed; new layouts are added to ``table``.

    A glob names all entries of its nodes that live on devices, and the planner's copies of them; the last
    glob that names an entry wins. ``unused`` takes a sentence about each glob whose nodes all run on hosts.
    If ``unused`` is None, such a glob raises PlanError, as do an unknown word, and a layout that the entry or
    its device cannot have.
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
        where = placed.where(nid)
        text = (
            f"node {where['node']!r} on {where['device']} makes {type_}, which cannot be {wish.text}: {error}"
        )
        raise PlanError(text, got=wish.text, **where) from None
