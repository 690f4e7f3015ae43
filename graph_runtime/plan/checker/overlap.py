"""The checker's sweep over storages that share bytes, and its error for an overwritten value."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from typing import Any

import numpy as np

from ...ir.graph import COPY, NOP
from .facts import CORRECT_STORAGE, Facts, refuse, storage_path


def sweep(facts: Facts, lives: Any, values: np.ndarray) -> None:
    """Check a plan whose storages share bytes: walk the values in time, and keep the live values of each
    region sorted by address."""
    plan, storage = facts.plan, facts.plan.storage
    order = values[np.lexsort((values, lives.born[values]))].tolist()
    alive: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    ending: list[tuple[int, int]] = []
    span: dict[int, tuple[tuple[int, int], tuple[int, int, int]]] = {}  # {value: (region, its item)}
    for value in order:
        while ending and ending[0][0] < lives.born[value]:
            done = heapq.heappop(ending)[1]
            region, item = span.pop(done)
            alive[region].pop(bisect_left(alive[region], item))
        sid = int(plan.sid[value])
        region = int(storage.did[sid]), int(storage.memory[sid])
        start = int(storage.offset[sid])
        item = (start, start + int(storage.extent[sid]), value)
        row = alive.setdefault(region, [])
        at = bisect_left(row, item)
        for near in row[max(at - 1, 0) : at + 1]:
            if near[0] < item[1] and item[0] < near[1]:
                raise overwritten(facts, lives, near[2], value)
        insort(row, item)
        span[value] = region, item
        heapq.heappush(ending, (int(lives.last[value]), value))


def overwritten(facts: Facts, lives: Any, first: int, second: int):
    """The error for entry ``second``, which overwrites entry ``first`` while ``first`` is needed."""
    plan, graph = facts.plan, facts.plan.graph
    a, b = int(plan.sid[first]), int(plan.sid[second])
    where = f"storage {a}" if a == b else f"storages {a} and {b}, which share bytes,"
    last = int(lives.last[first])
    need = "is written just then"
    if lives.kept[first]:
        need = "stays as it was set"
    elif last >= lives.never:
        need = "is an output of the graph"
    elif last > lives.born[first]:
        need = f"{graph.names[last // 2]!r} still reads"
    text = (
        f"{where} on {plan.devices[facts.entry_did[first]]}: {facts.name(second)} (entry {second}) "
        f"overwrites {facts.name(first)} (entry {first}), which {need}"
        f"{_not_in_place(facts, lives, first, second)}"
    )
    nid, path = int(facts.maker[second]), storage_path(plan, second)
    return refuse(plan, "overlap", text, nid=nid, entries=(first, second), path=path)


def _not_in_place(facts: Facts, lives: Any, first: int, second: int) -> str:
    """Advice about an overwritten value: correct the storage. If ``second`` is the result of a library
    function that overwrites its input ``first`` without permission, the advice also names the manifest."""
    graph, nid = facts.plan.graph, int(facts.maker[second])
    read = lives.of[graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]]].tolist()
    func = graph.funcs[graph.func_id[nid]] if graph.func_id[nid] >= 0 else None
    if func is None or func.op is not None or first not in read or func.name in (COPY, NOP):
        return CORRECT_STORAGE
    return (
        f"; the manifest of the library that has {func.name!r} does not let its output 0 overwrite input "
        f"{read.index(first)}: announce the kernel with `inplace {read.index(first)}` (docs/kernels.md), or "
        "give input and output different storage ids"
    )
