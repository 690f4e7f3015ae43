"""The layouts that a device has, and the layout of a tensor for which the caller names none."""

from __future__ import annotations

from ...base import dtypes
from ...base.errors import DeviceError, PlanError, did_you_mean, no_such
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, ROW_MAJOR, Layout, footprint, shard_fault
from ...ir.graph import TensorType
from ...plan.supports import choose


def row_major(type_: TensorType, device: Device) -> Layout:
    """Row-major layout in a device's main memory, in the dtype's own format. Raises DeviceError if the type
    cannot be stored so."""
    stored, memory = dtypes.format_of(type_.dtype), device.main_memory
    if stored is None or stored.name not in device.descriptor.formats:
        text = f"{device} cannot store {type_.dtype}: it stores {', '.join(device.descriptor.formats)}"
        raise DeviceError(text, device=str(device), got=type_.dtype)
    return Layout(memory.name, ROW_MAJOR, stored.name)


def default_layout(type_: TensorType, device: Device, format: str | None = None) -> Layout:
    """The layout that planning chooses for a type on a device. Raises DeviceError if the type cannot be
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
    """Raise DeviceError for a layout that a device does not have, or that a tensor of this type cannot have
    there."""
    descriptor = device.descriptor
    memory = descriptor.memory(layout.memory)
    known = descriptor.layouts if memory.name != HOST else (ROW_MAJOR,)
    if layout.layout not in known:
        text = f"{device} has no layout {layout.layout!r}{did_you_mean(layout.layout, known)}"
        raise DeviceError(text, device=str(device), got=layout.layout)
    native = dtypes.format_of(type_.dtype)
    formats = descriptor.formats if memory.name != HOST else (native.name if native else type_.dtype,)
    if layout.format not in formats:
        text = (
            f"{device} cannot store {type_.dtype} as {layout.format!r}{did_you_mean(layout.format, formats)}"
        )
        raise DeviceError(text, device=str(device), got=layout.format)
    if (
        native is not None
        and native.name != layout.format
        and not (native.converts and dtypes.FORMATS[layout.format].converts)
    ):
        text = f"{type_.dtype} cannot be stored as {layout.format}: formats change among floats only"
        raise DeviceError(text, device=str(device), got=layout.format)
    if memory.name == HOST:
        return
    try:
        footprint(layout, type_.shape, memory)
    except PlanError as error:
        raise DeviceError(f"{device}: {error}", device=str(device), got=str(layout)) from None
    why = shard_fault(layout, type_.shape, memory, descriptor.grid)
    if why is not None:
        text = f"{device} cannot shard {type_} as {layout}: {why}"
        raise DeviceError(text, device=str(device), got=str(layout))


def resolve(
    type_: TensorType, device: Device, layout: Layout | str | None = None, format: str | None = None
) -> Layout:
    """The Layout for a type on a device that the arguments of ``Tensor.to`` mean. Raises DeviceError for an
    impossible layout."""
    if isinstance(layout, Layout):
        wanted = layout
    else:
        chosen = default_layout(type_, device, format)
        wanted = chosen if layout is None else Layout(chosen.memory, layout, format or chosen.format)
    check_layout(type_, device, wanted)
    return wanted
