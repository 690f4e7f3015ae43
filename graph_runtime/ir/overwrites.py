"""An order of nodes in which all that reads an input comes before what overwrites it."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence

__all__ = ["in_order"]


def in_order(
    readers: Sequence[Collection[int]], claims: Iterable[tuple[int, Collection[int]]]
) -> tuple[list[int], list[bool]]:
    """The nodes in such an order, as near to theirs as there is one, and which of the claims it follows.

    ``readers``: of each node those that read its results; a claim is (a node that writes into an input, the
    nodes that read that input). One cannot be followed where such a reader needs the node's own result, or
    others' claims say the contrary; the first ones come first.
    """
    edges = [set(each) for each in readers]
    kept = []
    for writer, reading in claims:
        before = set(reading) - {writer}
        possible = not _reaches(edges, writer, before)
        kept.append(possible)
        for i in before if possible else ():
            edges[i].add(writer)
    return _sorted(edges), kept


def _reaches(edges: Sequence[set[int]], start: int, wanted: set[int]) -> bool:
    stack, seen = [start], {start}
    while stack:
        for i in edges[stack.pop()] - seen:
            if i in wanted:
                return True
            seen.add(i)
            stack.append(i)
    return False


def _sorted(edges: Sequence[set[int]]) -> list[int]:
    waits = [0] * len(edges)
    for found in edges:
        for i in found:
            waits[i] += 1
    ready = [i for i, count in enumerate(waits) if not count]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for i in edges[order[-1]]:
            waits[i] -= 1
            if not waits[i]:
                heapq.heappush(ready, i)
    return order
