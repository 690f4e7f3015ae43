"""The first node of an ONNX file whose result differs from another runtime's, by bisection: the file is cut
behind a node, and both run what is left."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import GraphRuntimeError
from ..ir.ops.inputs import nmse

__all__ = ["FirstDifference", "first_difference"]

Run = Callable[[Any], Sequence[np.ndarray]]


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """``node``: its name, or its first output's; ``looked_at``: how many cuts of ``nodes`` were compared."""

    node: str
    op: str
    value: str
    nmse: float
    looked_at: int
    nodes: int

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        return (
            f"first node that differs: {self.node} ({self.op}), its {self.value!r} by nmse {self.nmse:.2e}; "
            f"{self.looked_at} of {self.nodes} nodes looked at"
        )


def first_difference(
    path: str | os.PathLike[str], ours: Run, theirs: Run, bound: float
) -> FirstDifference | None:
    """The first node, in the file's order, behind which the two differ by more than ``bound`` where they
    agree behind the node before; None where they agree behind the last. ``ours``, ``theirs``: run a
    ModelProto of one output, and raise GraphRuntimeError where they cannot; such cuts are passed over."""
    from ..frontends.onnx import require_onnx
    from ..frontends.onnx.sorting import sort_nodes

    onnx = require_onnx()
    model = onnx.load(os.fspath(path), load_external_data=False)
    sort_nodes(model.graph)
    nodes = _needed(model.graph)
    errors: dict[int, float] = {}

    def differs(at: int) -> bool:
        errors[at] = _distance(_cut(onnx, model, nodes[: at + 1]), ours, theirs)
        return errors[at] > bound

    low, high = -1, len(nodes) - 1
    if high < 0 or not differs(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if differs(middle):
            high = middle
        else:
            low = middle
    node = nodes[high]
    value = next(name for name in node.output if name)
    return FirstDifference(node.name or value, node.op_type, value, errors[high], len(errors), len(nodes))


def _needed(graph: Any) -> list[Any]:
    """The nodes that the outputs are made from, in order."""
    wanted = {info.name for info in graph.output}
    found = []
    for node in reversed(graph.node):
        if any(name in wanted for name in node.output):
            found.append(node)
            wanted |= set(_read(node))
    return found[::-1]


def _read(node: Any) -> list[str]:
    """What a node reads, its subgraphs too."""
    inner = [n for a in node.attribute if a.HasField("g") for n in a.g.node]
    return [*node.input, *(name for n in inner for name in _read(n))]


def _cut(onnx: Any, model: Any, nodes: Sequence[Any]) -> Any:
    """The model up to the last of ``nodes``, whose first result is its output, with the weights that it reads
    and all inputs."""
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    del cut.graph.node[:], cut.graph.output[:]
    kept = _needed_for(nodes)
    cut.graph.node.extend(kept)
    read = {name for node in kept for name in _read(node)}
    weights = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del cut.graph.initializer[:]
    cut.graph.initializer.extend(weights)
    cut.graph.output.append(onnx.ValueInfoProto(name=next(name for name in nodes[-1].output if name)))
    return cut


def _needed_for(nodes: Sequence[Any]) -> list[Any]:
    wanted, found = set(nodes[-1].output), []
    for node in reversed(nodes):
        if any(name in wanted for name in node.output):
            found.append(node)
            wanted |= set(_read(node))
    return found[::-1]


def _distance(model: Any, ours: Run, theirs: Run) -> float:
    """nmse of the one output; 0.0 where either cannot run this cut, as where it ends in what is no tensor."""
    try:
        got, want = ours(model)[0], theirs(model)[0]
    except GraphRuntimeError:
        return 0.0
    if not isinstance(want, np.ndarray) or np.shape(got) != want.shape or want.dtype.kind not in "biuf":
        return 0.0
    return float(nmse(np.asarray(got), want))
