"""Traffic of a plan's instructions: payload bytes out of and into every bank, counted as the simulated device
does (gr_device_traffic), and payload bytes over every link between devices.

A copy reads each page of its input once and writes each page of its output once. Ops count exactly the bytes
that their kernels load and store (walks/).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..base.machine.descriptors import Descriptor
from ..base.machine.layout import Layout, pages, unit_bytes, unit_places
from ..ir.graph import COPY, TensorType
from ..ir.ops import registry
from ..ir.ops.numerics import Numerics
from ..ir.ops.rules import numeric_words
from ..plan.types import Plan
from .walks import walk_of
from .walks.args import KernelArg, KernelCall, Moves, Times

Banks = dict[tuple[int, int], np.ndarray]
Links = dict[tuple[int, int], int]


def bank_bytes(plan: Plan, nids: Iterable[int], indices: Mapping[int, np.ndarray] | None = None) -> Banks:
    """{(did, memory): int64 [banks, 2] bytes out of and into each bank} of one run of each of the nodes
    ``nids``. Host memory has no banks. Reads of a take depend on its indices: the indices in ``indices``
    [nid] if given, else assumed indices that are far apart."""
    found: Banks = {}
    graph = plan.graph
    for nid in nids:
        ends = graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]].tolist()
        made = range(int(graph.row_ptr[nid]), int(graph.row_ptr[nid + 1]))
        moves = _moves(plan, nid, ends, (indices or {}).get(nid))
        for eid, times in zip((*ends, *made), moves.reads, strict=False):
            _add(found, plan, eid, 0, times)
        writes = (moves.writes, *(moves.others or [moves.writes] * (len(made) - 1)))
        for eid, times in zip(made, writes, strict=False):  # a node may have no output
            _add(found, plan, eid, 1, times)
    return found


def _add(found: Banks, plan: Plan, eid: int, into: int, times: Times) -> None:
    did = int(plan.did[plan.graph.maker(eid)])
    board, layout = plan.devices[did].descriptor, plan.layout(eid)
    if board.on_host:
        return
    index = next(i for i, m in enumerate(board.memories) if m.name == layout.memory)
    counts = found.setdefault((did, index), np.zeros((board.memories[index].banks, 2), np.int64))
    counts[:, into] += page_banks(layout, plan.graph.entry_type(eid), board, times)


def _moves(plan: Plan, nid: int, reads: list[int], indices: np.ndarray | None) -> Moves:
    """Numbers of reads of each page of a node's inputs, and of writes of each page of its outputs, by the
    node's kernel."""
    graph, device = plan.graph, plan.devices[plan.did[nid]]
    func, out = graph.funcs[graph.func_id[nid]], int(graph.row_ptr[nid])
    walk, made = walk_of(func.op or ""), range(out, int(graph.row_ptr[nid + 1]))
    some = any(graph.entry_type(e).size for e in made)
    if walk is None or device.descriptor.on_host or not some:
        read = func.op is None or device.descriptor.on_host or some
        return Moves([int(read)] * len(reads), 1)
    view, op = graph.node(nid), registry.require(func.op or "")
    args = [KernelArg(plan.layout(e), graph.entry_type(e).shape) for e in (*reads, *made)]
    words = tuple(op.words(view.input_types, view.output_types, func.attrs)) if op.words else ()
    named = plan.numerics[plan.did[nid]] if plan.numerics else Numerics()
    words += numeric_words(op, func.attrs, "tt", named, _model(plan, nid))
    in_place = bool(reads) and int(plan.sid[reads[0]]) == int(plan.sid[out])
    first = len(reads) + 1
    cores = math.prod(device.descriptor.grid)
    return walk(KernelCall(args[:first], words, cores, indices, in_place, args[first:]))


def _model(plan: Plan, nid: int) -> Any:
    at = -1 if plan.model_id is None else int(plan.model_id[nid])
    return plan.models[at] if at >= 0 else None


def page_banks(layout: Layout, type: TensorType, board: Descriptor, times: Times = 1) -> np.ndarray:
    """int64 [banks]: payload bytes of a tensor in each bank of its memory. ``times``: number of moves of each
    page, int64 [pages], or one number for all pages."""
    banks = next(m.banks for m in board.memories if m.name == layout.memory)
    page = pages(layout, type.shape)
    if layout.is_sharded:
        return _shard_banks(layout, type, board, np.broadcast_to(times, page.count))
    if isinstance(times, int):
        full, rest = divmod(page.count, banks)
        return (full + (np.arange(banks) < rest)) * page.nbytes * times
    rounds = np.zeros(-(-page.count // banks) * banks, np.int64)
    rounds[: page.count] = times
    return rounds.reshape(-1, banks).sum(0) * page.nbytes


def _shard_banks(layout: Layout, type: TensorType, board: Descriptor, times: np.ndarray) -> np.ndarray:
    """int64 [banks]: payload bytes of a sharded tensor: each tile, or each shard's part of a row, is in the
    bank of its core (native/ttsim/sharded.c)."""
    nbytes, (where, _, _) = unit_bytes(layout), unit_places(layout, type.shape, board.grid[1])
    page = pages(layout, type.shape)
    parts = -(-page.nbytes // nbytes)
    unit = np.arange(page.count * parts)
    payload = np.minimum(nbytes, page.nbytes - unit % parts * nbytes) * times[unit // parts]
    found = np.zeros(next(m.banks for m in board.memories if m.name == layout.memory), np.int64)
    np.add.at(found, where, payload)
    return found


def link_bytes(plan: Plan, nids: Iterable[int]) -> Links:
    """{(source did, target did): bytes that copies among ``nids`` send}. A copy sends the pages of its source
    or, if a host sends, the pages of its target. A copy between hosts sends the elements."""
    found: Links = {}
    graph = plan.graph
    for nid in nids:
        if graph.func_id[nid] < 0 or graph.funcs[graph.func_id[nid]].name != COPY:
            continue
        source, made = int(graph.in_eid[graph.in_ptr[nid]]), int(graph.row_ptr[nid])
        ends = int(plan.did[graph.maker(source)]), int(plan.did[nid])
        if ends[0] != ends[1]:
            far = made if plan.devices[ends[0]].descriptor.on_host else source
            found[ends] = found.get(ends, 0) + _payload(plan.layout(far), graph.entry_type(far))
    return found


def _payload(layout: Layout, type: TensorType) -> int:
    if layout.memory == "host":
        return type.nbytes
    page = pages(layout, type.shape)
    return page.count * page.nbytes
