"""Tensors that belong to nobody's session: made from host values, or empty, on any device."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import core, dtypes
from .bind import Region
from .devices import Device, parse
from .errors import DeviceError
from .graph import TensorType
from .layout import HOST, ROW_MAJOR, Layout, footprint
from .tensor import Tensor

__all__ = ["array", "empty"]


def empty(shape: int | tuple[int, ...], dtype: Any = "float32", device: Device | str = "cpu:0") -> Tensor:
    """A row-major tensor in a device's main memory; its values are undefined.

    Raises DocumentError for an unknown dtype, DeviceError where the device cannot store it,
    DeviceMemoryError.
    """
    device = parse(device)
    shape = (shape,) if isinstance(shape, int) else tuple(int(d) for d in shape)
    name = dtypes.canonical(dtype) if isinstance(dtype, str) else dtypes.from_numpy(dtype)
    stored, memory = dtypes.format_of(name), device.main_memory
    if stored is None or stored.name not in device.descriptor.formats:
        raise DeviceError(
            f"{device} cannot store {name}: it stores {', '.join(device.descriptor.formats)}",
            device=str(device),
            got=name,
        )
    type_, layout = TensorType(name, shape), Layout(memory.name, ROW_MAJOR, stored.name)
    extent = type_.nbytes if memory.name == HOST else footprint(layout, shape, memory)[0]
    handle = core.open_device(device)
    region = Region(handle, 0, max(extent, 1), f"array {type_}")
    return Tensor(device, handle, type_, layout, region.addr, region)


def array(value: Any, device: Device | str = "cpu:0", dtype: Any = None) -> Tensor:
    """A tensor with the values of anything numpy takes, or of a Tensor, in ``dtype`` if one is given.
    Raises as empty."""
    host = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if dtype is not None:
        host = host.astype(dtypes.to_numpy(dtypes.canonical(dtype)) if isinstance(dtype, str) else dtype)
    made = empty(host.shape, host.dtype, device)
    made.copy_from(host)
    return made
