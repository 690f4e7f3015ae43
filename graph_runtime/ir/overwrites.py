"""An order of nodes in which the readers of an input come before the node that overwrites it."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence


def in_order(
    readers: Sequence[Collection[int]], claims: Iterable[tuple[int, Collection[int]]]
) -> tuple[list[int], list[bool]]:
    """(the nodes in an order close to the given one, for each claim whether the order satisfies it).

    ``readers``: for each node the nodes that read its results. A claim is (a node that writes into an input,
    the nodes that read the input): the readers must run before the writer. This is impossible if a reader
    needs the writer's result, or if it contradicts earlier claims.
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
