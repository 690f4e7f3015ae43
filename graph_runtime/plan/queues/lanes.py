"""Plan -> Lanes: which queue runs each instruction, and which instructions of other queues it waits for.

A plan is made for a serial order. On queues that run at the same time, storage may be used again only when
every reader of the old value is over before the writer of the new one; where neither the graph nor a queue's
order says so, a wait is added. checker/races.py proves the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from ...base.unique import unique_values
from ..columns import input_behind, is_nop, ragged, starts
from ..types import Plan, Storage
from .assignment import COMPUTE, COPY_IN, COPY_OUT, assign_queues

__all__ = ["COMPUTE", "COPY_IN", "COPY_OUT", "Lanes", "labels", "lanes", "overlapping"]


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """``queues`` (did, role) each; ``nid`` int64 [instrs] in an order in which they could run one by one;
    ``qid`` int32 [instrs] indexes ``queues``; a queue runs its instructions in that order. Of ``wait`` int64,
    wait[wait_ptr[i]:wait_ptr[i + 1]] are instructions of other queues that must be over before i begins
    (``wait_ptr`` int64 [instrs + 1]). ``warnings``: what the file's own storage_id makes wait."""

    queues: tuple[tuple[int, str], ...]
    nid: np.ndarray
    qid: np.ndarray
    wait_ptr: np.ndarray
    wait: np.ndarray
    warnings: tuple[str, ...] = ()


def lanes(plan: Plan, copies: Collection[int] = ()) -> Lanes:
    """The lanes of one run. ``copies``: graph inputs whose at_input copies are part of it."""
    nid = _instructions(plan, copies)
    queues, qid = assign_queues(plan, nid)
    if len(queues) < 2:
        return Lanes(queues, nid, qid, np.zeros(len(nid) + 1, np.int64), np.zeros(0, np.int64))
    data, reuse = _conflicts(plan, nid, qid)
    rows, needed = _reduce(len(nid), len(queues), qid.tolist(), data, reuse)
    wait_ptr = starts(np.array([len(row) for row in rows], np.int64))
    said = [_say(plan, nid, *pair) for pair in needed] if _follows_file(plan) else []
    return Lanes(
        queues,
        nid,
        qid,
        wait_ptr,
        np.array([j for row in rows for j in row], np.int64),
        tuple(dict.fromkeys(said)),
    )


def _instructions(plan: Plan, copies: Collection[int]) -> np.ndarray:
    """nids of what a run executes: the at_input copies of the graph inputs ``copies``, then all else."""
    graph = plan.graph
    calls = (graph.func_id >= 0) & ~is_nop(graph)
    first = np.zeros(0, np.int64)
    if copies:
        early = np.flatnonzero(calls & plan.at_input)
        first = early[np.isin(input_behind(graph, early), graph.inputs[list(copies)])]
    return np.concatenate([first, np.flatnonzero(calls & ~plan.at_input)])


# **************** which nodes touch the same bytes ****************


def overlapping(storage: Storage, sids: np.ndarray) -> np.ndarray:
    """int64 [sids]: a number that those of these storages share whose bytes overlap, through others of them
    too."""
    region = storage.region
    order = sids[np.lexsort((storage.offset[sids], region[sids]))]
    end = (storage.offset + storage.extent)[order]
    group, cell, last, furthest = np.zeros(storage.count, np.int64), -1, -1, 0
    for sid, r, begin, stop in zip(
        order.tolist(), region[order].tolist(), storage.offset[order].tolist(), end.tolist(), strict=True
    ):
        if r != last or begin >= furthest:
            cell, last, furthest = cell + 1, r, stop
        furthest = max(furthest, stop)
        group[sid] = cell
    return group[sids]


