"""Fusion of elementwise ops into the product that they follow, as the product's epilogue: the ops run on the
product's results while these are in cache."""

from __future__ import annotations

from .groups import Group, grow
from .net import Net, NetNode
from .products import WITH_EPILOGUE, given


def epilogues(net: Net) -> None:
    """Fuse a product with the elementwise ops of its type that follow it (bias, activation, residual). Fusion
    ends with the first op whose result has further readers."""
    position = {node: i for i, node in enumerate(net.nodes())}
    for node in sorted(net.nodes(*WITH_EPILOGUE), key=position.__getitem__):
        if node.attrs["epilogue"]:
            continue
        for group in grow(node, position):
            if _take(net, node, group):
                break


def _take(net: Net, product: NetNode, group: Group) -> bool:
    """Replace a product and a group by one node; False if some device that runs them could not run that
    node."""
    inputs, epilogue = group.body(len(product.inputs))
    attrs = {**given(product), "epilogue": epilogue}
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
