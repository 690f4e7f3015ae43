"""Tensors that belong to no session: empty, made from host values, or borrowed from the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import InputError
from ...base.exact import exactly
from ...base.machine.devices import Device, cpu, parse
from ...base.machine.layout import Layout
from ...ir.graph import TensorType
from ..device_handles import open_device
from ..queues.buffer import Buffer
from .device_layouts import check_layout, row_major
from .dlpack import viewed
from .tensor import Tensor, aligned_empty

allocate = Tensor.allocated


def empty(
    shape: int | Sequence[int],
    dtype: Any = "float32",
    device: Device | str = "cpu:0",
    layout: Layout | None = None,
) -> Tensor:
    """A tensor of undefined values, in ``layout`` or by default row-major in the device's main memory. Raises
    InputError for a negative extent, DocumentError for an unknown dtype, DeviceError if the device cannot
    store the tensor, DeviceMemoryError."""
    device = parse(device)
    extents = (shape,) if isinstance(shape, int) else tuple(int(d) for d in shape)
    if any(extent < 0 for extent in extents):
        raise InputError(f"shape {extents} has a negative extent", got=extents)
    name = dtypes.canonical(dtype) if isinstance(dtype, str) else dtypes.from_numpy(dtype)
    type_ = TensorType(name, extents)
    layout = row_major(type_, device) if layout is None else layout
    check_layout(type_, device, layout)
    return allocate(type_, device, layout, for_host=True)


def array(
    value: Any, device: Device | str = "cpu:0", dtype: Any = None, layout: Layout | None = None
) -> Tensor:
    """A tensor with the values of a Tensor or of anything numpy takes, in ``dtype`` if it is given. Raises
    InputError for a value that the dtype does not hold, and the errors of empty."""
    host = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if dtype is not None:
        wanted = dtypes.to_numpy(dtypes.canonical(dtype)) if isinstance(dtype, str) else np.dtype(dtype)
        host = exactly(host, wanted, "the value")
    made = empty(host.shape, host.dtype, device, layout)
    made.copy_from(host)
    return made


def borrow(value: Any) -> Tensor:
    """A host tensor over the caller's memory, which is kept alive and not copied: a C-contiguous numpy array,
    a DLPack owner or a buffer. Read-only memory makes the tensor a constant. Raises InputError for strides,
    or for a value without memory of its own."""
    view = viewed(value)
    if not view.flags.c_contiguous:
        raise InputError(
            f"borrowed memory must be C-contiguous, this has strides {view.strides}: make an "
            "owned tensor, which copies",
            got=view.strides,
        )
    if not view.dtype.isnative:
        text = f"borrowed memory must be of this machine's byte order, this is {view.dtype.str}"
        raise InputError(text, got=view.dtype.str)
    type_, device = TensorType(dtypes.from_numpy(view.dtype), view.shape), cpu(0)
    if not view.size:
        view = aligned_empty(1, np.uint8)
    handle = open_device(device)
    buffer = Buffer.borrow(handle, view.ctypes.data, view.nbytes, view)
    layout, constant = row_major(type_, device), not view.flags.writeable
    return Tensor(device, handle, type_, layout, view.ctypes.data, buffer, constant)
