"""Read an AttributeProto as a Python value or a Constant."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ...base.errors import GraphError
from .elements import BY_CODE
from .nodes import domain_of
from .read import ModelFile, element_constant, tensor_constant
from .sparse_tensors import sparse_constant
from .tape import TapeValue

# {AttributeProto.AttributeType: name of the field that has the value}
_FLOAT, _INT = 1, 2
_FIELDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 11: "sparse_tensor"}


def attributes_of(file: ModelFile, node: Any, opset: int) -> dict[str, Any]:
    """{name: value} of a node's attributes; each has the type of its op's schema, and an integer is accepted
    for a float. Raises GraphError for other types, and for more inputs than the schema has."""
    wanted, most = _schema(node.op_type, opset, domain_of(node.domain))
    check_inputs(node.op_type, node.input, most)
    found = {}
    for attribute in node.attribute:
        name, value = attribute.name, decode(file, attribute)
        if name in found:
            raise GraphError(f"attribute {name!r} occurs twice", got=name)
        kind = wanted.get(name, attribute.type)
        if (attribute.type, kind) == (_INT, _FLOAT):
            value = float(value)
        elif attribute.type != kind:
            text = (
                f"attribute {name!r} is of type {_name(attribute.type)}, but {node.op_type} "
                f"takes {_name(kind)}"
            )
            raise GraphError(text, got=_name(attribute.type), wanted=_name(kind))
        found[name] = value
    return found


def check_inputs(op: str, inputs: Sequence[Any], most: int) -> None:
    """Raise GraphError for a node with more than ``most`` inputs; an input without a name at the end counts
    as none."""
    given = len(inputs)
    while given and not inputs[given - 1]:
        given -= 1
    if given > most:
        raise GraphError(f"{op} has {given} inputs, but takes at most {most}", got=given, wanted=most)


@lru_cache(maxsize=1024)
def _schema(op: str, opset: int, domain: str) -> tuple[Mapping[str, int], int]:
    """({attribute: AttributeType}, largest number of inputs) of an op's schema; no attributes and any number
    of inputs for an op that ONNX does not know."""
    import onnx.defs  # only here: flows of other formats work without onnx

    try:
        schema = onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return {}, sys.maxsize
    types = {name: int(attribute.type.value) for name, attribute in schema.attributes.items()}
    return types, schema.max_input


def _name(kind: int) -> str:
    import onnx

    return onnx.AttributeProto.AttributeType.Name(kind)


def decode(file: ModelFile, attribute: Any) -> Any:
    """Value of an attribute: an int, float or str, or a list of these; for a dense or sparse tensor a
    Constant, or a TapeValue if graphs have no dtype for its elements; for a graph a GraphProto.

    Raises GraphError for an attribute of another kind, or text that is not UTF-8.
    """
    what = f"attribute {attribute.name!r}"
    if attribute.ref_attr_name:
        reason = f"{what} refers to {attribute.ref_attr_name!r}, which only a function has"
        raise GraphError(reason, got=attribute.ref_attr_name)
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
            raise GraphError(f"{what} is not UTF-8 text", got=value) from error
    return list(value) if kind in (6, 7) else value
