"""Values of a flow: tensors and arrays, lists of them where ONNX has a sequence; their types, and copies."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...base import dtypes
from ...frontends.onnx.stages import Known
from ...frontends.onnx.tape import TapeSequence
from ...ir.graph import TensorType
from ...ir.model import Constant

__all__ = ["Value", "array_of", "constant_of", "kept", "kind_of", "nbytes_of", "type_of"]

Value = Any  # a Tensor, an array, a list of these; None: an optional without a value


def type_of(value: Value) -> TensorType | tuple[TensorType, ...] | None:
    """Its type; of a sequence the type of each value; None: no value."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(_tensor_type(each) for each in value)
    return _tensor_type(value)


def kind_of(value: Value) -> Any:
    """A key: equal for values that the same programs serve."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple([kind_of(each) for each in value])
    if isinstance(value, np.ndarray):
        return value.shape, _name_of(value.dtype)
    return value.shape, value.dtype


@functools.lru_cache
def _name_of(dtype: np.dtype) -> str:
    return dtypes.from_numpy(dtype)


def constant_of(known: Known) -> Value:
    """The value of a constant of a file; a sequence is a list."""
    if isinstance(known, TapeSequence):
        return None if known.absent else [constant_of(each) for each in known.values]
    assert known.constant is not None, "stages hand on constants"
    return known.constant.read()


def array_of(value: Value) -> np.ndarray:
    """The value on the host, read only."""
    return value if isinstance(value, np.ndarray) else value.numpy()


def nbytes_of(value: Value) -> int:
    """Bytes of its elements."""
    if value is None:
        return 0
    if isinstance(value, list):
        return sum(map(nbytes_of, value))
    return int(value.nbytes)


def kept(value: Value) -> Value:
    """A copy: what a program made is overwritten when that program runs again."""
    if value is None:
        return None
    if isinstance(value, list):
        return [kept(each) for each in value]
    if isinstance(value, Constant):
        value = value.read()
    return np.array(value) if isinstance(value, np.ndarray) else value.numpy()


def _tensor_type(value: Any) -> TensorType:
    if isinstance(value, np.ndarray):
        return TensorType(dtypes.from_numpy(value.dtype), value.shape)
    return TensorType(value.dtype, tuple(value.shape))
