"""Transposes that elementwise ops keep apart are brought together, so that they cancel or become one."""

from __future__ import annotations

from typing import Any

from ..ir.ops import registry, steps
from .net import Net, NetNode, NetValue
from .neutral import permutation

__all__ = ["sink_transposes"]

_LONGEST = 16  # ops between two transposes


def sink_transposes(net: Net) -> None:
    """transpose, elementwise ops, transpose: the ops come first, then the transposes, which are next to each
    other."""
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
    """The ops between this transpose and another one before it, last first; [] where there is none."""
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
    """An elementwise op of one tensor, and of numbers that look the same however it is transposed."""
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
