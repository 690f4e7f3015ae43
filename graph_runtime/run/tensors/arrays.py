"""Tensors that belong to no session: empty, made from host values, or borrowed from the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DeviceError, InputError, PlanError, did_you_mean, no_such
from ...base.exact import exactly
from ...base.machine.devices import Device, cpu, parse
from ...base.machine.layout import HOST, ROW_MAJOR, Layout, footprint, shard_fault
from ...ir.graph import TensorType
from ...plan.defaults import choose
from ..device_handles import open_device
from ..queues.buffer import Buffer
from .dlpack import viewed
from .host_values import aligned_empty
from .tensor import Tensor

__all__ = ["allocate", "array", "borrow", "check_layout", "default_layout", "empty", "row_major"]


def allocate(
    type_: TensorType, device: Device, layout: Layout, holder: str | None = None, for_host: bool = False
) -> Tensor:
    """A tensor of a layout that check_layout accepts; its values are undefined. ``holder`` is the
    name in out-of-memory texts, ``for_host``: the host will write it. Raises DeviceMemoryError."""
    descriptor = device.descriptor
    memory = descriptor.memory(layout.memory)
    nbytes = type_.nbytes if memory.name == HOST else footprint(layout, type_.shape, memory)[0]
    handle = open_device(device)
    number = descriptor.memories.index(memory)
    buffer = Buffer.alloc(handle, number, max(nbytes, 1), holder or f"tensor {type_}", for_host)
    return Tensor(device, handle, type_, layout, buffer.addr, buffer)


def empty(
    shape: int | Sequence[int],
    dtype: Any = "float32",
    device: Device | str = "cpu:0",
    layout: Layout | None = None,
) -> Tensor:
    """A tensor whose values are undefined: row-major in the device's main memory, or of a layout.

    Raises InputError for a negative extent, DocumentError for an unknown dtype, DeviceError where the device
    cannot store it, DeviceMemoryError.
    """
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
    """A tensor with the values of anything numpy takes, or of a Tensor, in ``dtype`` if one is given.
    Raises InputError for a value that the dtype does not hold, and as empty."""
    host = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if dtype is not None:
        wanted = dtypes.to_numpy(dtypes.canonical(dtype)) if isinstance(dtype, str) else np.dtype(dtype)
        host = exactly(host, wanted, "the value")
    made = empty(host.shape, host.dtype, device, layout)
    made.copy_from(host)
    return made


def borrow(value: Any) -> Tensor:
    """A host tensor over memory of the caller's, which is kept alive and not copied: a C-contiguous numpy
    array, or anything that speaks DLPack or the buffer protocol. A read-only one makes a constant.

    Raises InputError for strides, or for a value without memory of its own.
    """
    view = viewed(value)
    if not view.flags.c_contiguous:
        raise InputError(
            f"borrowed memory must be C-contiguous, this has strides {view.strides}: make an "
            "owned tensor, which copies",
            got=view.strides,
        )
    if not view.dtype.isnative:
        raise InputError(
            f"borrowed memory must be of this machine's byte order, this is {view.dtype.str}",
            got=view.dtype.str,
        )
    type_, device = TensorType(dtypes.from_numpy(view.dtype), view.shape), cpu(0)
    if not view.size:
        view = aligned_empty(1, np.uint8)
    handle = open_device(device)
    buffer = Buffer.borrow(handle, view.ctypes.data, view.nbytes, view)
    return Tensor(
        device,
        handle,
        type_,
        row_major(type_, device),
        view.ctypes.data,
        buffer,
        readonly=not view.flags.writeable,
    )


# **************** layouts ****************


def row_major(type_: TensorType, device: Device) -> Layout:
    """Rows of the dtype's own format in a device's main memory. Raises DeviceError where it cannot
    be stored."""
    stored, memory = dtypes.format_of(type_.dtype), device.main_memory
    if stored is None or stored.name not in device.descriptor.formats:
        raise DeviceError(
            f"{device} cannot store {type_.dtype}: it stores {', '.join(device.descriptor.formats)}",
            device=str(device),
            got=type_.dtype,
        )
    return Layout(memory.name, ROW_MAJOR, stored.name)


def default_layout(type_: TensorType, device: Device, format: str | None = None) -> Layout:
    """The layout that a plan would choose for a type on a device. Raises DeviceError where it cannot be
    stored."""
    known = device.descriptor.formats
    if format is not None and format not in known:
        text = f"{device}: {no_such('format', format, known)}"
        raise DeviceError(text, device=str(device), got=format, wanted=list(known))
    try:
        return choose(type_, device.descriptor, format)[0]
    except PlanError as error:
        raise DeviceError(f"{device}: {error}", device=str(device), got=type_.dtype) from None


def check_layout(type_: TensorType, device: Device, layout: Layout) -> None:
    """Raise DeviceError for a layout that a device does not have, or cannot have for this type."""
    descriptor = device.descriptor
    memory = descriptor.memory(layout.memory)
    known = descriptor.layouts if memory.name != HOST else (ROW_MAJOR,)
    if layout.layout not in known:
        raise DeviceError(
            f"{device} has no layout {layout.layout!r}{did_you_mean(layout.layout, known)}",
            device=str(device),
            got=layout.layout,
        )
    native = dtypes.format_of(type_.dtype)
    formats = descriptor.formats if memory.name != HOST else (native.name if native else type_.dtype,)
    if layout.format not in formats:
        raise DeviceError(
            f"{device} cannot store {type_.dtype} as {layout.format!r}{did_you_mean(layout.format, formats)}",
            device=str(device),
            got=layout.format,
        )
    if (
        native is not None
        and native.name != layout.format
        and not (native.converts and dtypes.FORMATS[layout.format].converts)
    ):
        raise DeviceError(
            f"{type_.dtype} cannot be stored as {layout.format}: formats change among floats only",
            device=str(device),
            got=layout.format,
        )
    if memory.name == HOST:
        return
    try:
        footprint(layout, type_.shape, memory)
    except PlanError as error:
        raise DeviceError(f"{device}: {error}", device=str(device), got=str(layout)) from None
    why = shard_fault(layout, type_.shape, memory, descriptor.grid)
    if why is not None:
        raise DeviceError(
            f"{device} cannot shard {type_} as {layout}: {why}", device=str(device), got=str(layout)
        )
