"""The checker's rule about queues: two instructions that touch the same bytes, of which one or both write,
are ordered by queue order and waits, and in the order of the graph. The rule shares no code with lanes.py.

Each instruction has a vector clock: the number of instructions of each queue that are over when the
instruction begins. Instruction a comes before b if b's clock counts a among the instructions of a's queue.
Memory is cut where any storage begins or ends. Each piece of memory then has one history: its last writer,
and the readers since that write.
"""

from __future__ import annotations

import numpy as np

from ...base.unique import unique_values
from ..types import Plan
from .facts import refuse


def check_races(plan: Plan, lanes) -> None:
    """Raises CheckError (rule "race") with both nodes if two uses of the same bytes are not ordered, or if
    the lanes are invalid: an instruction out of order, or a wait for a later instruction."""
    graph, clock = plan.graph, clocks(plan, lanes)
    queue = [int(q) for q in lanes.qid]
    position = _positions(queue, len(lanes.queues))

    def before(a: int, b: int) -> bool:
        return a == b or clock[b][queue[a]] > position[a]

    pieces = _pieces(plan)
    writer: dict[tuple[int, int], int] = {}
    readers: dict[tuple[int, int], list[int]] = {}
    for at, nid in enumerate(int(n) for n in lanes.nid):
        sids = plan.sid[graph.in_eid[graph.in_ptr[nid] : graph.in_ptr[nid + 1]]]
        read = {piece for sid in sids for piece in pieces[sid]}
        sids = plan.sid[graph.row_ptr[nid] : graph.row_ptr[nid + 1]]
        written = {piece for sid in sids for piece in pieces[sid]}
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
    """[instrs][queues]: the number of instructions of each queue that are over when an instruction begins."""
    size = len(lanes.queues)
    ends: list[list[int]] = []
    begins: list[list[int]] = []
    now = [[0] * size for _ in range(size)]
    for at in range(len(lanes.nid)):
        q = int(lanes.qid[at])
        clock = now[q]
        for other in lanes.wait[lanes.wait_ptr[at] : lanes.wait_ptr[at + 1]].tolist():
            if not 0 <= other < at:
                text = f"instruction {at} waits for instruction {other}, which does not come before it"
                raise refuse(plan, "race", text, nid=int(lanes.nid[at]))
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
    """For each storage the pieces of bytes that it covers, each as (memory, number of the piece)."""
    storage = plan.storage
    found: list[list[tuple[int, int]]] = [[] for _ in range(storage.count)]
    memory = storage.region
    for which in unique_values(memory).tolist():
        sids = np.flatnonzero((memory == which) & (storage.extent > 0))
        begin, end = storage.offset[sids], (storage.offset + storage.extent)[sids]
        cuts = unique_values(np.concatenate([begin, end]))
        spans = np.searchsorted(cuts, begin).tolist(), np.searchsorted(cuts, end).tolist()
        for sid, first, last in zip(sids.tolist(), *spans, strict=True):
            found[sid] = [(which, piece) for piece in range(first, last)]
    return found


def _race(plan: Plan, lanes, first: int, second: int, writes: bool):
    queues = [f"{plan.devices[did]} {role}" for did, role in lanes.queues]
    (a, here), (b, there) = (
        (plan.graph.names[int(lanes.nid[at])], queues[int(lanes.qid[at])]) for at in (first, second)
    )
    text = (
        f"{b!r} on {there} {'writes' if writes else 'reads'} bytes that {a!r} on {here} uses, and nothing "
        "makes it wait: the plan was made for one queue"
    )
    return refuse(plan, "race", text, nid=int(lanes.nid[second]), got=a)
