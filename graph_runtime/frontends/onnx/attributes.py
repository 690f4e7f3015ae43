"""AttributeProto -> a Python value or a Constant."""

from __future__ import annotations

from typing import Any

from ...errors import GraphError
from .read import ModelFile, tensor_constant

__all__ = ["decode"]

# AttributeProto.AttributeType -> the field of the value
_FIELDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings"}


def decode(file: ModelFile, attribute: Any) -> Any:
    """int, float, str, a list of these, a Constant for a tensor, a GraphProto for a graph.

    Raises GraphError for an attribute of another kind, or text that is not UTF-8.
    """
    what = f"attribute {attribute.name!r}"
    if attribute.ref_attr_name:
        raise GraphError(f"{what} refers to {attribute.ref_attr_name!r}, which only a function has",
                         got=attribute.ref_attr_name)
    kind = attribute.type
    if kind not in _FIELDS:
        raise GraphError(f"{what} is of a kind that is not supported (AttributeType {kind})", got=kind)
    value = getattr(attribute, _FIELDS[kind])
    if kind == 4:
        return tensor_constant(file, value, what)
    if kind in (3, 8):
        try:
            return value.decode() if kind == 3 else [text.decode() for text in value]
        except UnicodeDecodeError as error:
            raise GraphError(f"{what} is no UTF-8 text", got=value) from error
    return list(value) if kind in (6, 7) else value
