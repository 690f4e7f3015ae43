"""TensorSpec: where and how a tensor is stored. Specs are interned, so a tuple of specs is a quick dictionary
key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base import dtypes
from ...base.errors import DeviceError
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, ROW_MAJOR, Layout, footprint
from ...binding.programs.program import ARG, arg_record
from ...ir.graph import TensorType
from ...plan.supports import choose
from ..device_handles import DeviceHandle, open_device


class TensorSpec:
    """Place and form of a tensor, as ``device``, ``type`` and ``layout``. ``handle``: the opened device;
    ``memory``: index of the layout's memory in the device's descriptor; ``extent``: bytes of a tensor in each
    bank, at least 1; ``tag``: the bits above the bank address that say how the tensor is sharded. Only
    ``spec_of`` makes specs, so equal specs are one object."""

    __slots__ = ("device", "extent", "handle", "layout", "memory", "tag", "type")

    device: Device
    layout: Layout
    type: TensorType
    memory: int
    extent: int
    handle: DeviceHandle
    tag: int

    def __init__(self, device: Device, type_: TensorType, layout: Layout):
        self.device, self.type, self.layout = device, type_, layout
        self.handle = open_device(device)
        names = [memory.name for memory in device.descriptor.memories]
        self.memory = names.index(layout.memory)
        memory = device.descriptor.memories[self.memory]
        nbytes = type_.nbytes if layout.memory == HOST else footprint(layout, type_.shape, memory)[0]
        self.extent = max(1, nbytes)
        self.tag = self.handle.shard_tag(layout, type_.shape)

    def __repr__(self) -> str:
        return f"Place({self.type}, {self.device}, {self.layout})"


def spec_args(specs: Sequence[TensorSpec]) -> tuple[np.ndarray, np.ndarray]:
    """(ARG [specs] with the tags as addresses, int64 array of all shapes). The shape of an ARG is a byte
    offset into that array."""
    args = np.zeros(len(specs), ARG)
    for at, spec in enumerate(specs):
        args[at] = arg_record(spec.type, spec.layout, spec.type.shape)
    args["shape"] = 8 * np.cumsum([0, *(len(spec.type.shape) for spec in specs)])[:-1]
    args["addr"] = [spec.tag for spec in specs]
    return args, np.array([size for spec in specs for size in spec.type.shape] or [0], np.int64)


_MOST = 1 << 16
_specs: dict[tuple[Device, TensorType, Layout], TensorSpec] = {}


def spec_of(device: Device, type_: TensorType, layout: Layout) -> TensorSpec:
    """The one TensorSpec of a device, type and layout. Raises DeviceError if the device has no such
    memory."""
    key = (device, type_, layout)
    found = _specs.get(key)
    if found is None:
        device.descriptor.memory(layout.memory)
        if len(_specs) >= _MOST:
            _specs.clear()  # equal specs may then be two objects, which only costs one more selection
        found = _specs.setdefault(key, TensorSpec(device, type_, layout))  # of two threads, the first sets it
    return found


def default_spec(device: Device, type_: TensorType, like: Layout | None = None) -> TensorSpec:
    """Spec of a new value of this type on a device: in main memory, in the layout that planning chooses; a
    float is in the format of ``like``, if the device has that. Raises DeviceError for a dtype that the device
    cannot store (``held`` gives the dtype to use instead)."""
    if held(device, type_.dtype) != type_.dtype:
        text = f"{device} cannot store {type_.dtype}: it stores {', '.join(device.descriptor.formats)}"
        raise DeviceError(text, device=str(device), got=type_.dtype)
    fmt = None
    if like is not None and type_.dtype in dtypes.TILED and like.format in dtypes.CONVERTED:
        fmt = like.format
    if device.descriptor.layouts == (ROW_MAJOR,):
        fmt = None  # the dtype's own format
    return spec_of(device, type_, choose(type_, device.descriptor, fmt)[0])


def held(device: Device, dtype: str) -> str:
    """The dtype in which a device keeps values of ``dtype``: ``dtype`` itself if the device can store it,
    else the 32-bit dtype of the same kind (a tt device has no float64, float16, int64, uint64)."""
    stored = dtypes.format_of(dtype)
    if stored is not None and stored.name in device.descriptor.formats:
        return dtype
    if stored is None or not stored.narrower:
        raise DeviceError(f"{device} has no dtype for {dtype}", device=str(device), got=dtype)
    return held(device, stored.narrower[0])
