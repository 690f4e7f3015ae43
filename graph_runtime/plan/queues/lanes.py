"""Plan -> Lanes: the queue of each instruction, and the instructions of other queues for which it waits.

A plan is made for a serial order. On queues that run at the same time, storage may be reused only if every
reader of the old value is over before the new value is written. If neither the graph nor a queue's order
ensures that, a wait is added. checker/races.py proves the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from ...base.unique import unique_values
from ...ir.graph import COPY
from ..columns import func_mask, input_behind, is_nop, ragged, starts
from ..types import PlacedGraph, Plan, Storage

COMPUTE, COPY_IN, COPY_OUT = "compute", "copy_in", "copy_out"
_ROLES = (COMPUTE, COPY_IN, COPY_OUT)


def assign_queues(
    plan: PlacedGraph | Plan, nid: np.ndarray
) -> tuple[tuple[tuple[int, str], ...], np.ndarray]:
    """Pair of (did, role) of each queue, in the order of first use, and the queue of each node (int32 [nids],
    index into the queues).

    A copy from a device to a host runs on the device's copy_out queue, any other copy between devices on the
    receiver's copy_in queue. All other nodes run on their device's compute queue.
    """
    graph = plan.graph
    did, role = plan.did[nid].astype(np.int64), np.zeros(len(nid), np.int64)
    at = np.flatnonzero(func_mask(graph, COPY)[nid])
    if len(at):
        source = plan.did[graph.entry_nid[graph.in_eid[graph.in_ptr[nid[at]]]]].astype(np.int64)
        host = np.array([d.descriptor.on_host for d in plan.devices])
        out = host[did[at]] & ~host[source]
        between = source != did[at]
        role[at[between & ~out]] = 1
        role[at[between & out]] = 2
        did[at[between & out]] = source[between & out]
    keys = did * len(_ROLES) + role
    distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    names = tuple((k // len(_ROLES), _ROLES[k % len(_ROLES)]) for k in distinct[order].tolist())
    return names, rank[inverse].astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """``queues``: (did, role) of each queue; ``nid`` int64 [instrs]: the instructions' nodes, in an order in
    which they could run one by one; ``qid`` int32 [instrs]: the queue of each instruction, index into
    ``queues``. A queue runs its instructions in the order of ``nid``. Instruction i begins when the
    instructions wait[wait_ptr[i]:wait_ptr[i + 1]] of other queues are over (``wait`` int64, ``wait_ptr``
    int64 [instrs + 1]). ``warnings``: waits caused by the file's own storage_id."""

    queues: tuple[tuple[int, str], ...]
    nid: np.ndarray
    qid: np.ndarray
    wait_ptr: np.ndarray
    wait: np.ndarray
    warnings: tuple[str, ...] = ()


def lanes(plan: Plan, copies: Collection[int] = ()) -> Lanes:
    """The lanes of one run. ``copies``: indices of graph inputs whose at_input copies are part of the run."""
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
    """nids of the instructions of a run: the at_input copies of the graph inputs ``copies``, then all
    others."""
    graph = plan.graph
    calls = (graph.func_id >= 0) & ~is_nop(graph)
    first = np.zeros(0, np.int64)
    if copies:
        early = np.flatnonzero(calls & plan.at_input)
        first = early[np.isin(input_behind(graph, early), graph.inputs[list(copies)])]
    return np.concatenate([first, np.flatnonzero(calls & ~plan.at_input)])


def overlapping(storage: Storage, sids: np.ndarray) -> np.ndarray:
    """int64 [sids]: a number for each storage, which is equal for storages whose bytes overlap, directly or
    through other storages among ``sids``."""
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
    """Pair (data, reuse). Each has, for each instruction, the instructions on other queues that must come
    before it: in ``data`` the instructions that write its inputs, in ``reuse`` the instructions that use the
    bytes that it overwrites."""
    instr, cell, write = _accesses(plan, nid)
    busy = np.zeros(int(cell.max(initial=-1)) + 1, bool)
    one = np.full(len(busy), -1, np.int64)
    one[cell] = qid[instr]
    busy[cell[one[cell] != qid[instr]]] = True  # pieces of bytes that more than one queue touches
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
    """Three columns with a row for every piece of bytes of every argument: instruction, piece, and 1 for a
    write or 0 for a read."""
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
    """Pair (first, count), int64 [sids] each: the first piece of bytes of each storage and the number of its
    pieces, if memory is cut where any storage begins or ends."""
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


def _reduce(
    count: int, num_queues: int, qid: list[int], data: list[list[int]], reuse: list[list[int]]
) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Pair of two lists. The first has the waits of each instruction, without the waits that other waits
    imply. The second has the pairs (instruction, awaited instruction) that are needed only because storage is
    reused.

    A clock has, for each queue, the last instruction that is over.
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
        f"{graph.names[last]!r} may still use it on another queue, so the writer waits for that node"
    )


def labels(queues: Iterable[tuple[int, str]], plan: Plan) -> list[str]:
    """Names of the queues for people: "tt:0 copy_in"."""
    return [f"{plan.devices[did]} {role}" for did, role in queues]
