"""Calls of ops that ONNX defines by others, with an input left out in the middle.

The onnx package's inliner asks for the type of each input, also of one that is not there. Such a node's body
is made here, as a function of the model's own, which the inliner takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

__all__ = ["blanks_as_functions"]

_DOMAIN = "graph_runtime.blanks"


def blanks_as_functions(
    proto: Any, nodes: Iterable[Any], ops: Collection[tuple[str, str]], versions: Mapping[str, int], onnx: Any
) -> bool:
    """Make each of the nodes whose (domain, op) is one of ``ops``, whose body depends on its inputs and that
    leaves one out, a call of a function that is added to the ModelProto. Returns whether there was one."""
    found = [node for node in nodes if _leaves_out(node) and _key(node) in ops]
    types = _types(proto, onnx) if found else {}
    made = []
    for node in found:
        domain = _key(node)[0]
        schema = onnx.defs.get_schema(node.op_type, versions[domain], domain)
        if schema.has_context_dependent_function:
            made.append((node, _body(node, schema, versions[domain], types, onnx)))
    for number, (node, body) in enumerate(made):
        body.domain, body.name = _DOMAIN, f"{node.op_type}_{number}"
        node.domain, node.op_type = body.domain, body.name
    if made:
        proto.functions.extend(body for _, body in made)
        proto.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    return bool(made)


def _key(node: Any) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _leaves_out(node: Any) -> bool:
    """Whether an input is empty before one that is not."""
    return "" in list(node.input)[: max((i for i, name in enumerate(node.input) if name), default=0)]


def _body(node: Any, schema: Any, version: int, types: Mapping[str, Any], onnx: Any) -> Any:
    """The FunctionProto that ONNX has for a node, of its newest version that the model may use."""
    fits = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
    make = schema.get_context_dependent_function_with_opset_version
    return onnx.FunctionProto.FromString(make(max(fits), node.SerializeToString(), given))


def _types(proto: Any, onnx: Any) -> dict[str, Any]:
    """The types of a model's values, as far as ONNX infers them."""
    graph = onnx.shape_inference.infer_shapes(proto).graph
    types = {w.name: onnx.helper.make_tensor_type_proto(w.data_type, w.dims) for w in graph.initializer}
    return types | {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
