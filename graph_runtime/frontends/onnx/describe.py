"""Description of an ONNX file before its sizes are known."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import require_onnx
from .context import table
from .elements import ELEMENTS
from .nodes import all_nodes, op_key
from .parse import checked_file
from .read import DTYPES, initializer_constant
from .validate import opsets, own_inputs, symbolic_shape


def describe(source: str | os.PathLike[str] | bytes | Any) -> dict[str, Any]:
    """Contents of a file: nodes, opsets, ops (ops without a converter separately), constants, and inputs and
    outputs with the names of their dimensions. The key "open" has the dimensions that --dim must bind: {name
    of the dimension: where it occurs}. Raises the errors of load_model, except those that depend on sizes."""
    from . import families  # noqa: F401  (it fills the table of converters)

    onnx = require_onnx()
    file = checked_file(source, onnx, None)
    graph, known = file.proto.graph, table()
    infos = dict(own_inputs(graph))
    ops = sorted(set(map(op_key, all_nodes(graph))))
    constants = [initializer_constant(file, tensor, i) for i, tensor in enumerate(graph.initializer)]
    return {
        "kind": "model",
        "producer": " ".join(filter(None, (file.proto.producer_name, file.proto.producer_version))),
        "opsets": opsets(file.proto, onnx),
        "nodes": len(graph.node),
        "ops": [".".join(filter(None, op)) for op in ops],
        "unsupported": [".".join(filter(None, op)) for op in ops if op not in known],
        "constants": len(constants),
        "constant_bytes": sum(constant.type.nbytes for constant in constants),
        "inputs": {info.name: _type(info, path) for path, info in infos.items()},
        "outputs": {info.name: _type(info, "$.graph.output") for info in graph.output},
        "open": _open(infos.items()),
    }


def _type(info: Any, path: str) -> str:
    """Text of a type, such as float32[batch, 3, 224, 224]."""
    if (kind := info.type.WhichOneof("value")) not in (None, "tensor_type"):
        return str(kind).removesuffix("_type")
    code = info.type.tensor_type.elem_type
    if not code and not info.type.tensor_type.HasField("shape"):
        return "as the nodes make it"
    shape = symbolic_shape(info, path)
    sizes = "" if shape is None else ", ".join(map(str, shape))
    names = DTYPES | {element.code: name for name, element in ELEMENTS.items()}
    return f"{names.get(code, f'element type {code}')}[{'any' if shape is None else sizes}]"


def _open(infos: Iterable[tuple[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, info in infos:
        shape = symbolic_shape(info, path)
        if shape is None:
            found.setdefault(f"{info.name}=1x3x224x224", f"the shape of {info.name!r}")
        for axis, dim in enumerate(shape or ()):
            if isinstance(dim, str):
                found.setdefault(f"{dim}=1", f"axis {axis} of {info.name!r}")
    return found
