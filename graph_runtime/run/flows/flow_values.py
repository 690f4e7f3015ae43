"""Values of a flow: tensors, arrays, and lists of these for ONNX's sequences. Types, kinds and copies of
values, and conversion of a caller's values."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import InputError
from ...base.exact import exactly
from ...base.machine.layout import HOST
from ...frontends.onnx.dynamic import PortInfo
from ...frontends.onnx.elements import ELEMENTS, STRING, Element, Strings, element_name
from ...frontends.onnx.stages import Known
from ...frontends.onnx.tape import TapeSequence
from ...ir.graph import TensorType
from ...ir.model import Constant
from ..tensors.tensor import Tensor
from ..tensors.transfers import duplicate
from .element_array import ElementArray

FlowValue = Any  # a Tensor, an array, a list of such values, or None for an optional without a value


def type_of(value: FlowValue) -> TensorType | tuple[TensorType, ...] | None:
    """The type of a value: a tuple of types for a sequence, None for no value."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(_tensor_type(each) for each in value)
    return _tensor_type(value)


def kind_of(value: FlowValue) -> Any:
    """A key for the kind of a value: the same specialization serves all values of one kind."""
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


def constant_of(known: Known, strings: Strings) -> FlowValue:
    """The value of a file's constant; a sequence becomes a list. ``strings``: table of the file's texts."""
    if isinstance(known, TapeSequence):
        return None if known.absent else [constant_of(each, strings) for each in known.values]
    assert known.constant is not None, "stages hand on constants"
    array = known.constant.read()
    if known.element is None:
        return array
    return strings.decoded(array) if known.element.is_text else known.element.decoded(array)


def array_of(value: FlowValue) -> np.ndarray:
    """The value as an array on the host, which must not be written."""
    return value if isinstance(value, np.ndarray) else value.numpy()


def encoded(value: FlowValue, element: Element, strings: Strings, name: str) -> np.ndarray:
    """The form in which a specialization takes a value of strings or small elements. Raises InputError for an
    element that is no text."""
    array = array_of(value)
    return strings.encoded(array, repr(name)) if element.is_text else element.encoded(array)


def decoded(made: FlowValue, element: Element, strings: Strings) -> np.ndarray:
    """The value of strings or small elements that is encoded in the output ``made`` of a specialization."""
    array = array_of(made)
    return strings.decoded(array) if element.is_text else element.decoded(array)


def nbytes_of(value: FlowValue) -> int:
    """Bytes of the value's elements."""
    if value is None:
        return 0
    if isinstance(value, list):
        return sum(map(nbytes_of, value))
    return int(value.nbytes)


def kept(value: FlowValue) -> FlowValue:
    """A copy on the host, because the next run overwrites the specialization's outputs."""
    if value is None:
        return None
    if isinstance(value, list):
        return [kept(each) for each in value]
    if isinstance(value, Constant):
        value = value.read()
    return np.array(value) if isinstance(value, np.ndarray) else value.numpy()


def carried(value: FlowValue) -> FlowValue:
    """A copy of a value that stays on the value's device."""
    if isinstance(value, list):
        return [carried(each) for each in value]
    if isinstance(value, Tensor) and value.layout.memory != HOST:
        return duplicate(value)
    return kept(value)


def _tensor_type(value: Any) -> TensorType:
    if isinstance(value, np.ndarray):
        return TensorType(_name_of(value.dtype), value.shape)
    return TensorType(value.dtype, tuple(value.shape))


def fitting(info: PortInfo, dtype: np.dtype | None, value: Any) -> FlowValue:
    """The value of an input, converted if that is needed and loses nothing. ``dtype``: dtype of the input,
    None if the file does not give one. Raises InputError."""
    if type(value) is np.ndarray and value.dtype == dtype and value.flags.c_contiguous:
        if info.shape is not None and len(info.shape) == value.ndim:
            return value  # most values are returned unchanged
    if info.optional and value is None:
        return None
    if info.sequence:
        return [_typed(info, each) for each in value]
    if isinstance(value, Tensor) and value.dtype == info.dtype:
        return value
    array = _typed(info, value)
    if info.shape is not None and len(info.shape) != array.ndim:
        text = f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}"
        raise InputError(text, got=array.shape)
    return array


def _typed(info: PortInfo, value: Any) -> np.ndarray:
    try:
        array = value.numpy() if isinstance(value, (Tensor, ElementArray)) else np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"input {info.name!r}: {error}", got=type(value).__name__) from error
    if array.dtype.name == info.dtype and array.flags.c_contiguous:
        return array
    if info.dtype in ELEMENTS or array.dtype.kind in "OUST":
        return _typed_elements(info, array)
    wanted = dtypes.to_numpy(info.dtype) if info.dtype else array.dtype
    if hasattr(value, "dtype") and not np.can_cast(array.dtype, wanted, "same_kind"):
        text = f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}"
        raise InputError(text, got=array.dtype.name, wanted=info.dtype)
    return np.asarray(exactly(array, wanted, f"input {info.name!r}"), order="C")


def _typed_elements(info: PortInfo, array: np.ndarray) -> np.ndarray:
    """An array for an input, in case the elements of the array or of the input have no dtype in graphs."""
    wanted = info.dtype
    if array.dtype.kind in "OUST" and wanted in ("", STRING.name):
        return np.asarray(array, object, order="C")
    if wanted in ELEMENTS and array.dtype.kind not in "OUST":
        dtype = ELEMENTS[wanted].numpy()
        same = array.dtype == dtype or element_name(array.dtype) == wanted
        with np.errstate(all="ignore"):
            cast = array if same else array.astype(dtype)
        if same or np.array_equal(cast.astype(np.float64), array.astype(np.float64)):
            return np.asarray(cast, order="C")
        text = (
            f"input {info.name!r} is {info}, which does not hold all given values, "
            f"{array.min()} to {array.max()}"
        )
        raise InputError(text, got=(array.min(), array.max()), wanted=wanted)
    text = f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}"
    raise InputError(text, got=array.dtype.name, wanted=wanted)
