"""The branch that an If takes, as nodes that may come in its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .control_checks import subgraph_of

__all__ = ["taken_branch"]


def taken_branch(node: Any, taken: bool, names: Collection[str], path: str) -> Any:
    """The branch's graph; what it makes has other names where one of ``names`` is the same: files may name
    values of two branches alike."""
    branch = subgraph_of(node, "then_branch" if taken else "else_branch", path)
    made = {name for inner in branch.node for name in inner.output if name}
    made |= {tensor.name for tensor in branch.initializer}
    if not (twice := made & set(names)):
        return branch
    copy = type(branch)()
    copy.CopyFrom(branch)
    stem = node.name or node.output[0]
    others = {name: _unused(f"{stem}.{name}", names) for name in twice}
    _rename(copy, others)
    return copy


def _unused(name: str, names: Collection[str]) -> str:
    while name in names:
        name += "_"
    return name


def _rename(graph: Any, others: Mapping[str, str]) -> None:
    for items in (graph.initializer, graph.output):
        for item in items:
            item.name = others.get(item.name, item.name)
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = others.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, others)
