"""Nodes in the order in which they can run. Some tools, ONNX Runtime's float16 converter among them, write
files in which a node comes before those that it reads."""

from __future__ import annotations

import heapq
from typing import Any

__all__ = ["names_read", "sort_nodes"]


def sort_nodes(graph: Any) -> None:
    """Put a graph's nodes, and those of its subgraphs, behind what they read; of those that may come next,
    the file's first one does. A graph in order stays as it is; so does one with a cycle, which check_graph
    names."""
    for node in graph.node:
        for inner in _subgraphs(node):
            sort_nodes(inner)
    maker = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    reads_of = ({maker[name] for name in names_read(node) if name in maker} for node in graph.node)
    if all(max(found, default=-1) < i for i, found in enumerate(reads_of)):
        return  # as nearly all are
    reads = [{maker[name] for name in names_read(node) if name in maker} for node in graph.node]
    order = _topological(reads)
    if len(order) < len(reads):
        return
    nodes = list(graph.node)
    copies = [type(nodes[i])() for i in order]
    for copy, i in zip(copies, order, strict=True):
        copy.CopyFrom(nodes[i])
    del graph.node[:]
    graph.node.extend(copies)


def _topological(reads: list[set[int]]) -> list[int]:
    """Indices behind those that they read, the smallest first; those in a cycle are left out."""
    readers: list[list[int]] = [[] for _ in reads]
    for i, found in enumerate(reads):
        for made in found:
            readers[made].append(i)
    waits = [len(found) for found in reads]
    ready = [i for i, count in enumerate(waits) if not count]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for i in readers[order[-1]]:
            waits[i] -= 1
            if not waits[i]:
                heapq.heappush(ready, i)
    return order


def _subgraphs(node: Any) -> list[Any]:
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def names_read(node: Any) -> set[str]:
    """Inputs of the node, and what its subgraphs read of the graphs around them."""
    found = set(node.input)
    for graph in _subgraphs(node):
        own = {item.name for items in (graph.input, graph.initializer) for item in items}
        own |= {name for inner in graph.node for name in inner.output}
        inner_reads = {name for inner in graph.node for name in names_read(inner)}
        found |= (inner_reads | {info.name for info in graph.output}) - own
    return found - {""}
