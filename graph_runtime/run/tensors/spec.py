"""TensorSpec: where and how a tensor is stored. Interned, so a tuple of specs is a quick dictionary key."""

from __future__ import annotations

from ...base import dtypes
from ...base.errors import DeviceError
from ...base.machine.devices import Device
from ...base.machine.layout import HOST, ROW_MAJOR, Layout, footprint
from ...ir.graph import TensorType
from ...plan.defaults import choose
from ..device_handles import DeviceHandle, open_device

__all__ = ["TensorSpec", "default_spec", "held", "spec_of"]


class TensorSpec:
    """``device``, ``type``, ``layout``; ``handle`` the opened device; ``memory`` the layout's memory as an
    index into the device's descriptor; ``extent`` the bytes a tensor takes there in each bank, at least 1;
    ``tag`` what its addresses have above the bank address, for how it is sharded.

    Two specs are one object if they are equal: made by ``spec_of`` only.
    """

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


_MOST = 1 << 16
_specs: dict[tuple[Device, TensorType, Layout], TensorSpec] = {}


def spec_of(device: Device, type_: TensorType, layout: Layout) -> TensorSpec:
    """The one TensorSpec of these three. Raises DeviceError where the device has no such memory."""
    key = (device, type_, layout)
    found = _specs.get(key)
    if found is None:
        device.descriptor.memory(layout.memory)
        if len(_specs) >= _MOST:
            _specs.clear()  # then equal ones may be two, which costs a selection
        found = _specs.setdefault(key, TensorSpec(device, type_, layout))  # two threads: one of them wins
    return found


def default_spec(device: Device, type_: TensorType, like: Layout | None = None) -> TensorSpec:
    """Where a new value of this type goes on a device: main memory, in the layout that planning would choose;
    a float in the format of ``like``, if that is one of its formats.

    Raises DeviceError for a dtype that the device cannot store (``held`` gives the one it would take).
    """
    if held(device, type_.dtype) != type_.dtype:
        raise DeviceError(
            f"{device} cannot store {type_.dtype}: it stores {', '.join(device.descriptor.formats)}",
            device=str(device),
            got=type_.dtype,
        )
    fmt = None
    if like is not None and type_.dtype in dtypes.TILED and like.format in dtypes.CONVERTED:
        fmt = like.format
    if device.descriptor.layouts == (ROW_MAJOR,):
        fmt = None  # the format is the dtype's own
    return spec_of(device, type_, choose(type_, device.descriptor, fmt)[0])


def held(device: Device, dtype: str) -> str:
    """The dtype in which a device keeps values of ``dtype``: the same where it can, else the 32-bit one of
    that kind (a tt device has no float64, float16, int64, uint64)."""
    stored = dtypes.format_of(dtype)
    if stored is not None and stored.name in device.descriptor.formats:
        return dtype
    if stored is None or not stored.narrower:
        raise DeviceError(f"{device} has no dtype for {dtype}", device=str(device), got=dtype)
    return held(device, stored.narrower[0])
