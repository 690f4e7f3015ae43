"""Elementwise ops that follow a product run on its results while they are in cache: its epilogue."""

from __future__ import annotations

from .groups import Group, grow
from .net import Net, NetNode
from .products import WITH_EPILOGUE, given

__all__ = ["epilogues"]


def epilogues(net: Net) -> None:
    """Bias, activation, residual and what else follows a product and is of its type, up to the first value
    that others read too."""
    position = {node: i for i, node in enumerate(net.nodes())}
    for node in sorted(net.nodes(*WITH_EPILOGUE), key=position.__getitem__):
        if node.attrs["epilogue"]:
            continue
        for group in grow(node, position):
            if _take(net, node, group):
                break


def _take(net: Net, product: NetNode, group: Group) -> bool:
    """Make one node of a product and a group; False where some device would lose it."""
    inputs, program = group.program(len(product.inputs))
    attrs = {**given(product), "epilogue": program}
    inputs = [*product.inputs, *inputs]
    if not net.keeps_support(group.nodes, product.op_name, inputs, **attrs):
        return False
    steps = [n.name for n in group.nodes[1:]]
    net.note(
        "epilogues",
        f"{', '.join(steps)} run{'s' if len(steps) == 1 else ''} on the results of "
        f"{product.name} while they are in cache",
        group.nodes,
    )
    last = group.nodes[-1]
    net.replace(
        last.output,
        net.add(
            product.op_name, inputs, before=last, origins=[o for n in group.nodes for o in n.origins], **attrs
        ),
    )
    return True
