"""DataType: an element type with TVM's interface."""

from __future__ import annotations

from ....base.dtypes import parse
from ....base.errors import DocumentError

__all__ = ["DataType", "DataTypeCode"]


class DataTypeCode:
    """TVM's numbers of the kinds of element types."""

    INT, UINT, FLOAT, HANDLE, BFLOAT = range(5)


class DataType:
    """An element type, made from its name. It has ``type_code``, ``bits`` and ``lanes``; ``str()`` gives the
    name. Raises ValueError for an invalid name."""

    type_code: int
    bits: int
    lanes: int

    def __init__(self, type_str: str):
        try:
            found = parse(str(type_str))
        except DocumentError as error:
            raise ValueError(f"Do not know how to handle type {type_str}: {error}") from error
        self.type_code, self.bits, self.lanes = found.code, found.bits, found.lanes
        self._name = found.name.replace("handle64", "handle")

    def __repr__(self) -> str:
        return self._name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))
