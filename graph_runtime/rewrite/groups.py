"""Groups of elementwise ops that become one kernel: a seed and the nodes that follow it. A group is closed:
nothing else reads its inner values, and no value is computed twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..ir.ops import registry, steps
from ..ir.ops.numerics import Numerics
from .net import Net, NetNode, NetValue

_LOOKAHEAD = 8  # nodes that may be added before the group is closed again
_MOST = 16  # most steps of a group: tensors of a longer group do not stay in the nearest cache


@dataclass
class Group:
    """Nodes that become one kernel. ``nodes``: in order. If the first is a product, the steps read its result
    as -1. Nodes outside the group read only the result of its last node."""

    nodes: list[NetNode]
    has_product: bool

    def body(self, first_input: int) -> tuple[list[NetValue], list[Any]]:
        """The inputs that the steps read from outside, and the steps, in which these inputs have numbers from
        ``first_input``."""
        inputs: dict[NetValue, int] = {}
        made = {node.output: -1 - j for j, node in enumerate(self.nodes)}
        body = []
        for node in self.nodes[1:] if self.has_product else self.nodes:
            reads = [
                made[v] if v in made else inputs.setdefault(v, first_input + len(inputs)) for v in node.inputs
            ]
            body.append([node.op, reads, _given(node)])
        return list(inputs), body


def is_step(node: NetNode) -> bool:
    """Whether a node can be a step: all its tensors have one dtype, and it has no numerics of its own,
    because all steps run with the device's."""
    return (
        steps.code_of(node.op) > 0
        and Numerics.of(node.attrs) == Numerics()
        and node.output.dtype in steps.DTYPES
        and all(v.dtype == node.output.dtype for v in node.inputs)
    )


def _given(node: NetNode) -> dict[Any, Any]:
    defaults = {a.name: a.default for a in registry.require(node.op_name).attrs}
    return {key: v for key, v in node.attrs.items() if key in defaults and v != defaults[key]}


def grow(seed: NetNode, position: dict[NetNode, int]) -> Iterator[Group]:
    """The groups of at least two nodes that begin with a seed, the largest group first. All nodes have the
    seed's type and device. ``position``: place of each node in the order of the graph."""
    has_product = not is_step(seed)
    nodes, inside, whole = [seed], {seed}, list[list[NetNode]]()
    while len(nodes) <= _MOST and len(nodes) - (len(whole[-1]) if whole else 1) < _LOOKAHEAD:
        following = _next(nodes, inside, position)
        if following is None:
            break
        more = [following] if has_product else [*_alone(following, inside), following]
        nodes += more
        inside.update(more)
        if _is_closed(nodes, inside):
            whole.append(list(nodes))
    return (Group(found, has_product) for found in whole[::-1] if len(found) <= _MOST + has_product)


def _next(nodes: list[NetNode], inside: set[NetNode], position: dict[NetNode, int]) -> NetNode | None:
    """The first node after the group that reads its values and may join."""
    readers = {r for n in nodes for r in n.output.readers if r not in inside and r in position}
    for reader in sorted(readers, key=position.__getitem__):
        if _joins(reader, nodes[0]):
            return reader
    return None


def _joins(node: NetNode, seed: NetNode) -> bool:
    return is_step(node) and node.output.type == seed.output.type and node.device == seed.device


def _alone(node: NetNode, inside: set[NetNode]) -> list[NetNode]:
    """Elementwise producers of a node's other inputs that only this node and the group read, in order."""
    found: list[NetNode] = []
    for value in node.inputs:
        maker = value.producer
        if maker is None or maker in inside or maker in found or not _joins(maker, node):
            continue
        if value.heads or any(r is not node and r not in inside for r in value.readers):
            continue
        found += [n for n in _alone(maker, inside) if n not in found] + [maker]
    return found


def _is_closed(nodes: list[NetNode], inside: set[NetNode]) -> bool:
    """Whether other nodes read only the last node's result."""
    return not any(n.output.heads or any(r not in inside for r in n.output.readers) for n in nodes[:-1])


def fused_groups(net: Net) -> None:
    """Fuse successive elementwise ops of one type into one kernel."""
    position = {node: i for i, node in enumerate(net.nodes())}
    for node in list(net.nodes()):
        if node.alive and is_step(node) and len(node.outputs) == 1:
            for group in grow(node, position):
                if _take(net, group):
                    break


def _take(net: Net, group: Group) -> bool:
    inputs, body = group.body(0)
    if not net.keeps_support(group.nodes, "fused", inputs, body=body):
        return False
    last = group.nodes[-1]
    net.note("fused_groups", f"{', '.join(n.name for n in group.nodes)} are one kernel", group.nodes)
    net.replace(
        last.output,
        net.add("fused", inputs, before=last, body=body, origins=[o for n in group.nodes for o in n.origins]),
    )
    return True
