"""Layouts that a caller asks for by name: {"conv*": "l1/block[4x8]"}, over those of the file and the default.

A wish is words between slashes, in any order, each of which changes one thing: a memory (dram, l1), a layout
(row_major, tile), a format (bf16, ...), a sharding (shards.read_wish) or "interleaved". str(Layout) is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.dtypes import FORMATS, ROWS
from ..base.errors import DeviceError, GraphRuntimeError, PlanError, did_you_mean
from ..base.machine.devices import Descriptor
from ..base.machine.layout import DRAM, L1, ROW_MAJOR, TILE, Layout, matrix
from ..base.machine.shards import KINDS, ShardWish, fault, read_wish, resolve
from ..ir.graph import TensorType
from .columns import is_copy
from .globs import matching
from .types import PlacedGraph

__all__ = ["Table", "follow_wishes"]

# the distinct (layout, why) in use, and the id of each
Table = dict[tuple[Layout, str], int]
_INTERLEAVED = "interleaved"
_WORDS = (DRAM, L1, ROW_MAJOR, TILE, _INTERLEAVED, *KINDS, *FORMATS)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one text asks for; None: the layout that the tensor has anyway."""

    text: str
    memory: str | None = None
    layout: str | None = None
    format: str | None = None
    shard: ShardWish | None = None
    interleaved: bool = False


def follow_wishes(
    placed: PlacedGraph, wishes: Mapping[str, str], layout_id: np.ndarray, table: Table
) -> np.ndarray:
    """int32 [entries]: ``layout_id`` with the wishes followed; new layouts go into ``table``.

    A glob names all entries of its nodes that live on devices, and the copies that the planner inserted of
    them; the last glob that names an entry wins. Raises PlanError for a glob that names no such entry, a word
    that means nothing, and a layout that the entry or its device cannot have.
    """
    graph, layout_id = placed.graph, layout_id.copy()
    entry_did = np.repeat(placed.did, np.diff(graph.row_ptr))
    far = ~np.array([d.descriptor.on_host for d in placed.devices])[entry_did]
    inserted = np.flatnonzero(is_copy(graph) & (placed.origin < 0))
    made, source = graph.row_ptr[inserted], graph.in_eid[graph.in_ptr[inserted]]
    for glob, text in wishes.items():
        wish = _read(text)
        hit = np.repeat(matching(graph, glob, "layout"), np.diff(graph.row_ptr))
        hit[made] |= hit[source]
        eids = np.flatnonzero(hit & far)
        if not len(eids):
            raise PlanError(
                f"layout {glob!r} names entries of the host only, which are row-major there: "
                "place the nodes on a device",
                got=glob,
            )
        rows = list(table)
        done: dict[tuple[int, int, int], int] = {}
        keys = zip(*(column[eids].tolist() for column in (graph.type_id, entry_did, layout_id)), strict=True)
        for eid, key in zip(eids.tolist(), keys, strict=True):
            if key not in done:
                layout = _apply(placed, eid, rows[key[2]][0], wish)
                done[key] = table.setdefault((layout, f"as layout {glob!r} asks"), len(table))
            layout_id[eid] = done[key]
    return layout_id


def _read(text: str) -> _Wish:
    said: dict[str, Any] = {}  # what is said of each name of _Wish
    for word in str(text).split("/"):
        kinds = [
            name
            for name, values in (
                ("memory", (DRAM, L1)),
                ("layout", (ROW_MAJOR, TILE)),
                ("format", FORMATS),
                ("interleaved", (_INTERLEAVED,)),
            )
            if word in values
        ]
        if kinds:
            name = kinds[0]
        elif word.split("[")[0] in KINDS:
            name = "shard"
        else:
            raise PlanError(
                f"layout {text!r}: unknown word {word!r}{did_you_mean(word, _WORDS)}; write "
                f"words between slashes, as l1/tile/bf16/height[8x1]",
                got=word,
                wanted=list(_WORDS),
            )
        if name in said:
            raise PlanError(f"layout {text!r} says the {name} twice", got=text)
        said[name] = read_wish(word) if name == "shard" else name == _INTERLEAVED or word
    if said.get("shard") and (said.get("memory") == DRAM or _INTERLEAVED in said):
        raise PlanError(f"layout {text!r}: shards lie in l1, and are not interleaved", got=text)
    return _Wish(text, **said)


def _apply(placed: PlacedGraph, eid: int, layout: Layout, wish: _Wish) -> Layout:
    graph = placed.graph
    nid = graph.maker(eid)
    type_, device = graph.entry_type(eid), placed.devices[placed.did[nid]]
    try:
        made = _merged(type_, layout, wish, device.descriptor)
        reason = _fault(type_, made, device.descriptor)
        if reason:
            raise PlanError(f"{made}: {reason}", got=str(made))
    except (PlanError, DeviceError) as error:
        raise _at_node(placed, nid, wish, type_, error) from None
    return made


def _at_node(
    placed: PlacedGraph, nid: int, wish: _Wish, type_: TensorType, error: GraphRuntimeError
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


def _merged(type_: TensorType, layout: Layout, wish: _Wish, descriptor: Descriptor) -> Layout:
    """The layout with what the wish says; a sharding needs l1, a block format tiles."""
    memory = descriptor.memory(wish.memory or (L1 if wish.shard else layout.memory)).name
    fmt = wish.format or layout.format
    block = FORMATS[fmt].shared_exponent
    tiled = wish.layout or (TILE if block else layout.layout)
    if block and tiled == ROW_MAJOR and wish.format is None:
        fmt = ROWS
    made = Layout(memory, tiled, fmt)
    if wish.shard:
        shard = resolve(wish.shard, *matrix(made, type_.shape), tiled == TILE, descriptor.grid)
        return Layout(memory, tiled, fmt, shard)
    kept = memory == layout.memory and tiled == layout.layout and not wish.interleaved
    return Layout(memory, tiled, fmt, layout.shard) if kept else made


def _fault(type_: TensorType, layout: Layout, descriptor: Descriptor) -> str | None:
    if layout.layout not in descriptor.layouts:
        return f"{descriptor.kind} has no layout {layout.layout} (it has {', '.join(descriptor.layouts)})"
    if layout.format not in descriptor.formats:
        known = descriptor.formats
        return f"{descriptor.kind} stores no {layout.format}{did_you_mean(layout.format, known)}"
    if layout.layout == ROW_MAJOR and FORMATS[layout.format].shared_exponent:
        return f"{layout.format} exists in tiles only"
    if layout.shard is None:
        return None
    rows, cols = matrix(layout, type_.shape)
    return fault(layout.shard, rows, cols, layout.layout == TILE, descriptor.grid)