def _conflicts(plan: Plan, nid: np.ndarray, qid: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
    """For each instruction those of other queues that it must come after: ``data`` wrote what it reads,
    ``reuse`` still used the bytes that it writes."""
    instr, cell, write = _accesses(plan, nid)
    busy = np.zeros(int(cell.max(initial=-1)) + 1, bool)
    one = np.full(len(busy), -1, np.int64)
    one[cell] = qid[instr]
    busy[cell[one[cell] != qid[instr]]] = True  # pieces that more than one queue touches
    mine = busy[cell]
    order = np.lexsort((write[mine], instr[mine], cell[mine]))
    data: list[list[int]] = [[] for _ in range(len(nid))]
    reuse: list[list[int]] = [[] for _ in range(len(nid))]
    queue, here, writer = qid.tolist(), -1, -1
    readers: list[int] = []
    for c, i, w in zip(
        cell[mine][order].tolist(), instr[mine][order].tolist(), write[mine][order].tolist(), strict=True
    ):
        if c != here:
            here, writer, readers = c, -1, []
        before = ([writer] if writer >= 0 else []) + (readers if w else [])
        (reuse if w else data)[i] += [j for j in before if queue[j] != queue[i]]
        if w:
            writer, readers = i, []
        else:
            readers.append(i)
    return data, reuse


def _accesses(plan: Plan, nid: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(instruction, piece of bytes, 1 where it writes) of every piece that an argument has."""
    graph = plan.graph
    n_in = graph.in_ptr[nid + 1] - graph.in_ptr[nid]
    n_out = graph.row_ptr[nid + 1] - graph.row_ptr[nid]
    at = np.arange(len(nid))
    eid = np.concatenate([graph.in_eid[ragged(graph.in_ptr[nid], n_in)], ragged(graph.row_ptr[nid], n_out)])
    instr = np.concatenate([np.repeat(at, n_in), np.repeat(at, n_out)])
    write = np.repeat([0, 1], [n_in.sum(), n_out.sum()])
    first, count = _pieces(plan.storage)
    sid = plan.sid[eid]
    return (np.repeat(instr, count[sid]), ragged(first[sid], count[sid]), np.repeat(write, count[sid]))


def _pieces(storage: Storage) -> tuple[np.ndarray, np.ndarray]:
    """(first, count) int64 [sids] each: the pieces of bytes of each storage, where memory is cut at every
    storage's ends."""
    region = storage.region
    first, count, total = np.zeros(storage.count, np.int64), np.zeros(storage.count, np.int64), 0
    for which in unique_values(region).tolist():
        mine = np.flatnonzero((region == which) & (storage.extent > 0))
        begin, end = storage.offset[mine], storage.offset[mine] + storage.extent[mine]
        cuts = unique_values(np.concatenate([begin, end]))
        first[mine] = np.searchsorted(cuts, begin)
        count[mine] = np.searchsorted(cuts, end) - first[mine]
        first[mine] += total
        total += len(cuts)
    return first, count


# **************** which waits are needed ****************


def _reduce(
    count: int, num_queues: int, qid: list[int], data: list[list[int]], reuse: list[list[int]]
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """The waits of each instruction without those that others imply, and the pairs (instruction, what it
    waits for) that only the reuse of storage asks for.

    A clock says up to which instruction each queue is over.
    """
    waited = {j for row in data for j in row} | {j for row in reuse for j in row}
    clocks = [[-1] * num_queues for _ in range(num_queues)]
    known: dict[int, list[int]] = {}
    rows, needed = [], []
    for i in range(count):
        clock, row = clocks[qid[i]], []
        for j in sorted(set(data[i]), reverse=True) + sorted(set(reuse[i]), reverse=True):
            if clock[qid[j]] >= j:
                continue
            row.append(j)
            if j not in data[i]:
                needed.append((i, j))
            clock[:] = map(max, clock, known[j])
        clock[qid[i]] = i
        if i in waited:
            known[i] = clock.copy()
        rows.append(row)
    return rows, needed


def _follows_file(plan: Plan) -> bool:
    hinted = plan.graph.hints.storage_id
    if hinted is None:
        return False
    hinted = np.asarray(hinted)
    return bool((plan.sid == hinted)[hinted >= 0].all())


def _say(plan: Plan, nid: np.ndarray, writer: int, user: int) -> str:
    graph = plan.graph
    first, last = int(nid[writer]), int(nid[user])
    made = graph.row_ptr[first]
    return (
        f"the file's storage {int(plan.sid[made])} is written by {graph.names[first]!r} while "
        f"{graph.names[last]!r} may still use it on another queue: the first waits for the second"
    )


def labels(queues: Iterable[tuple[int, str]], plan: Plan) -> list[str]:
    """What people call the queues: "tt:0 copy_in"."""
    return [f"{plan.devices[did]} {role}" for did, role in queues]
