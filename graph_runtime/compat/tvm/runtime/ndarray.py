"""NDArray: a Tensor with TVM's interface, and the functions that make NDArrays.

As in TVM, an NDArray has no arithmetic, and ``==`` compares memory, not values. Values from numpy are
converted to its dtype if the conversion changes none of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....base.dtypes import to_numpy
from ....base.errors import InputError
from ....base.exact import exactly
from ....run.tensors.arrays import array as _make
from ....run.tensors.arrays import borrow
from ....run.tensors.arrays import empty as _empty
from ....run.tensors.tensor import Tensor
from .device import (
    TvmDevice,
    as_device,
    cl,
    context,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    metal,
    micro_dev,
    mtl,
    opencl,
    opened,
    opengl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)

__all__ = [
    "Device",
    "NDArray",
    "array",
    "cl",
    "context",
    "converted",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "hexagon",
    "metal",
    "micro_dev",
    "mtl",
    "numpyasarray",
    "opencl",
    "opengl",
    "rocm",
    "shaped",
    "tensor_of",
    "vpi",
    "vulkan",
    "webgpu",
]

Device = TvmDevice


class NDArray:
    """An array over the Tensor ``tensor``: a view of an executor's memory, or its own memory.

    ``lent``: whether the memory must not be written, such as the memory of a parameter in its file; the first
    write to the array then makes a copy.
    """

    __slots__ = ("__weakref__", "_lent", "tensor")

    def __init__(self, tensor: Tensor, lent: bool = False):
        self.tensor, self._lent = tensor, lent

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def device(self) -> TvmDevice:
        return as_device(self.tensor.device)

    @property
    def ctx(self) -> TvmDevice:
        """The name of ``device`` up to TVM 0.7."""
        return self.device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<tvm.nd.NDArray shape={self.shape}, {self.device}>\n{self.numpy()!r}"

    def __str__(self) -> str:
        return str(self.numpy())

    # **************** identity ****************

    def same_as(self, other: object) -> bool:
        """Whether this array and ``other`` are over the same memory."""
        return isinstance(other, NDArray) and other.tensor is self.tensor

    def __eq__(self, other: object) -> bool:
        return self.same_as(other)

    def __hash__(self) -> int:
        return id(self.tensor)

    # **************** values ****************

    def numpy(self) -> np.ndarray:
        """A copy of the values on the host. A 16-bit type that numpy lacks becomes uint16, as in TVM."""
        values = self.tensor.numpy()
        return values.view(np.uint16) if values.dtype.kind == "V" and values.itemsize == 2 else values

    def asnumpy(self) -> np.ndarray:
        """The name of ``numpy`` up to TVM 0.7."""
        return self.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.tensor.__array__(dtype, copy)

    def copyfrom(self, source_array: Any) -> NDArray:
        """Copy the values of an NDArray, or of anything that numpy accepts, converted to this array's dtype;
        returns the array itself.

        Raises ValueError for another shape. Raises InputError for an NDArray of another dtype, for a value
        outside the dtype's range, and if this array is a constant.
        """
        if self._lent:
            self.tensor, self._lent = _make(self.tensor), False
        self.tensor.copy_from(converted(source_array, self.shape, self.dtype))
        return self

    def copyto(self, target: NDArray | TvmDevice, mem_scope: str | None = None) -> NDArray:
        """Copy the values into the array ``target``, or, if ``target`` is a device, into a new array on that
        device. Returns the array written. Errors as for copyfrom."""
        if isinstance(target, TvmDevice):
            target = empty(self.shape, self.dtype, target, mem_scope)
        if not isinstance(target, NDArray):
            raise ValueError(f"Unsupported target type {type(target)}")
        return target.copyfrom(self)

    def _create_view(self, shape: Any) -> NDArray:
        """An array over the same memory with another shape. Raises InputError if the number of elements
        differs."""
        wanted = tuple(int(n) for n in shape)
        if math.prod(wanted) != math.prod(self.shape):
            raise InputError(
                f"a view of {self.shape} cannot have the shape {wanted}", got=wanted, wanted=self.shape
            )
        return NDArray(borrow(np.asarray(self.tensor.__array__(copy=False)).reshape(wanted)), self._lent)

    def __setitem__(self, in_slice: Any, value: Any) -> None:
        if not isinstance(in_slice, slice) or in_slice.start is not None or in_slice.stop is not None:
            raise ValueError("Array only support set from numpy array")
        if not isinstance(value, (NDArray, np.ndarray, np.generic)):
            raise TypeError(f"type {type(value)} not supported")
        if not self.same_as(value):
            self.copyfrom(value)

    # **************** DLPack ****************

    def to_dlpack(self) -> Any:
        """A DLPack capsule of the memory. Raises BufferError for memory that is not on the host."""
        return self.tensor.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of the memory (run/tensors/dlpack.py). Raises BufferError for memory that is not
        on the host."""
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


