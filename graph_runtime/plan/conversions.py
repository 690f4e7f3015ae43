"""What each copy does, in words: "tilize + f32 -> bf16 + move host -> dram"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.machine.layout import HOST, TILE, Layout
from .columns import is_copy
from .types import LaidOutGraph

__all__ = ["conversion", "explain_copies"]


def conversion(
    before: Layout, after: Layout, *, reshaped: bool = False, devices: tuple[str, str] = ("", "")
) -> str:
    """The steps of a copy from one layout to another, joined by " + ". ``devices``: names of the two ends."""
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
    """The graph with what each copy does said after its cause. Python runs once for each distinct (cause,
    layouts, devices)."""
    placed, graph = laid_out.placed, laid_out.placed.graph
    nids = np.flatnonzero(is_copy(graph) & (np.diff(graph.row_ptr) == 1) & (np.diff(graph.in_ptr) == 1))
    if not len(nids):
        return laid_out
    made, source = graph.row_ptr[nids], graph.in_eid[graph.in_ptr[nids]]
    columns = np.stack(
        [
            placed.cause_id[nids],
            laid_out.layout_id[source],
            laid_out.layout_id[made],
            graph.type_id[source] != graph.type_id[made],
            placed.did[graph.entry_nid[source]],
            placed.did[nids],
        ],
        1,
    ).astype(np.int64)
    distinct, row = np.unique(columns, axis=0, return_inverse=True)
    texts = []
    for cause, a, b, reshaped, here, there in distinct.tolist():
        devices = str(placed.devices[here]), str(placed.devices[there])
        steps = conversion(laid_out.layouts[a], laid_out.layouts[b], reshaped=bool(reshaped), devices=devices)
        texts.append(f"{placed.causes[cause]}; {steps}")
    cause_id = placed.cause_id.copy()
    cause_id[nids] = len(placed.causes) + row.reshape(-1)
    return replace(laid_out, placed=replace(placed, cause_id=cause_id, causes=(*placed.causes, *texts)))
