"""Tensor: a handle on one entry of a session, on whatever device it lives.

It is a live view: the next run writes into it.

    Session --tensor(eid)--> Tensor --numpy()--> array on the host
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import core, dtypes
from .devices import Device
from .errors import InputError
from .graph import TensorType
from .layout import HOST, Layout

__all__ = ["Tensor", "aligned_empty"]

ALIGNMENT = 64


def aligned_empty(shape: int | tuple[int, ...], dtype: Any = "float32") -> np.ndarray:
    """An uninitialised numpy array that starts at a multiple of 64 bytes, as arrays for zero copy must."""
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + nbytes].view(dtype).reshape(shape)


class _HostMemory:
    """What a live numpy view hangs on: it keeps the owner of the memory alive as long as the view."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, addr: int, nbytes: int, owner: object):
        self.owner = owner
        self.__array_interface__ = {"data": (addr, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


class Tensor:
    """A tensor on a device.

    ``device`` where it lives, ``layout`` how its elements are stored there, ``shape`` and ``dtype`` what the
    host sees, ``readonly`` whether it is a constant. It keeps the memory that it shows alive, also when its
    session is gone.
    """

    __slots__ = ("__weakref__", "_arg", "_handle", "_owner", "_view", "device", "layout", "readonly",
                 "type")

    def __init__(self, device: Device, handle: core.DeviceHandle, type_: TensorType, layout: Layout,
                 addr: int, owner: object, readonly: bool = False):
        self.device, self.layout = device, layout
        self._handle, self.type, self._owner = handle, type_, owner
        self._arg = core.tensor_arg(addr, type_.dtype, type_.shape, layout, handle=handle)
        self._view = self._host_view(addr) if layout.memory == HOST else None
        self.readonly = readonly
        if self._view is not None and readonly:
            self._view.flags.writeable = False

    def _host_view(self, addr: int) -> np.ndarray | None:
        try:
            dtype = dtypes.to_numpy(self.type.dtype)
        except dtypes.DocumentError:              # handles, vector lanes: kept as bytes, no array form
            return None
        if not self.type.nbytes:
            return np.empty(self.type.shape, dtype)
        memory = _HostMemory(addr, self.type.nbytes, self._owner)
        return np.asarray(memory).view(dtype).reshape(self.type.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        """The logical dtype's name, as "float32"; ``layout`` says in which format a device stores it."""
        return self.type.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the values on the host: elements times itemsize, whatever the device pads or packs."""
        return self.type.nbytes

    def numpy(self) -> np.ndarray:
        """A copy on the host, row-major, in the logical dtype.

        Raises DocumentError for a dtype that has no array form.
        """
        if self._view is not None:
            return self._view.copy()
        array = aligned_empty(self.shape, dtypes.to_numpy(self.dtype))
        core.copy(self._handle, self._arg, None, core.host_arg(array, self.dtype))
        return array

    def copy_from(self, source: Any, what: str = "value") -> None:
        """Overwrite the values with those of a Tensor or of anything numpy takes, called ``what`` in errors.

        Raises InputError where the shape differs, or the dtype (of an array: beyond a same_kind cast), and
        for a constant.
        """
        if self.readonly:
            raise InputError(f"this {self.type} is a constant of the library: it cannot be written")
        if isinstance(source, Tensor):
            if source.type != self.type:
                raise InputError(f"{what} is {source.type}, the graph says {self.type}", got=str(source.type),
                                 wanted=str(self.type))
            core.copy(source._handle, source._arg, self._handle, self._arg)
            return
        array = as_array(source, self.type, what)
        if self._view is not None:
            np.copyto(self._view, array)
            return
        core.copy(None, core.host_arg(np.asarray(array, order="C"), self.dtype), self._handle, self._arg)

    # TVM's names

    asnumpy = numpy
    copyfrom = copy_from

    def copyto(self, target: Tensor) -> Tensor:
        """Copy the values into ``target``, which is returned. Raises as copy_from."""
        target.copy_from(self)
        return target

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            if self._view is None or (dtype is not None and np.dtype(dtype) != self._view.dtype):
                raise ValueError(f"{self!r} needs a copy to become an array: use copy=None or copy=True")
            return self._view
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self._view is None:
            raise BufferError(f"a tensor on {self.device} has no host address: call numpy() for a copy")
        return self._view.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self._view is None:
            return self.device.dl_type, self.device.ordinal
        return self._view.__dlpack_device__()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Tensor({self.type}, {self.device}, {self.layout})"

    def __reduce__(self) -> Any:
        raise TypeError("a Tensor is a handle on a session's memory: pickle tensor.numpy() instead")


def as_array(value: Any, type_: TensorType, what: str) -> np.ndarray:
    """A host value as an array of the entry's dtype and shape.

    Raises InputError where the shape differs or where numpy would not cast "same_kind" (float64 to float32 is
    fine, float to int is not).
    """
    wanted = dtypes.to_numpy(type_.dtype)
    array = value if isinstance(value, np.ndarray) else _from_foreign(value, wanted)
    if array.shape != type_.shape:
        raise InputError(f"{what} has shape {array.shape}, the graph says {type_.shape}", got=array.shape,
                         wanted=type_.shape)
    if array.dtype != wanted:
        if not np.can_cast(array.dtype, wanted, "same_kind"):
            raise InputError(f"{what} is {array.dtype.name}, the graph says {type_.dtype}: convert it with "
                             f".astype({wanted.name!r}) if you mean to", got=array.dtype.name,
                             wanted=type_.dtype)
        array = array.astype(wanted)
    return array


def _from_foreign(value: Any, wanted: np.dtype) -> np.ndarray:
    """Lists and Python scalars take the wanted dtype where that loses no kind; DLPack owners are viewed."""
    if hasattr(value, "__dlpack__") and not isinstance(value, Tensor):
        return np.from_dlpack(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"cannot make an array of this {type(value).__name__}: {error}") from None
    if array.dtype == object:
        raise InputError(f"cannot make an array of {type(value).__name__}", got=type(value).__name__)
    plain = isinstance(value, (list, tuple, int, float, bool))
    if plain and array.size and array.dtype.kind in "iub" and wanted.kind in "iu":
        info = np.iinfo(wanted)
        if array.min() < info.min or array.max() > info.max:
            raise InputError(f"a value in {array.min()} .. {array.max()} does not fit {wanted.name}",
                             wanted=wanted.name)
        return array.astype(wanted)
    return array
