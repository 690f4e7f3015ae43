"""Links that copies occupy while they run: the links of each instruction, and the times at which each link is
free."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection

import numpy as np

from ..costs import CostModel
from ..ir.graph import COPY
from ..plan.columns import func_mask
from ..plan.types import Plan
from .uploads import home_of


def links_of(
    plan: Plan, nid: np.ndarray, brought: Collection[int], costs: CostModel
) -> tuple[tuple[str, ...], list[list[int]]]:
    """Pair of the names of links and, for each instruction, the links that the instruction occupies, as
    indices into the names. ``brought``: the rows of instructions that bring an input from the caller."""
    names: dict[str, int] = {}
    graph, home, held = plan.graph, home_of(plan), []
    copies = func_mask(graph, COPY)
    for row, n in enumerate(nid.tolist()):
        found: tuple[str, ...] = ()
        if row in brought:
            found = costs.links(home, plan.devices[plan.did[n]])
        elif copies[n]:
            source = plan.devices[plan.did[graph.maker(int(graph.in_eid[graph.in_ptr[n]]))]]
            found = costs.links(source, plan.devices[plan.did[n]])
        held.append([names.setdefault(name, len(names)) for name in found])
    return tuple(names), held


class HeldLinks:
    """Occupied intervals of links. A copy begins as soon as all its links are free for its whole duration,
    even before a copy of an earlier run that starts later. Copies of one run use a link in the order of the
    run.
    """

    def __init__(self, count: int):
        self.start: list[list[int]] = [[] for _ in range(count)]  # starts of each link's intervals, ascending
        self.end: list[list[int]] = [[] for _ in range(count)]
        self.user: list[list[int]] = [[] for _ in range(count)]  # event that occupies each interval
        self.last: dict[tuple[int, int], tuple[int, int]] = {}  # {(run, link): (last event, its end)}

    def take(self, links: list[int], run: int, at: int, begin: int, ns: int, why: int) -> tuple[int, int]:
        """Let event ``at`` of a run occupy ``links`` for ``ns``, from ``begin`` or later. Returns the event's
        start, and the event for which event ``at`` waited (``why`` if it did not wait)."""
        for link in links:
            user, end = self.last.get((run, link), (-1, 0))
            if end > begin:
                begin, why = end, user
        waits = True
        while waits:
            waits = False
            for link in links:
                start, end_, user_ = self.start[link], self.end[link], self.user[link]
                slot = bisect_right(end_, begin)
                while slot < len(start) and start[slot] < begin + ns:
                    begin, why, waits = end_[slot], user_[slot], True
                    slot += 1
        for link in links:
            slot = bisect_left(self.start[link], begin)
            self.start[link].insert(slot, begin)
            self.end[link].insert(slot, begin + ns)
            self.user[link].insert(slot, at)
            self.last[run, link] = at, begin + ns
        return begin, why
