"""AttributeProto -> a Python value or a Constant."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...base.errors import GraphError
from .elements import BY_CODE
from .read import ModelFile, element_constant, tensor_constant
from .sparse_tensors import sparse_constant
from .tape import TapeValue

__all__ = ["attributes_of", "decode"]

# AttributeProto.AttributeType -> the field of the value
_FLOAT, _INT = 1, 2
_FIELDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 11: "sparse_tensor"}


def attributes_of(file: ModelFile, node: Any, opset: int) -> dict[str, Any]:
    """{name: value} of a node's attributes, each of the type that its op's schema says; an integer counts as
    a float. Raises GraphError."""
    wanted = _types(node.op_type, opset, "" if node.domain == "ai.onnx" else node.domain)
    found = {}
    for attribute in node.attribute:
        name, value = attribute.name, decode(file, attribute)
        if name in found:
            raise GraphError(f"attribute {name!r} stands twice", got=name)
        kind = wanted.get(name, attribute.type)
        if (attribute.type, kind) == (_INT, _FLOAT):
            value = float(value)
        elif attribute.type != kind:
            raise GraphError(
                f"attribute {name!r} is of type {_name(attribute.type)}, {node.op_type} has {_name(kind)}",
                got=_name(attribute.type),
                wanted=_name(kind),
            )
        found[name] = value
    return found


@lru_cache(maxsize=1024)
def _types(op: str, opset: int, domain: str) -> Mapping[str, int]:
    """{attribute: AttributeType} as the op's schema says; none for an op that ONNX does not know."""
    import onnx.defs  # flows of other formats need no onnx

    try:
        schema = onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return {}
    return {name: int(attribute.type.value) for name, attribute in schema.attributes.items()}


def _name(kind: int) -> str:
    import onnx

    return onnx.AttributeProto.AttributeType.Name(kind)


def decode(file: ModelFile, attribute: Any) -> Any:
    """int, float, str, a list of these, a Constant for a tensor, dense or sparse, a TapeValue for one of
    Elements, a GraphProto for a graph.

    Raises GraphError for an attribute of another kind, or text that is not UTF-8.
    """
    what = f"attribute {attribute.name!r}"
    if attribute.ref_attr_name:
        raise GraphError(
            f"{what} refers to {attribute.ref_attr_name!r}, which only a function has",
            got=attribute.ref_attr_name,
        )
    kind = attribute.type
    if kind not in _FIELDS:
        raise GraphError(f"{what} is of a kind that is not supported (AttributeType {kind})", got=kind)
    value = getattr(attribute, _FIELDS[kind])
    if kind == 4 and value.data_type in BY_CODE:
        constant = element_constant(file, value, what)
        return TapeValue(constant.type, constant=constant, element=BY_CODE[value.data_type])
    if kind == 11:
        return sparse_constant(file, value, what)
    if kind == 4:
        return tensor_constant(file, value, what)
    if kind in (3, 8):
        try:
            return value.decode() if kind == 3 else [text.decode() for text in value]
        except UnicodeDecodeError as error:
            raise GraphError(f"{what} is no UTF-8 text", got=value) from error
    return list(value) if kind in (6, 7) else value
