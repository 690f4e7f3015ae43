"""Outputs that are written into the memory of inputs, on a tape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.overwrites import in_order
from .tape import TapeNode, TapeValue

__all__ = ["in_place"]


def in_place(
    nodes: Sequence[TapeNode], outputs: Mapping[str, TapeValue], aliases: Mapping[str, str]
) -> tuple[list[TapeNode], dict[str, str]]:
    """The nodes in an order in which inputs are read before they are overwritten, and the aliases that have
    one. An output that is no node's own result has memory of its own."""
    at = {id(node): i for i, node in enumerate(nodes)}
    readers: list[set[int]] = [set() for _ in nodes]
    of_input: dict[str, set[int]] = {}
    for i, node in enumerate(nodes):
        for value in node.inputs:
            if value.node is not None:
                readers[at[id(value.node)]].add(i)
            elif value.constant is None:
                of_input.setdefault(value.name, set()).add(i)
    made = [id(value) for value in outputs.values()]
    read = {value.name for value in outputs.values() if value.node is None and value.constant is None}
    own = {
        name: source
        for name, source in aliases.items()
        if outputs[name].node is not None and made.count(id(outputs[name])) == 1 and source not in read
    }
    claims = [(at[id(outputs[name].node)], of_input.get(source, set())) for name, source in own.items()]
    order, kept = in_order(readers, claims)
    found = dict(each for each, follows in zip(own.items(), kept, strict=True) if follows)
    return [nodes[i] for i in order], found
