"""Values that hold numpy arrays: each op runs at once by its numpy reference. They test functions that
compose ops over Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.documents.draft import op_call
from ..ir.graph import TensorType
from ..ir.ops import registry
from ..ir.value import Value, with_constants


@dataclass(frozen=True, slots=True, eq=False)
class ArrayValue(Value):
    """A Value whose elements are known: ``array`` holds them."""

    array: np.ndarray

    @property
    def dtype(self) -> str:
        return dtypes.from_numpy(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> Any:
        """The op's result, or results. Raises GraphError for operands or attributes that the op refuses."""
        given = [value.array for value in with_constants(op, operands, _constant)]
        types = [TensorType(dtypes.from_numpy(array.dtype), array.shape) for array in given]
        call = op_call(op, types, attrs)
        made = registry.require(call.op).reference(given, call.attrs)
        values = tuple(ArrayValue(np.asarray(array)) for array in made)
        return values[0] if len(values) == 1 else values

    def scalar(self, number: Any, dtype: str | None = None) -> ArrayValue:
        """An array without dimensions."""
        return _constant(number, dtype or self.dtype)


def _constant(number: Any, dtype: str) -> ArrayValue:
    return ArrayValue(np.asarray(number, dtypes.to_numpy(dtype)))
