"""NDArray: a Tensor in TVM's shape, and the functions that make one.

It has no arithmetic, ``==`` asks whether two show the same memory, and values from numpy are converted to its
dtype, as in TVM, where that changes none.
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
    """``tensor`` is the Tensor that it shows: a view of an executor's memory, or memory of its own.

    One made with ``lent`` shows memory that must not be written, a parameter in its file: the first write
    takes a copy.
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

    # **************** which it is ****************

    def same_as(self, other: object) -> bool:
        """Whether both show the same memory."""
        return isinstance(other, NDArray) and other.tensor is self.tensor

    def __eq__(self, other: object) -> bool:
        return self.same_as(other)

    def __hash__(self) -> int:
        return id(self.tensor)

    # **************** values ****************

    def numpy(self) -> np.ndarray:
        """A copy on the host. A half that numpy has not comes as uint16, as in TVM."""
        values = self.tensor.numpy()
        return values.view(np.uint16) if values.dtype.kind == "V" and values.itemsize == 2 else values

    def asnumpy(self) -> np.ndarray:
        """The name of ``numpy`` up to TVM 0.7."""
        return self.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.tensor.__array__(dtype, copy)

    def copyfrom(self, source_array: Any) -> NDArray:
        """Take the values of an NDArray, or of anything numpy takes, converted to this dtype; returns self.

        Raises ValueError for another shape, InputError for an NDArray of another dtype, a value that the
        dtype does not hold, and a constant.
        """
        if self._lent:
            self.tensor, self._lent = _make(self.tensor), False
        self.tensor.copy_from(converted(source_array, self.shape, self.dtype))
        return self

    def copyto(self, target: NDArray | TvmDevice, mem_scope: str | None = None) -> NDArray:
        """Copy into ``target``, or into a new array on that device; returns it. Raises as copyfrom."""
        if isinstance(target, TvmDevice):
            target = empty(self.shape, self.dtype, target, mem_scope)
        if not isinstance(target, NDArray):
            raise ValueError(f"Unsupported target type {type(target)}")
        return target.copyfrom(self)

    def _create_view(self, shape: Any) -> NDArray:
        """The same memory in another shape. Raises InputError for another number of elements."""
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
        """A capsule of the memory. Raises BufferError for memory that is not the host's."""
        return self.tensor.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        """See run/tensors/dlpack.py. Raises BufferError."""
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


class _Capsule:
    """A bare DLPack capsule of the host's memory, in the form that numpy takes."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(dltensor: Any) -> NDArray:
    """An array over the memory of a DLPack capsule or of an object with ``__dlpack__``, not copied.
    Raises InputError for what has no host memory."""
    return NDArray(borrow(dltensor if hasattr(dltensor, "__dlpack__") else _Capsule(dltensor)))


def array(
    arr: Any, device: TvmDevice | None = None, mem_scope: str | None = None, *, ctx: Any = None
) -> NDArray:
    """An array with the values of a sequence, a numpy array or an NDArray. ``ctx`` is the name of ``device``
    up to TVM 0.7. Raises DeviceError for a device that is not here."""
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
    """An array whose values are undefined. ``mem_scope`` other than "global" is refused: here there is one
    memory a device. Raises as graph_runtime.empty."""
    if mem_scope not in (None, "", "global"):
        raise ValueError(f"mem_scope {mem_scope!r} is not here: arrays are in a device's main memory")
    chosen = next((one for one in (device, ctx) if one is not None), cpu(0))
    return NDArray(_empty(shape if isinstance(shape, int) else tuple(shape), dtype, opened(chosen)))


def numpyasarray(np_data: np.ndarray) -> tuple[NDArray, tuple[int, ...]]:
    """An array over the memory of a numpy array, and its shape. Raises InputError for strides."""
    return NDArray(borrow(np_data)), np_data.shape


# **************** between both ****************


def shaped(value: Any) -> Any:
    """An NDArray for a Tensor; anything else stays."""
    return NDArray(value) if isinstance(value, Tensor) else value


def tensor_of(value: Any) -> Any:
    """The Tensor of an NDArray; anything else stays."""
    return value.tensor if isinstance(value, NDArray) else value


def lent(params: dict[str, np.ndarray]) -> dict[str, NDArray]:
    """Parameters as arrays over the memory in which they are."""
    return {
        name: NDArray(borrow(values) if values.flags.c_contiguous else _make(values), lent=True)
        for name, values in params.items()
    }


def converted(value: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """A value that can be written to an array of that type: the Tensor of an NDArray, or an array of that
    dtype. Raises ValueError for another shape, InputError for a value that the dtype does not hold, TypeError
    for what numpy does not take."""
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
    if wanted.kind == "V" and wanted.itemsize == 2 and values.dtype != wanted:  # as numpy() gives it out
        return values.astype(np.uint16).view(wanted)
    return exactly(values, wanted, "the array")
