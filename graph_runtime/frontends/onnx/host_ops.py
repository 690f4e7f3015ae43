"""Nodes that the host does between the programs of a flow: what makes or reads texts (text.py), what draws
random numbers (draws.py), a Dropout that trains among them.

A HostOp is made of a node before a run, with its attributes checked, and takes and gives arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.errors import GraphError
from .attributes import attributes_of
from .draws import DRAWS, TRAINS
from .elements import STRING
from .inlining import opset_of
from .parse import ParsedFile
from .tape import TapeValue
from .text import ALSO_TEXTS, TEXTS

__all__ = ["HostOp", "check_host_ops", "done_by_host", "host_op"]

HostOp = Callable[..., Sequence[np.ndarray]]
_ALWAYS = {**TEXTS, **DRAWS}


def done_by_host(node: Any, inputs: Sequence[Any]) -> bool:
    """Whether the host does a node, as far as is known. ``inputs``: a TapeValue or TapeSequence each, None
    where there is none."""
    key = _key(node)
    if key in _ALWAYS:
        return True
    if key in TRAINS:
        return _trains(inputs)
    elements = [getattr(value, "element", None) for value in inputs]
    if key not in ALSO_TEXTS:
        return False
    to = next((a.i for a in node.attribute if a.name == "to"), 0) if key[1] == "Cast" else 0
    return STRING in elements or to == STRING.code


def _trains(inputs: Sequence[TapeValue | None]) -> bool:
    """Whether a Dropout with these inputs is known to drop elements."""
    ratio, training = (None if value is None else value.known() for value in (*inputs, None, None)[1:3])
    drops = ratio is None or bool((np.asarray(ratio, np.float64) != 0).any())
    return training is not None and bool(np.any(training)) and drops


def host_op(file: ParsedFile, node: Any, path: str) -> HostOp:
    """What a node does that is done_by_host. Raises GraphError for attributes that do not fit."""
    try:
        attrs = attributes_of(file.file, node, opset_of(node, file.opsets))
        return {**_ALWAYS, **ALSO_TEXTS, **TRAINS}[_key(node)](attrs)
    except GraphError as error:
        raise GraphError(
            f"{node.op_type} {node.name!r}: {error}", path=path, node=node.name, op=node.op_type
        ) from error
    except (TypeError, ValueError, KeyError) as error:
        text = f"{node.op_type} {node.name!r}: its attributes do not fit: {error}"
        raise GraphError(text, path=path, node=node.name, op=node.op_type) from error


def check_host_ops(file: ParsedFile, graph: Any, path: str = "$.graph") -> None:
    """Raise GraphError for a node of the host's whose attributes do not fit, in subgraphs too."""
    for i, node in enumerate(graph.node):
        if _key(node) in _ALWAYS:
            host_op(file, node, f"{path}.node[{i}]")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                check_host_ops(file, attribute.g, f"{path}.node[{i}].{attribute.name}")


def _key(node: Any) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type
