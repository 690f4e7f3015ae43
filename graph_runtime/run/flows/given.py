"""What a caller gives for an input of a flow, as the flow takes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import InputError
from ...base.exact import exactly
from ...frontends.onnx.dynamic import PortInfo
from ...frontends.onnx.elements import ELEMENTS, STRING, element_name
from ..tensors.tensor import Tensor
from .element_array import ElementArray
from .flow_values import Value

__all__ = ["fitting"]


def fitting(info: PortInfo, dtype: np.dtype | None, value: Any) -> Value:
    """The value of an input: as it is where it fits, else converted where nothing is lost. ``dtype``: the
    input's, None where the file does not say. Raises InputError."""
    if type(value) is np.ndarray and value.dtype == dtype and value.flags.c_contiguous:
        if info.shape is not None and len(info.shape) == value.ndim:
            return value  # as nearly all are
    if info.optional and value is None:
        return None
    if info.sequence:
        return [_typed(info, each) for each in value]
    if isinstance(value, Tensor) and value.dtype == info.dtype:
        return value
    array = _typed(info, value)
    if info.shape is not None and len(info.shape) != array.ndim:
        raise InputError(
            f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}", got=array.shape
        )
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
        raise InputError(
            f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}",
            got=array.dtype.name,
            wanted=info.dtype,
        )
    return np.asarray(exactly(array, wanted, f"input {info.name!r}"), order="C")


def _typed_elements(info: PortInfo, array: np.ndarray) -> np.ndarray:
    """An array of an input whose elements, or the array's, no graph has a dtype for."""
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
        raise InputError(
            f"input {info.name!r} is {info}, which does not hold all values of what is given, "
            f"{array.min()} to {array.max()}",
            got=(array.min(), array.max()),
            wanted=wanted,
        )
    raise InputError(
        f"input {info.name!r} is {info}, got {array.dtype.name}{list(array.shape)}",
        got=array.dtype.name,
        wanted=wanted,
    )
