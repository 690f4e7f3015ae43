"""The checker's rule about queues: every two instructions that touch the same bytes, one writing, are ordered
by queue order and waits, and in the order of the graph. Shares no code with lanes.py.

Each instruction has a vector clock: how many instructions of each queue are over when it begins. Instruction
a comes before b if b's clock, in a's queue, counts a. Bytes are cut at every storage's ends, so that
each piece has one history: the last writer, and its readers since.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...base.unique import unique_values
from ..types import Plan
from .facts import refuse

__all__ = ["check_races", "clocks"]


def check_races(plan: Plan, lanes) -> None:
    """Raises CheckError (rule "race") with both nodes where two uses of the same bytes are not ordered, or
    where the lanes are none: an instruction out of order, a wait for something later."""
    graph, clock = plan.graph, clocks(plan, lanes)
    queue = [int(q) for q in lanes.qid]
    position = _positions(queue, len(lanes.queues))

    def before(a: int, b: int) -> bool:
        return a == b or clock[b][queue[a]] > position[a]

    pieces = _pieces(plan)
    writer: dict[tuple[int, int], int] = {}
    readers: dict[tuple[int, int], list[int]] = {}
    for at, nid in enumerate(int(n) for n in lanes.nid):
        read = {
            p
            for eid in graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]]
            for p in pieces[int(plan.sid[eid])]
        }
        written = {
            p
            for eid in range(int(graph.row_ptr[nid]), int(graph.row_ptr[nid + 1]))
            for p in pieces[int(plan.sid[eid])]
        }
        for piece in sorted(read | written):
            users = [writer[piece]] if piece in writer else []
            if piece in written:
                users += readers.get(piece, [])
            for user in users:
                if not before(user, at):
                    raise _race(plan, lanes, user, at, piece in written)
        for piece in sorted(read):
            readers.setdefault(piece, []).append(at)
        for piece in sorted(written):
            writer[piece], readers[piece] = at, []


def clocks(plan: Plan, lanes) -> list[list[int]]:
    """[instrs][queues]: how many instructions of each queue are over when an instruction begins."""
    size = len(lanes.queues)
    ends: list[list[int]] = []
    begins: list[list[int]] = []
    now = [[0] * size for _ in range(size)]
    for at in range(len(lanes.nid)):
        q = int(lanes.qid[at])
        clock = now[q]
        for other in lanes.wait[lanes.wait_ptr[at] : lanes.wait_ptr[at + 1]].tolist():
            if not 0 <= other < at:
                raise refuse(
                    plan,
                    "race",
                    f"instruction {at} waits for instruction {other}, which does not come before it",
                    nid=int(lanes.nid[at]),
                )
            clock = [max(pair) for pair in zip(clock, ends[other], strict=True)]
        begins.append(clock)
        now[q] = [count + (i == q) for i, count in enumerate(clock)]
        ends.append(now[q])
    return begins


def _positions(queue: list[int], count: int) -> list[int]:
    """The position of each instruction in its queue."""
    seen, positions = [0] * count, []
    for q in queue:
        positions.append(seen[q])
        seen[q] += 1
    return positions


def _pieces(plan: Plan) -> list[list[tuple[int, int]]]:
    """The pieces of bytes of each storage, each (memory, number)."""
    storage = plan.storage
    found: list[list[tuple[int, int]]] = [[] for _ in range(storage.count)]
    memory = storage.region
    for which in unique_values(memory).tolist():
        sids = np.flatnonzero((memory == which) & (storage.extent > 0))
        cuts = unique_values(np.concatenate([storage.offset[sids], (storage.offset + storage.extent)[sids]]))
        for sid, (first, last) in zip(sids.tolist(), _spans(storage, sids, cuts), strict=True):
            found[sid] = [(which, piece) for piece in range(first, last)]
    return found


def _spans(storage, sids: np.ndarray, cuts: np.ndarray) -> Iterator[tuple[int, int]]:
    first = np.searchsorted(cuts, storage.offset[sids])
    last = np.searchsorted(cuts, (storage.offset + storage.extent)[sids])
    return zip(first.tolist(), last.tolist(), strict=True)


def _race(plan: Plan, lanes, first: int, second: int, writes: bool):
    names = [plan.graph.names[int(lanes.nid[at])] for at in (first, second)]
    where = [
        f"{plan.devices[did]} {role}"
        for did, role in (lanes.queues[int(lanes.qid[at])] for at in (first, second))
    ]
    return refuse(
        plan,
        "race",
        f"{names[1]!r} on {where[1]} {'writes' if writes else 'reads'} bytes that "
        f"{names[0]!r} on {where[0]} uses, and nothing makes it wait: the plan was made for one "
        "queue",
        nid=int(lanes.nid[second]),
        got=names[0],
    )
