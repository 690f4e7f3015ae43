"""The first node of an ONNX file whose result differs from another runtime's, by bisection: both runtimes run
the part of the file up to some node."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import GraphRuntimeError
from ..ir.ops.inputs import nmse

Run = Callable[[Any], Sequence[np.ndarray]]


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first node that differs. ``node``: name of the node, or of its first output. ``looked_at``: number
    of cuts that were compared. ``nodes``: number of possible cuts."""

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
    """The first node found at which the runtimes differ, by bisection over the file's order. If the file is
    cut after this node, the runtimes' results differ by more than ``bound``; if the file is cut after the
    previous node, the results agree. None if the results of the whole file agree. ``ours`` and ``theirs`` run
    a ModelProto with one output, or raise GraphRuntimeError; a cut that raises counts as equal."""
    from ..frontends.onnx import require_onnx
    from ..frontends.onnx.nodes import sort_nodes

    onnx = require_onnx()
    model = onnx.load(os.fspath(path), load_external_data=False)
    sort_nodes(model.graph)
    nodes = _needed(model.graph.node, {info.name for info in model.graph.output})
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


def _needed(nodes: Sequence[Any], wanted: set[str]) -> list[Any]:
    """The nodes on which the ``wanted`` values depend, in order."""
    found = []
    for node in reversed(nodes):
        if any(name in wanted for name in node.output):
            found.append(node)
            wanted = wanted | set(_read(node))
    return found[::-1]


def _read(node: Any) -> list[str]:
    """Names that a node reads, including those that its subgraphs read."""
    inner = [n for a in node.attribute if a.HasField("g") for n in a.g.node]
    return [*node.input, *(name for n in inner for name in _read(n))]


def _cut(onnx: Any, model: Any, nodes: Sequence[Any]) -> Any:
    """The model with only ``nodes``, the inputs, and the weights that the nodes read; its output is the first
    result of the last node."""
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    del cut.graph.node[:], cut.graph.output[:]
    kept = _needed(nodes, set(nodes[-1].output))
    cut.graph.node.extend(kept)
    read = {name for node in kept for name in _read(node)}
    weights = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del cut.graph.initializer[:]
    cut.graph.initializer.extend(weights)
    cut.graph.output.append(onnx.ValueInfoProto(name=next(name for name in nodes[-1].output if name)))
    return cut


def _distance(model: Any, ours: Run, theirs: Run) -> float:
    """nmse of the model's only output; 0.0 if either runtime cannot run the model, for example because its
    output is not a tensor."""
    try:
        got, want = ours(model)[0], theirs(model)[0]
    except GraphRuntimeError:
        return 0.0
    if not isinstance(want, np.ndarray) or np.shape(got) != want.shape or want.dtype.kind not in "biuf":
        return 0.0
    return float(nmse(np.asarray(got), want))
