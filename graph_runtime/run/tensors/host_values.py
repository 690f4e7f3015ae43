"""What a caller hands over, as numpy arrays: checked, cast where nothing is lost, viewed where possible; and
the host memory that tensors are viewed in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, InputError
from ...base.exact import exactly, fitting
from ...ir.graph import TensorType
from .dlpack import viewed

__all__ = ["ALIGNMENT", "aligned_empty", "as_array", "as_host", "checked", "host_view", "writable_view"]

ALIGNMENT = 64


def aligned_empty(shape: int | tuple[int, ...], dtype: Any = "float32") -> np.ndarray:
    """An uninitialised numpy array that starts at a multiple of 64 bytes, as arrays for zero copy must."""
    dtype = dtypes.as_numpy(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes].view(dtype).reshape(shape)


class _HostMemory:
    """What a live numpy view hangs on: it keeps the owner of the memory alive as long as the view."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, addr: int, nbytes: int, owner: object):
        self.owner = owner
        self.__array_interface__ = {"data": (addr, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def host_view(type_: TensorType, addr: int, owner: object) -> np.ndarray | None:
    """The values at an address of the host, to be read, as an array that keeps ``owner`` alive; None for a
    dtype without an array form (handles, vector lanes)."""
    view = _view(type_, addr, owner)
    if view is not None:
        view.flags.writeable = False
    return view


def writable_view(type_: TensorType, addr: int, turn: object) -> np.ndarray | None:
    """The same, to be written. ``turn``, which is kept alive, lets the host write: the Writing of the
    Buffer there, or the owner of memory that nothing queued knows."""
    return _view(type_, addr, turn)


def _view(type_: TensorType, addr: int, owner: object) -> np.ndarray | None:
    try:
        dtype = dtypes.to_numpy(type_.dtype)
    except DocumentError:
        return None
    if not type_.nbytes:
        return np.empty(type_.shape, dtype)
    return np.asarray(_HostMemory(addr, type_.nbytes, owner)).view(dtype).reshape(type_.shape)


def as_host(value: Any) -> np.ndarray:
    """Anything that DLPack or numpy makes an array of. Raises InputError."""
    return _from_foreign(value, np.dtype(object))


def as_array(value: Any, type_: TensorType, what: str) -> np.ndarray:
    """A host value as an array of the entry's dtype and shape. Raises as checked."""
    return checked(value, type_, what).astype(dtypes.to_numpy(type_.dtype), copy=False)


def checked(value: Any, type_: TensorType, what: str) -> np.ndarray:
    """A host value as an array of the entry's shape, which numpy casts to its dtype without a change.

    Raises InputError where the shape differs, where numpy would not cast "same_kind" (float64 to float32 is
    fine, float to int is not), and for a value that the dtype does not hold.
    """
    wanted = dtypes.to_numpy(type_.dtype)
    array = value if isinstance(value, np.ndarray) else _from_foreign(value, wanted, what)
    if array.shape != type_.shape:
        raise InputError(
            f"{what} has shape {array.shape}, the graph says {type_.shape}",
            got=array.shape,
            wanted=type_.shape,
        )
    if array.dtype != wanted:
        if not np.can_cast(array.dtype, wanted, "same_kind"):
            raise InputError(
                f"{what} is {array.dtype.name}, the graph says {type_.dtype}: convert it with "
                f".astype({wanted.name!r}) if you mean to",
                got=array.dtype.name,
                wanted=type_.dtype,
            )
        return fitting(array, wanted, what)
    return array


def _from_foreign(value: Any, wanted: np.dtype, what: str = "the value") -> np.ndarray:
    """Lists and Python scalars take the wanted dtype where that loses no kind; DLPack owners are viewed."""
    if hasattr(value, "__dlpack__"):
        return viewed(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"cannot make an array of this {type(value).__name__}: {error}") from None
    if array.dtype == object:
        raise InputError(f"cannot make an array of {type(value).__name__}", got=type(value).__name__)
    plain = isinstance(value, (list, tuple, int, float, bool))
    if plain and array.size and array.dtype.kind in "iub" and wanted.kind in "iu":
        return exactly(array, wanted, what)
    return array
