"""Moves past elementwise ops: transposes move so that they cancel or join, and reshapes of products so that
the ops can become epilogues of the products."""

from __future__ import annotations

from typing import Any

from ..base.machine.descriptors import HOST_KERNELS
from ..base.machine.devices import kernels_of
from ..ir.ops import registry, steps
from .net import Net, NetNode, NetValue
from .neutral import permutation, reshaped
from .products import PRODUCTS

_LONGEST = 16  # most ops between two transposes


def sink_transposes(net: Net) -> None:
    """Move transposes behind the elementwise ops that follow, next to a later transpose."""
    for node in net.nodes("transpose"):
        chain = _chain(node)
        if not chain or not net.together([node, *chain]):
            continue
        first = chain[-1].inputs[_carrier(chain[-1])].maker
        perm = permutation(first)
        value = first.inputs[0]
        for op in chain[::-1]:
            inputs = [value if _is_carried(v) else v for v in op.inputs]
            value = net.add(op.op_name, inputs, before=op, **_given(op))
        moved = net.add(
            "transpose", [value], before=node, name=first.name, perm=list(perm), origins=first.origins
        )
        net.note(
            "sink_transposes",
            f"{first.name} goes behind {', '.join(n.name for n in chain[::-1])}, to {node.name}",
            [first, *chain, node],
        )
        net.replace(node.inputs[0], moved)


def _chain(node: NetNode) -> list[NetNode]:
    """The elementwise ops between this transpose and an earlier transpose, last first; [] if there is no
    earlier transpose."""
    chain: list[NetNode] = []
    value = node.inputs[0]
    while value.used_once and value.op != "transpose" and len(chain) < _LONGEST:
        op = value.producer
        if op is None or not _moves_along(op):
            return []
        chain.append(op)
        value = op.inputs[_carrier(op)]
    found = value.op == "transpose" and value.used_once
    return chain if found else []


def _moves_along(node: NetNode) -> bool:
    """Whether the node is an elementwise op of one tensor; its other inputs are single numbers, which a
    transpose does not change."""
    if not steps.code_of(node.op) and node.op != "cast":
        return False
    carried = [v for v in node.inputs if _is_carried(v)]
    return len(carried) == 1 and carried[0].shape == node.output.shape


def _is_carried(value: NetValue) -> bool:
    return value.type.size != 1 or value.constant is None


def _carrier(node: NetNode) -> int:
    return next(i for i, v in enumerate(node.inputs) if _is_carried(v))


def _given(node: NetNode) -> dict[Any, Any]:
    known = {a.name for a in registry.require(node.op_name).attrs}
    return {key: v for key, v in node.attrs.items() if key in known and v not in (None, "", ())}


# ---------------------------------------------------------------- reshapes


def sink_reshapes(net: Net) -> None:
    """Move elementwise ops before the reshape of a product, so that they can become the product's epilogue or
    be folded into its weights. An op of several tensors moves, too, if the reshape only adds or removes
    dimensions of size 1, as around a 1-d convolution. For models on hosts only, where reshapes are free; on
    tt the shape determines the tiles of a tensor."""
    if any(kernels_of(kind) != HOST_KERNELS for kind in net.kinds):
        return
    made: set[NetValue] = set()  # results of moved ops; ops that read them may move, too
    for node in net.nodes():
        if not steps.code_of(node.op):
            continue
        carried = next((v for v in node.inputs if _is_reshaped_product(v, made)), None)
        if carried is None or carried.shape != node.output.shape:
            continue
        inputs = _in_shape_of(net, node, carried)
        if inputs is None or not net.together([carried.maker, node]):
            continue
        value = net.add(node.op_name, inputs, before=node, **_given(node))
        made.add(value)
        net.note("sink_reshapes", f"{carried.maker.name} goes behind {node.name}", [carried.maker, node])
        net.replace(node.output, reshaped(net, value, node.output.shape, node))


def _is_reshaped_product(value: NetValue, made: set[NetValue]) -> bool:
    maker = value.producer
    if maker is None or not maker.is_nop:
        return False
    source = maker.inputs[0]
    return source.dtype == value.dtype and (source.op in PRODUCTS or source in made)


def _in_shape_of(net: Net, node: NetNode, carried: NetValue) -> list[NetValue] | None:
    """The inputs of an op, reshaped so that they broadcast to ``carried`` before its reshape; None if an
    input cannot be reshaped so."""
    source = carried.maker.inputs[0]
    found = []
    for value in node.inputs:
        shape = _before_reshape(value.shape, carried.shape, source.shape)
        if shape is None:
            return None
        found.append(source if value is carried else reshaped(net, value, shape, node))
    return found


def _before_reshape(
    shape: tuple[int, ...], after: tuple[int, ...], before: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The shape that broadcasts to ``before`` as ``shape`` broadcasts to ``after``; None if there is no such
    shape."""
    if all(n == 1 for n in shape):
        return (1,) * min(len(shape), len(before))
    if shape == after:
        return before
    if [n for n in after if n != 1] != [n for n in before if n != 1]:
        return None
    own = iter(
        n for n, whole in zip((1,) * (len(after) - len(shape)) + shape, after, strict=True) if whole != 1
    )
    return tuple(1 if n == 1 else next(own) for n in before)
