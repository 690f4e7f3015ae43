"""Values of a flow: tensors and arrays, lists of them where ONNX has a sequence; their types, and copies."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...base.machine.layout import HOST
from ...frontends.onnx.elements import Element, Strings, element_name
from ...frontends.onnx.stages import Known
from ...frontends.onnx.tape import TapeSequence
from ...ir.graph import TensorType
from ...ir.model import Constant
from ..tensors.tensor import Tensor
from ..tensors.transfers import duplicate

__all__ = [
    "Value",
    "array_of",
    "carried",
    "constant_of",
    "decoded",
    "encoded",
    "kept",
    "kind_of",
    "nbytes_of",
    "type_of",
]

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
    return element_name(dtype)


def constant_of(known: Known, strings: Strings) -> Value:
    """The value of a constant of a file; a sequence is a list. ``strings``: the file's texts."""
    if isinstance(known, TapeSequence):
        return None if known.absent else [constant_of(each, strings) for each in known.values]
    assert known.constant is not None, "stages hand on constants"
    array = known.constant.read()
    if known.element is None:
        return array
    return strings.decoded(array) if known.element.is_text else known.element.decoded(array)


def array_of(value: Value) -> np.ndarray:
    """The value on the host, read only."""
    return value if isinstance(value, np.ndarray) else value.numpy()


def encoded(value: Value, element: Element, strings: Strings, name: str) -> np.ndarray:
    """What a program holds for a value of elements. Raises InputError for one that is no text."""
    array = array_of(value)
    return strings.encoded(array, repr(name)) if element.is_text else element.encoded(array)


def decoded(made: Value, element: Element, strings: Strings) -> np.ndarray:
    """The value that a program's output holds."""
    array = array_of(made)
    return strings.decoded(array) if element.is_text else element.decoded(array)


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


def carried(value: Value) -> Value:
    """A copy as ``kept``, which stays on its device."""
    if isinstance(value, list):
        return [carried(each) for each in value]
    if isinstance(value, Tensor) and value.layout.memory != HOST:
        return duplicate(value)
    return kept(value)


def _tensor_type(value: Any) -> TensorType:
    if isinstance(value, np.ndarray):
        return TensorType(_name_of(value.dtype), value.shape)
    return TensorType(value.dtype, tuple(value.shape))
