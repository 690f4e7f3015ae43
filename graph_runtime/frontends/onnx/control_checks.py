"""Checks of If, Loop and Scan before conversion: each node has its bodies, and each body has as many inputs
and outputs as the node needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...base.errors import GraphError
from .nodes import domain_of


def subgraph_of(node: Any, name: str, path: str) -> Any:
    """The graph in an attribute. Raises GraphError if the attribute is missing."""
    for attribute in node.attribute:
        if attribute.name == name and attribute.HasField("g"):
            return attribute.g
    raise GraphError(f"{node.op_type} {node.name!r} has no graph {name!r}", path=path, node=node.name)


def body_inputs(body: Any) -> list[str]:
    """Names of a body's inputs that are not initialisers."""
    own = {tensor.name for tensor in body.initializer}
    return [info.name for info in body.input if info.name not in own]


def one_value(array: np.ndarray, what: str, node: Any, path: str) -> Any:
    """The only element of an array. Raises GraphError if there is not exactly one."""
    if array.size != 1:
        text = f"{node.op_type} {node.name!r}: {what} must be one value, it has {array.size}"
        raise GraphError(text, path=path, node=node.name, op=node.op_type, got=array.shape)
    return array.reshape(-1)[0]


def check_control(graph: Any, opset: int, path: str = "$.graph") -> None:
    """Raise GraphError if the bodies of a control node do not fit it; subgraphs are checked, too."""
    scan = partial(_scan, lengths=1) if opset < 9 else _scan
    checks: dict[str, Callable[[Any, str], None]] = {**_CHECKS, "Scan": scan}
    for i, node in enumerate(graph.node):
        where = f"{path}.node[{i}]"
        if not domain_of(node.domain) and node.op_type in checks:
            checks[node.op_type](node, where)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                check_control(attribute.g, opset, f"{where}.{attribute.name}")


def _counts(node: Any, path: str, what: str, got: int, wanted: int, at_most: bool = False) -> None:
    if got == wanted or (at_most and got < wanted):
        return
    most = " at most" * at_most
    text = f"{node.op_type} {node.name!r} has {got} {what}, but takes {wanted}{most}"
    raise GraphError(text, path=path, node=node.name, op=node.op_type, got=got, wanted=wanted)


def _if(node: Any, path: str) -> None:
    _counts(node, path, "inputs", len(node.input), 1)
    for name in ("then_branch", "else_branch"):
        branch = subgraph_of(node, name, path)
        _counts(
            node, f"{path}.{name}", f"outputs, its {name} makes others", len(node.output), len(branch.output)
        )


def _loop(node: Any, path: str) -> None:
    body = subgraph_of(node, "body", path)
    if len(node.input) < 2:
        raise GraphError(
            f"Loop {node.name!r} needs a trip count and a condition, which may be empty",
            path=path,
            node=node.name,
        )
    states = len(node.input) - 2
    _counts(node, f"{path}.body", "inputs of its body", len(body_inputs(body)), 2 + states)
    if len(body.output) < 1 + states:
        _counts(node, f"{path}.body", "outputs of its body", len(body.output), 1 + states)
    _counts(node, path, "outputs", len(node.output), len(body.output) - 1, at_most=True)


def _scan(node: Any, path: str, lengths: int = 0) -> None:
    """Check a Scan. ``lengths``: number of inputs (0 or 1) before the states; such an input has the length of
    each row."""
    body = subgraph_of(node, "body", path)
    found = {a.name: a for a in node.attribute}
    count = found["num_scan_inputs"].i if "num_scan_inputs" in found else 0
    taken = len(node.input) - lengths
    if not 1 <= count <= taken:
        text = f"Scan {node.name!r}: num_scan_inputs is {count}, but it has {taken} inputs"
        raise GraphError(text, path=path, node=node.name, got=count)
    states = taken - count
    _counts(node, f"{path}.body", "inputs of its body", len(body_inputs(body)), taken)
    if len(body.output) < states:
        _counts(node, f"{path}.body", "outputs of its body", len(body.output), states)
    _counts(node, path, "outputs", len(node.output), len(body.output), at_most=True)
    for kind, wanted in (("input", count), ("output", len(body.output) - states)):
        for what in ("axes", "directions"):
            name = f"scan_{kind}_{what}"
            if name in found:
                _counts(node, path, f"values of {name}", len(found[name].ints), wanted)


_CHECKS = {"If": _if, "Loop": _loop}
