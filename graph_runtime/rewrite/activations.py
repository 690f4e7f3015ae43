"""Fusion of activations that exporters write as several ops into one op: gelu by erf and by tanh, silu,
hard_swish."""

from __future__ import annotations

import math
from typing import Any

from ..ir.ops import registry
from .matching import closed, factors, is_close, with_number
from .net import Net, NetNode, NetValue


def activations(net: Net) -> None:
    """Fuse x/2 (1 + erf(x / sqrt 2)), x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), x sigmoid(x) and x
    clip(x + 3, 0, 6) / 6, whatever the order of their factors, into one op each."""
    for node in net.nodes("multiply", "divide"):
        found = factors(node.output)
        if len(found.values) != 2:
            continue
        for x, gate in (found.values, found.values[::-1]):
            match = _gelu(x, gate, found.number) or _gate(x, gate, found.number)
            if match is None or x.type != node.output.type:
                continue
            op, attrs, inner = match
            nodes = [*found.nodes, *inner]
            if _replace(net, node, nodes, op, x, attrs):
                break


def _replace(
    net: Net, root: NetNode, nodes: list[NetNode], op: str, x: NetValue, attrs: dict[Any, Any]
) -> bool:
    if registry.get(op) is None or not closed(nodes, root) or not net.together(nodes):
        return False
    if not net.keeps_support(nodes, op, [x], **attrs):
        return False
    kind = f" ({attrs['approximate']})" if attrs.get("approximate") else ""
    net.note("activations", f"{len(set(nodes))} nodes up to {root.name} are {op}{kind} of {x.name}", nodes)
    origins = tuple(o for n in dict.fromkeys(nodes) if n is not root for o in n.origins) + root.origins
    net.replace(root.output, net.add(op, [x], before=root, origins=origins, **attrs))
    return True


def _gelu(x: NetValue, gate: NetValue, number: float) -> tuple[str, dict[Any, Any], list[NetNode]] | None:
    """(op, attributes, nodes) of the gelu that is ``number`` times x times ``gate``, where the number is 1/2
    and the gate 1 + f(u); None if there is no such gelu."""
    if not is_close(number, 0.5):
        return None
    plus = with_number(gate, "add")
    if plus is None or plus[1] != 1.0 or plus[0].producer is None:
        return None
    f = plus[0].producer
    u = factors(f.inputs[0]) if f.op in ("erf", "tanh") else None
    if u is None or len(u.values) != 1:
        return None
    nodes = [gate.maker, f, *u.nodes]
    if f.op == "erf" and u.values[0] is x and is_close(u.number, math.sqrt(0.5)):
        return "gelu", {"approximate": "none"}, nodes
    if f.op == "tanh" and is_close(u.number, math.sqrt(2 / math.pi)):
        inner = _cubic(x, u.values[0])
        return None if inner is None else ("gelu", {"approximate": "tanh"}, [*nodes, *inner])
    return None


def _cubic(x: NetValue, value: NetValue) -> list[NetNode] | None:
    """The nodes that compute x + 0.044715 x^3 as ``value``; None if ``value`` is computed in another way."""
    if value.op != "add" or x not in value.maker.inputs:
        return None
    a, b = value.maker.inputs
    cube = factors(b if a is x else a)
    if not is_close(cube.number, 0.044715):
        return None
    nodes = [value.maker, *cube.nodes]
    if len(cube.values) == 3 and all(v is x for v in cube.values):
        return nodes
    if len(cube.values) == 1 and (power := with_number(cube.values[0], "power")) and power == (x, 3.0):
        return [*nodes, cube.values[0].maker]
    if len(cube.values) == 2 and x in cube.values:
        square = cube.values[1] if cube.values[0] is x else cube.values[0]
        if (power := with_number(square, "power")) and power == (x, 2.0):
            return [*nodes, square.maker]
    return None


def _gate(x: NetValue, gate: NetValue, number: float) -> tuple[str, dict[Any, Any], list[NetNode]] | None:
    """(op, attributes, nodes) of the activation that is ``number`` times x times ``gate``, where the gate is
    a function of x; None if there is no such activation."""
    f = gate.producer
    if f is None or not f.inputs:
        return None
    if f.op == "sigmoid" and f.inputs[0] is x and number == 1.0:
        return "silu", {}, [f]
    if (
        f.op == "hard_sigmoid"
        and f.inputs[0] is x
        and number == 1.0
        and is_close(f.attrs["alpha"], 1 / 6)
        and f.attrs["beta"] == 0.5
    ):
        return "hard_swish", {}, [f]
    if f.op == "clip" and is_close(number, 1 / 6) and (f.attrs["min"], f.attrs["max"]) == (0.0, 6.0):
        plus = with_number(f.inputs[0], "add")
        if plus is not None and plus[0] is x and plus[1] == 3.0:
            return "hard_swish", {}, [f, f.inputs[0].maker]
    return None
