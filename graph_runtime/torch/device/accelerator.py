"""torch's interface to any accelerator: torch.Generator, Stream and Event of a device, and torch.accelerator.
Each of these uses torch.tt.

torch implements them in C++, and only code that is compiled against torch can extend them. Instead,
Generator, Stream and Event are replaced by classes that choose an implementation by device, and the functions
that torch.accelerator calls are replaced.
"""

from __future__ import annotations

from typing import Any

import torch

from . import device_module, generators, memory, streams


class _Choosing(type):
    """Metaclass of the class that replaces a torch class: a call makes an instance of our class for a tt
    device, and an instance of torch's class for any other device. Instances and subclasses of torch's class
    count as instances and subclasses of the replacement."""

    plain: type
    ours: Any
    by_default: bool  # whether a call without a device means tt

    def __call__(cls, *args: Any, **more: Any) -> Any:
        if not _is_choosing(cls):
            return super().__call__(*args, **more)
        device = more.get("device", args[0] if args else None)
        if more.get("device_type") is not None:  # called as (stream_id, device_index, device_type)
            return (cls.ours if more["device_type"] == streams.TYPE else cls.plain)(*args, **more)
        if (device is None and cls.by_default) or (device is not None and _type(device) == "tt"):
            return cls.ours(*args, **more)
        return cls.plain(*args, **more)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.plain) if _is_choosing(cls) else super().__instancecheck__(x)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.plain) if _is_choosing(cls) else super().__subclasscheck__(other)


def _is_choosing(cls: Any) -> bool:
    return "plain" in vars(cls)


def _type(device: Any) -> str:
    if isinstance(device, int):
        return "tt"
    return torch.device(device).type


def _choosing(name: str, ours: Any, by_default: bool) -> None:
    """Replace torch's class ``name`` by one that chooses between it and ``ours``."""
    plain = getattr(torch, name)
    kind = type(name, (_Choosing, type(plain)), {}) if type(plain) is not type else _Choosing
    known = {
        "plain": plain,
        "ours": ours,
        "by_default": by_default,
        "__doc__": plain.__doc__,
        "__module__": "torch",
    }
    setattr(torch, name, kind(name, (plain,), known))


# **************** torch.accelerator ****************


def _nested_stats(index: int) -> dict[str, Any]:
    """memory_stats as nested dicts, in the form of torch.accelerator: each part of a dotted key is one
    level."""
    made: dict[str, Any] = {}
    for path, value in memory.memory_stats(index).items():
        *outer, last = path.split(".")
        at = made
        for key in outer:
            at = at.setdefault(key, {})
        at[last] = value
    return made


def _nothing() -> None:
    """Do nothing, because unused pinned memory is not kept."""


_ASKED = {
    "setDeviceIndex": device_module.set_device,
    "getDeviceIndex": device_module.current_device,
    "exchangeDevice": device_module.exchange_device,
    "maybeExchangeDevice": device_module.exchange_device,
    "getDeviceCapability": device_module.get_device_capability,
    "setStream": streams.set_stream,
    "getStream": lambda index: streams.current_stream(None if index < 0 else index),
    "synchronizeDevice": streams.synchronize,
    "isAllocatorInitialized": lambda: True,
    "emptyCache": memory.empty_cache,
    "emptyHostCache": _nothing,
    "getDeviceStats": _nested_stats,
    "resetAccumulatedStats": memory.reset_accumulated_memory_stats,
    "resetPeakStats": memory.reset_peak_memory_stats,
    "getMemoryInfo": memory.mem_get_info,
}


def register() -> None:
    """Make torch.accelerator, torch.Generator, torch.Stream and torch.Event support the device."""
    for name, function in _ASKED.items():
        if hasattr(torch._C, f"_accelerator_{name}"):
            setattr(torch._C, f"_accelerator_{name}", function)
    torch.accelerator.device_count = device_module.device_count
    _choosing("Generator", generators.Generator, False)
    _choosing("Stream", streams.Stream, True)
    _choosing("Event", streams.Event, True)
