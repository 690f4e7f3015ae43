"""Outputs that are written into the memory of inputs: an order in which all that reads an input comes before
what overwrites it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from .tape import TapeNode, TapeValue

__all__ = ["in_place"]


def in_place(
    nodes: Sequence[TapeNode], outputs: Mapping[str, TapeValue], aliases: Mapping[str, str]
) -> tuple[list[TapeNode], dict[str, str]]:
    """The nodes in such an order, and the aliases that have one. An output that is no node's own result, or
    that something which reads the input needs, has memory of its own."""
    at = {id(node): i for i, node in enumerate(nodes)}
    readers: list[set[int]] = [set() for _ in nodes]
    of_input: dict[str, set[int]] = {}
    for i, node in enumerate(nodes):
        for value in node.inputs:
            if value.node is not None:
                readers[at[id(value.node)]].add(i)
            elif value.constant is None:
                of_input.setdefault(value.name, set()).add(i)
    names = [id(value) for value in outputs.values()]
    read = {value.name for value in outputs.values() if value.node is None and value.constant is None}
    kept = {}
    for name, source in aliases.items():
        value = outputs[name]
        if value.node is None:
            continue
        maker, before = at[id(value.node)], of_input.get(source, set())
        if names.count(id(value)) > 1 or source in read or _reaches(readers, maker, before - {maker}):
            continue
        for i in before - {maker}:
            readers[i].add(maker)
        kept[name] = source
    return [nodes[i] for i in _sorted(readers)], kept


def _reaches(readers: Sequence[set[int]], start: int, wanted: set[int]) -> bool:
    stack, seen = [start], {start}
    while stack:
        for i in readers[stack.pop()] - seen:
            if i in wanted:
                return True
            seen.add(i)
            stack.append(i)
    return False


def _sorted(readers: Sequence[set[int]]) -> list[int]:
    waits = [0] * len(readers)
    for found in readers:
        for i in found:
            waits[i] += 1
    ready = [i for i, count in enumerate(waits) if not count]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for i in readers[order[-1]]:
            waits[i] -= 1
            if not waits[i]:
                heapq.heappush(ready, i)
    return order
