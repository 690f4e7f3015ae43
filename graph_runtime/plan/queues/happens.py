"""Order of instructions on queues that run at the same time: for each instruction, the earlier instructions
whose bytes it may use without a wait.

Instruction a happens before instruction b if data or the order of a queue requires that. An instruction's
vector clock counts, for each queue, the instructions that are over when the instruction begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..columns import Values, is_nop, slot_nid
from ..types import PlacedGraph
from .lanes import assign_queues

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Happens:
    """``begin`` int64 [nodes, queues + 1]: the clock of each node. The last column is the position in node
    order, which lets a ``__nop`` count as a reader, though no queue runs it. ``qid`` and ``position`` int64
    [nodes]: the queue of each node and the node's position in this queue, -1 for nodes that no queue runs."""

    begin: np.ndarray
    qid: np.ndarray
    position: np.ndarray

    @property
    def count(self) -> int:
        """Number of queues."""
        return self.begin.shape[1] - 1

    def users(self, placed: PlacedGraph, of: np.ndarray, born: np.ndarray, kept: np.ndarray) -> Users:
        """The Users of groups of entries (``of`` int64 [entries]: each entry's group). ``born`` int64
        [groups]: the node that writes the group first, -1 if no instruction does. ``kept`` bool [groups]:
        whether the group is needed for ever."""
        graph = placed.graph
        end = np.zeros((len(born), self.begin.shape[1]), np.int64)
        for row, nid in ((of, graph.entry_nid), (of[graph.in_eid], slot_nid(graph))):
            runs = self.qid[nid] >= 0
            np.maximum.at(end, (row[runs], self.qid[nid][runs]), self.position[nid][runs] + 1)
            np.maximum.at(end[:, -1], row, nid + 1)
        end[kept | (born < 0)] = _NEVER
        return Users(self.begin[born], end)


@dataclass(frozen=True, slots=True, eq=False)
class Users:
    """The clocks between which each group of entries uses its bytes. ``begin`` int64 [groups, queues + 1]:
    the clock when the group is first written. ``end`` int64 [groups, queues + 1]: the clock at which another
    group may be written to the same bytes."""

    begin: np.ndarray
    end: np.ndarray

    def conflicts(self, rows: np.ndarray) -> np.ndarray:
        """bool [rows, rows]: whether two groups are in conflict, because neither is over before the other
        begins."""
        begin, end = self.begin[rows], self.end[rows]
        after = np.ones((len(rows), len(rows)), bool)  # [a, b]: whether a is over before b begins
        for queue in range(begin.shape[1]):
            after &= end[:, queue, None] <= begin[None, :, queue]
        return ~(after | after.T)

    def greedy(self, rows: np.ndarray, size: np.ndarray, region: np.ndarray) -> np.ndarray:
        """int64 [rows]: the block of each group, by the rule of buffers.greedy. ``rows``: indices of groups
        in the order in which these are written."""
        block = np.zeros(len(rows), np.int64)
        capacity: list[int] = []
        user: list[int] = []
        of_region: dict[int, list[int]] = {}
        for at, (row, need, r) in enumerate(zip(rows.tolist(), size.tolist(), region.tolist(), strict=True)):
            mine = of_region.setdefault(r, [])
            over = (self.end[[user[b] for b in mine]] <= self.begin[row]).all(axis=1).tolist() if mine else []
            free = sorted((capacity[b], b) for b, is_over in zip(mine, over, strict=True) if is_over)
            if free:
                found = next((b for c, b in free if c >= need), free[-1][1])
                capacity[found], user[found] = max(capacity[found], need), row
            else:
                found = len(capacity)
                capacity.append(need)
                user.append(row)
                mine.append(found)
            block[at] = found
        return block


def happens(placed: PlacedGraph, values: Values) -> Happens:
    """The clocks of a placed graph; ``values``: the graph's values, joined through ``__nop``s."""
    graph = placed.graph
    nid = np.flatnonzero((graph.func_id >= 0) & ~is_nop(graph) & ~placed.at_input)
    queues, of_instr = assign_queues(placed, nid)
    count = max(len(queues), 1)
    qid, position = np.full(graph.num_nodes, -1, np.int64), np.full(graph.num_nodes, -1, np.int64)
    qid[nid] = of_instr
    for queue in range(count):
        mine = nid[of_instr == queue]
        position[mine] = np.arange(len(mine))
    begin = np.zeros((graph.num_nodes, count + 1), np.int64)
    begin[:, -1] = np.arange(graph.num_nodes)
    maker = graph.entry_nid[values.of]
    producer = maker[graph.in_eid].tolist()
    first, queues_of, positions = graph.in_ptr.tolist(), qid.tolist(), position.tolist()
    now = [[0] * count for _ in range(count)]
    after: dict[int, list[int]] = {}
    for node in nid.tolist():
        clock = now[queues_of[node]]
        for source in producer[first[node] : first[node + 1]]:
            if queues_of[source] >= 0 and clock[queues_of[source]] <= positions[source]:
                clock = list(map(max, clock, after[source]))
        begin[node, :-1] = clock
        now[queues_of[node]] = after[node] = [c + (q == queues_of[node]) for q, c in enumerate(clock)]
    return Happens(begin, qid, position)


def take_over_in_order(placed: PlacedGraph, values: Values, donor: np.ndarray, order: Happens) -> np.ndarray:
    """``donor`` (the result of buffers.take_over) without take-overs of values that another queue may still
    read."""
    taken = np.flatnonzero(donor != np.arange(len(donor)))
    kept = values.last >= placed.graph.num_nodes
    users = order.users(placed, values.of, np.maximum(values.born, 0), kept)
    node = placed.graph.entry_nid[taken]
    limit = order.begin[node].copy()
    limit[np.arange(len(taken)), order.qid[node]] += 1  # allow the node's own read
    limit[:, -1] += 1
    late = (users.end[donor[taken]] > limit).any(axis=1)
    donor = donor.copy()
    donor[taken[late]] = taken[late]
    return donor
