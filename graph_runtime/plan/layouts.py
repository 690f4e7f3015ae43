"""PlacedGraph -> LaidOutGraph: memory, layout and format of every entry, and relayout copies for reshapes
that move bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.errors import PlanError
from ..base.machine.layout import HOST, TILE, Layout, same_image
from ..base.options import Options
from ..ir.graph import COPY, TensorType
from .columns import intern, is_copy, is_nop
from .supports import choose, read_formats
from .transfers import COPY_FUNC
from .types import LaidOutGraph, PlacedGraph
from .wishes import Table, follow_wishes


def assign_layouts(placed: PlacedGraph, options: Options, *, by_policy: bool = False) -> LaidOutGraph:
    """Give each entry a Layout: the one in ``options.layouts`` (wishes.py), else the file's for the entry's
    device, else the result of ``choose``, which is interleaved over the device's first memory (DRAM).

    ``options.formats``: device ("tt:0") or kind ("tt") -> format of float tensors there; the device's own
    entry wins. ``by_policy``: whether a placement policy decided where nodes run; if it did, a wish for nodes
    that run on hosts is a warning, else it is an error. A __nop on a device becomes a relayout __copy if its
    input and output differ in physical image. The cause of each copy gets a description of the copy.

    Raises PlanError for a format that the device does not store, a dtype that it cannot hold, a wish that
    cannot be followed, and a __copy that would change the dtype outside of host memory.
    """
    chosen = read_formats(placed.devices, options.formats)
    graph, count = placed.graph, len(placed.devices)
    entry_did = np.repeat(placed.did, np.diff(graph.row_ptr))
    distinct, row = intern(graph.type_id.astype(np.int64) * count + entry_did, len(graph.types) * count)
    said = _hinted(placed, entry_did)
    open_ = np.ones(len(distinct), bool)
    if said is not None:
        open_[:] = False
        open_[row[said < 0]] = True  # entries to which the file gives no layout
    table: Table = {}
    rows = np.full(len(distinct), -1, np.int32)
    for at in np.flatnonzero(open_).tolist():
        type_, did = graph.types[distinct[at] // count], distinct[at] % count
        decision = _decide(placed, type_, did, chosen[did], row, at)
        rows[at] = table.setdefault(decision, len(table))
    layout_id = rows[row]
    if said is not None:
        why = "as the file says"
        named = [table.setdefault((layout, why), len(table)) for layout in graph.hints.layouts or ()]
        layout_id = np.where(said >= 0, np.array([*named, 0], np.int32)[said], layout_id).astype(np.int32)
    if options.layouts:
        unused: list[str] = []
        layout_id = follow_wishes(placed, options.layouts, layout_id, table, unused if by_policy else None)
        placed = replace(placed, warnings=(*placed.warnings, *unused))
    used, layout_id = _used(table, layout_id)
    laid_out = LaidOutGraph(placed, tuple(k[0] for k in used), layout_id, tuple(k[1] for k in used))
    _check_copies(laid_out)
    return explain_copies(_relayout_nops(laid_out))


def _decide(
    placed: PlacedGraph, type_: TensorType, did: int, fmt: str | None, row: np.ndarray, at: int
) -> tuple[Layout, str]:
    try:
        return choose(type_, placed.devices[did].descriptor, fmt)
    except PlanError as error:
        where = placed.where(placed.graph.maker(int(np.flatnonzero(row == at)[0])))
        text = f"node {where['node']!r} on {where['device']} makes {type_}: {error}"
        raise PlanError(text, got=type_.dtype, **where) from None


def _hinted(placed: PlacedGraph, entry_did: np.ndarray) -> np.ndarray | None:
    """int64 [entries]: index into hints.layouts, -1 if the file gives the entry no layout, or a layout for
    another type of device."""
    hints = placed.graph.hints
    if hints.layouts is None or hints.layout is None:
        return None
    said = np.array(hints.layout, np.int64)
    if hints.device_type is not None:
        dl_type = np.array([d.dl_type for d in placed.devices])[entry_did]
        said[dl_type != hints.device_type] = -1
    return said if (said >= 0).any() else None


def _used(table: Table, layout_id: np.ndarray) -> tuple[list[tuple[Layout, str]], np.ndarray]:
    """The (layout, cause) pairs that entries use, and ``layout_id`` renumbered for them."""
    used = np.bincount(layout_id, minlength=len(table)) > 0
    rows = [row for row, kept in zip(table, used.tolist(), strict=True) if kept]
    return rows, (used.cumsum() - 1)[layout_id].astype(np.int32)


def _check_copies(laid_out: LaidOutGraph) -> None:
    """Check copies: a copy may convert layout, format and shape; only in host memory may it read bytes as
    another dtype."""
    placed, graph = laid_out.placed, laid_out.placed.graph
    nids = np.flatnonzero(is_copy(graph))
    if not len(nids):
        return
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    dtype = np.unique([t.dtype for t in graph.types], return_inverse=True)[1]
    on_host = np.array([layout.memory == HOST for layout in laid_out.layouts])[laid_out.layout_id]
    bad = (dtype[graph.type_id[made]] != dtype[graph.type_id[source]]) & ~(on_host[made] & on_host[source])
    for nid, a, b in zip(nids[bad].tolist(), source[bad].tolist(), made[bad].tolist(), strict=True):
        device = str(placed.devices[placed.did[nid if on_host[a] else graph.maker(a)]])
        raise PlanError(
            f"{COPY} {graph.names[nid]!r} makes {graph.entry_type(b)} of {graph.entry_type(a)}: only in host "
            f"memory are bytes read as another dtype, not on {device}; use a cast",
            node=graph.names[nid],
            device=device,
            path=placed.where(nid)["path"],
            got=graph.entry_type(b).dtype,
            wanted=graph.entry_type(a).dtype,
        )


def _relayout_nops(laid_out: LaidOutGraph) -> LaidOutGraph:
    """Turn each __nop on a device whose input and output differ in physical image into a __copy, with a
    cause."""
    placed, graph = laid_out.placed, laid_out.placed.graph
    on_host = np.array([layout.memory == HOST for layout in laid_out.layouts] + [True])
    nids = np.flatnonzero(is_nop(graph) & (np.diff(graph.row_ptr) == 1) & (np.diff(graph.in_ptr) == 1))
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    far = ~on_host[laid_out.layout_id[made]]
    moving = [
        int(n)
        for n, a, b in zip(nids[far], source[far].tolist(), made[far].tolist(), strict=True)
        if not _same(laid_out, a, b)
    ]
    if not moving:
        return laid_out
    func_id, at_input, cause_id = graph.func_id.copy(), placed.at_input.copy(), placed.cause_id.copy()
    func_id[moving] = len(graph.funcs)
    inputs = graph.input_eids.tolist()
    set_once = set(inputs) - {inputs[i] for _, i in graph.hints.aliases if 0 <= i < len(inputs)}
    maker = graph.entry_nid
    for nid in moving:  # nids ascend, so at_input of a node's source is already settled
        source = int(graph.in_eid[graph.in_ptr[nid]])
        at_input[nid] = source in set_once or at_input[maker[source]]
    cause_id[moving] = len(placed.causes) + np.arange(len(moving))
    causes = tuple(_relayout_cause(laid_out, nid) for nid in moving)
    graph = replace(graph, func_id=func_id, funcs=(*graph.funcs, COPY_FUNC))
    placed = replace(placed, graph=graph, at_input=at_input, cause_id=cause_id, causes=placed.causes + causes)
    return replace(laid_out, placed=placed)


def _same(laid_out: LaidOutGraph, a: int, b: int) -> bool:
    graph, layouts, layout_id = laid_out.placed.graph, laid_out.layouts, laid_out.layout_id
    return same_image(
        layouts[layout_id[a]], graph.entry_type(a).shape, layouts[layout_id[b]], graph.entry_type(b).shape
    )


def _relayout_cause(laid_out: LaidOutGraph, nid: int) -> str:
    graph = laid_out.placed.graph
    a, b = int(graph.in_eid[graph.in_ptr[nid]]), int(graph.row_ptr[nid])
    before, after = laid_out.layouts[laid_out.layout_id[a]], laid_out.layouts[laid_out.layout_id[b]]
    return (
        f"a reshape that moves bytes is a relayout {COPY}: {graph.entry_type(a)} in {before} is no image of "
        f"{graph.entry_type(b)} in {after}"
    )


def conversion(
    before: Layout, after: Layout, *, reshaped: bool = False, devices: tuple[str, str] = ("", "")
) -> str:
    """The steps of a copy from one layout to another, joined by " + ". ``devices``: names of the source
    device and the target device."""
    steps = ["reshape"] if reshaped else []
    if before.layout != after.layout:
        steps.append("tilize" if after.layout == TILE else "untilize")
    if before.format != after.format:
        steps.append(f"{before.format} -> {after.format}")
    ends = [_where(before), _where(after)]
    if devices[0] != devices[1] and HOST not in (before.memory, after.memory):
        ends = [f"{device} {memory}" for device, memory in zip(devices, ends, strict=True)]
    if ends[0] != ends[1] or devices[0] != devices[1]:
        steps.append(f"move {ends[0]} -> {ends[1]}")
    elif before.shard != after.shard:
        steps.append(f"reshard {before.shard} -> {after.shard}")
    return " + ".join(steps) or "same bytes"


def _where(layout: Layout) -> str:
    return layout.memory + (f" {layout.shard.kind} shard" if layout.shard else "")


def explain_copies(laid_out: LaidOutGraph) -> LaidOutGraph:
    """``laid_out`` with a description of each copy appended to the copy's cause. This Python code runs once
    for each distinct (cause, layouts, devices)."""
    placed, graph = laid_out.placed, laid_out.placed.graph
    nids = np.flatnonzero(is_copy(graph) & (np.diff(graph.row_ptr) == 1) & (np.diff(graph.in_ptr) == 1))
    if not len(nids):
        return laid_out
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    ends = laid_out.layout_id[source], laid_out.layout_id[made]
    reshaped = graph.type_id[source] != graph.type_id[made]
    dids = placed.did[graph.entry_nid[source]], placed.did[nids]
    columns = np.stack([placed.cause_id[nids], *ends, reshaped, *dids], 1).astype(np.int64)
    distinct, row = np.unique(columns, axis=0, return_inverse=True)
    texts = []
    for cause, a, b, reshaped, here, there in distinct.tolist():
        devices = str(placed.devices[here]), str(placed.devices[there])
        steps = conversion(laid_out.layouts[a], laid_out.layouts[b], reshaped=bool(reshaped), devices=devices)
        texts.append(f"{placed.causes[cause]}; {steps}")
    cause_id = placed.cause_id.copy()
    cause_id[nids] = len(placed.causes) + row.reshape(-1)
    return replace(laid_out, placed=replace(placed, cause_id=cause_id, causes=(*placed.causes, *texts)))
