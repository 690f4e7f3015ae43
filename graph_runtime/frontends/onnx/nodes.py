"""Nodes of ONNX graphs: their keys, the graphs in them, and an order in which they can run. Some tools, such
as ONNX Runtime's float16 converter, write files in which a node precedes nodes that it reads."""

from __future__ import annotations

import heapq
from typing import Any


def domain_of(name: str) -> str:
    """A domain's name as in the tables of converters: "" for ONNX's default domain."""
    return "" if name == "ai.onnx" else name


def op_key(node: Any) -> tuple[str, str]:
    """(domain, op) of a node."""
    return domain_of(node.domain), node.op_type


def subgraphs(node: Any) -> list[Any]:
    """The graphs among a node's attributes."""
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def all_nodes(graph: Any) -> list[Any]:
    """All nodes of a graph or function, with those of its subgraphs."""
    found = list(graph.node)
    for node in graph.node:
        for inner in subgraphs(node):
            found += all_nodes(inner)
    return found


def sort_nodes(graph: Any) -> None:
    """Sort the nodes of a graph and of its subgraphs so that each follows the nodes that it reads; otherwise
    the file's order is kept. A graph with a cycle stays unchanged; check_graph reports the cycle."""
    for node in graph.node:
        for inner in subgraphs(node):
            sort_nodes(inner)
    maker = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    reads_of = ({maker[name] for name in names_read(node) if name in maker} for node in graph.node)
    if all(max(found, default=-1) < i for i, found in enumerate(reads_of)):
        return  # nearly all graphs are in order
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
    """Indices of nodes, in an order in which each node follows the nodes that it reads. If several nodes may
    be next, the smallest index comes first. Nodes in a cycle are left out. ``reads``: for each node the
    indices of the nodes that it reads."""
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


def names_read(node: Any) -> set[str]:
    """Names of the node's inputs, and of the outer values that its subgraphs read."""
    found = set(node.input)
    for graph in subgraphs(node):
        own = {item.name for items in (graph.input, graph.initializer) for item in items}
        own |= {name for inner in graph.node for name in inner.output}
        inner_reads = {name for inner in graph.node for name in names_read(inner)}
        found |= (inner_reads | {info.name for info in graph.output}) - own
    return found - {""}
