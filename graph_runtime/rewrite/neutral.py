"""Removal of nodes that change nothing, alone (x + 0, x * 1) or together (casts there and back, inverse
transposes, chains of reshapes), and of all but one of several equal nodes."""

from __future__ import annotations

from typing import Any

from ..base import dtypes
from ..ir.ops import registry
from ..ir.ops.moving.shape import exactly
from .net import Net, NetNode, NetValue

# {op: number with which the op changes nothing as its second input, or as either input if the op is in
# _COMMUTE}
_NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0, "power": 1.0}
_COMMUTE = ("add", "multiply")


def neutral(net: Net) -> None:
    """Replace x + 0, x - 0, x * 1, x / 1 and x ** 1 by x, unless the number's shape broadcasts x."""
    for node in net.nodes(*_NEUTRAL):
        x, y = node.inputs
        for value, other in ((x, y), (y, x)) if node.op in _COMMUTE else ((x, y),):
            if value.type == node.output.type and other.scalar() == _NEUTRAL[node.op_name]:
                text = f"{node.name}: {node.op} of {_NEUTRAL[node.op_name]:g} changes nothing"
                net.note("neutral", text, [node])
                net.replace(node.output, value)
                break


def casts(net: Net) -> None:
    """Remove a cast to the type that a value has, and two casts there and back through a dtype that holds all
    its values."""
    for node in net.nodes("cast"):
        x = node.inputs[0]
        if x.type == node.output.type:
            net.note("casts", f"{node.name} casts {x.dtype} to itself", [node])
            net.replace(node.output, x)
        elif x.op == "cast" and _holds(x.maker.inputs[0].dtype, x.dtype):
            source = x.maker.inputs[0]
            net.note(
                "casts",
                f"{x.maker.name} and {node.name} cast {source.dtype} to {node.output.dtype} "
                f"through {x.dtype}, which loses nothing",
                [x.maker, node],
            )
            if source.type == node.output.type:
                net.replace(node.output, source)
            else:
                net.replace(node.output, net.add("cast", [source], before=node, to=node.output.dtype))


def _holds(dtype: str, through: str) -> bool:
    """Whether ``through`` holds all values of ``dtype``."""
    made, wide = dtypes.format_of(dtype), dtypes.format_of(through)
    if made is None or wide is None or made is wide:
        return False
    if made.kind == "float":
        return wide.kind == "float" and made.digits <= wide.digits and made.exponent <= wide.exponent
    return wide.kind != "bool" and (made.kind, wide.kind) != ("int", "uint") and made.digits <= wide.digits


# ---------------------------------------------------------------- reshapes


def reshapes(net: Net) -> None:
    """Join a reshape of a reshape, and remove a reshape to the shape that a value has."""
    for node in net.nodes(*(name for name, op in registry.all_ops().items() if op.is_nop)):
        x = node.inputs[0]
        if x.type == node.output.type:
            net.note("reshapes", f"{node.name} gives the shape that is there", [node])
            net.replace(node.output, x)
        elif x.producer is not None and x.op is not None and x.producer.is_nop:
            first = x.producer.inputs[0]
            net.note("reshapes", f"{x.producer.name} and {node.name} are one reshape", [x.producer, node])
            net.replace(node.output, reshaped(net, first, node.output.shape, node))


def reshaped(net: Net, value: NetValue, shape: tuple[int, ...], before: NetNode, **more: Any) -> NetValue:
    """``value`` reshaped to a shape; ``value`` itself if it already has that shape."""
    if value.shape == shape:
        return value
    return net.add("reshape", [value], before=before, **exactly(shape), **more)


# ---------------------------------------------------------------- transposes


def permutation(node: NetNode) -> tuple[int, ...]:
    """For each dimension of a transpose's result, the dimension of its input."""
    ndim = len(node.output.shape)
    perm = node.attrs["perm"]
    return tuple(p % ndim for p in perm) if perm is not None else tuple(range(ndim))[::-1]


def transposes(net: Net) -> None:
    """Join a transpose of a transpose, or remove both if they cancel. Replace a transpose that only moves
    dimensions of size 1 by a reshape."""
    for node in net.nodes("transpose"):
        x, perm = node.inputs[0], permutation(node)
        if x.op == "transpose" and net.together([x.maker, node]):
            inner = permutation(x.maker)
            both = tuple(inner[p] for p in perm)
            source = x.maker.inputs[0]
            cancel = both == tuple(range(len(both)))
            net.note(
                "transposes",
                f"{x.maker.name} and {node.name} {'cancel' if cancel else 'are one transpose'}",
                [x.maker, node],
            )
            if cancel:
                net.replace(node.output, source)
            else:
                net.replace(node.output, net.add("transpose", [source], before=node, perm=list(both)))
            continue
        moved = [p for p in perm if x.shape[p] != 1]
        if moved == sorted(moved):
            net.note("transposes", f"{node.name} moves no elements: a reshape", [node])
            net.replace(node.output, reshaped(net, x, node.output.shape, node))


def source_of_channels(net: Net, value: NetValue, node: NetNode) -> NetValue | None:
    """The channels-last form of ``value`` [n, c, ..], if a transpose [n, l, c] -> [n, c, l] made the value,
    possibly with a reshape to [n, c, h, w] after it, as between tokens and a convolution; else None. If
    needed, a reshape of that channels-last form is added before ``node``."""
    made, (n, c, *rest) = value.producer, value.shape
    if made is None or made.op is None:
        return None
    source, last = made.inputs[0], (n, *rest, c)
    if made.op == "transpose":
        ndim = len(value.shape)
        return source if permutation(made) == (0, ndim - 1, *range(1, ndim - 1)) else None
    if len(source.shape) < 3 or source.shape[:2] != (n, c) or not registry.require(made.op).is_nop:
        return None
    tokens = source_of_channels(net, source, node)
    return None if tokens is None else reshaped(net, tokens, last, node)


# ---------------------------------------------------------------- equal nodes


def equal_nodes(net: Net) -> None:
    """Merge nodes of one op with equal attributes, inputs and device."""
    seen: dict[tuple[Any, ...], NetNode] = {}
    for node in net.nodes():
        if node.op is None or not node.is_pure:
            continue
        key = (id(node.func), node.device, *map(id, node.inputs))
        first = seen.setdefault(key, node)
        if first is node:
            continue
        net.note("equal_nodes", f"{node.name} computes what {first.name} does", [first, node])
        net.replace_all(node, first.outputs)