class _Capsule:
    """A bare DLPack capsule of host memory, in the form that numpy accepts."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(dltensor: Any) -> NDArray:
    """An array over the memory of a DLPack capsule, or of an object with ``__dlpack__``; nothing is copied.
    Raises InputError for memory that is not on the host."""
    return NDArray(borrow(dltensor if hasattr(dltensor, "__dlpack__") else _Capsule(dltensor)))


def array(
    arr: Any, device: TvmDevice | None = None, mem_scope: str | None = None, *, ctx: Any = None
) -> NDArray:
    """An array with the values of a sequence, a numpy array or an NDArray. ``ctx`` is the name of ``device``
    up to TVM 0.7. Raises DeviceError for a missing device."""
    values = arr if isinstance(arr, (np.ndarray, NDArray)) else np.array(arr)
    return empty(values.shape, values.dtype, device, mem_scope, ctx=ctx).copyfrom(values)


def empty(
    shape: Any,
    dtype: Any = "float32",
    device: TvmDevice | None = None,
    mem_scope: str | None = None,
    *,
    ctx: Any = None,
) -> NDArray:
    """An array with undefined values. Each device has one memory here, so a ``mem_scope`` other than "global"
    raises an error. Other errors as for graph_runtime.empty."""
    if mem_scope not in (None, "", "global"):
        raise ValueError(f"mem_scope {mem_scope!r} does not exist here: arrays are in a device's main memory")
    chosen = next((one for one in (device, ctx) if one is not None), cpu(0))
    return NDArray(_empty(shape if isinstance(shape, int) else tuple(shape), dtype, opened(chosen)))


def numpyasarray(np_data: np.ndarray) -> tuple[NDArray, tuple[int, ...]]:
    """An array over the memory of a numpy array, and its shape. Raises InputError for an array that is not
    contiguous."""
    return NDArray(borrow(np_data)), np_data.shape


# **************** conversion ****************


def shaped(value: Any) -> Any:
    """An NDArray for a Tensor; any other value is returned unchanged."""
    return NDArray(value) if isinstance(value, Tensor) else value


def tensor_of(value: Any) -> Any:
    """The Tensor of an NDArray; any other value is returned unchanged."""
    return value.tensor if isinstance(value, NDArray) else value


def lent(params: dict[str, np.ndarray]) -> dict[str, NDArray]:
    """Parameters as arrays over their memory, without copies."""
    return {
        name: NDArray(borrow(values) if values.flags.c_contiguous else _make(values), lent=True)
        for name, values in params.items()
    }


def converted(value: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """The value in a form that can be written to an array of this shape and dtype: the Tensor of an NDArray,
    or a numpy array of the dtype. Raises ValueError for another shape, InputError for a value outside the
    dtype's range, TypeError for a value that numpy does not accept."""
    if isinstance(value, (NDArray, Tensor)):
        return tensor_of(value)
    try:
        values = np.asarray(value)
    except (TypeError, ValueError):
        values = np.asarray(None)
    if values.dtype == object:
        raise TypeError(f"array must be an array_like data, type {type(value)} is not supported")
    if values.shape != shape:
        raise ValueError(f"array shape do not match the shape of NDArray {values.shape} vs {shape}")
    wanted = np.dtype(to_numpy(dtype))
    if wanted.kind == "V" and wanted.itemsize == 2 and values.dtype != wanted:  # numpy() makes such arrays
        return values.astype(np.uint16).view(wanted)
    return exactly(values, wanted, "the array")
