"""What torch says for all accelerators alike: torch.Generator, Stream and Event of a device, and
torch.accelerator. Each comes to what torch.tt has.

torch asks C++ for these, and there only code that is compiled against it could answer; so the three classes
choose by the device that is meant, and the functions by which torch.accelerator asks are ours.
"""

from __future__ import annotations

from typing import Any

import torch

from . import device_module, generators, memory, streams

__all__ = ["register"]


class _Choosing(type):
    """The metaclass of a class of torch's that makes one of ours where the device is tt. Instances and
    subclasses of torch's own class are its, too."""

    plain: type
    ours: Any
    by_default: bool  # whether no device means the accelerator

    def __call__(cls, *args: Any, **more: Any) -> Any:
        if not _is_choosing(cls):
            return super().__call__(*args, **more)
        device = more.get("device", args[0] if args else None)
        if more.get("device_type") is not None:  # torch.Stream(stream_id=, device_index=, device_type=)
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
    """Put such a class into torch."""
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
    """memory_stats as torch.accelerator reads them: its names are paths."""
    made: dict[str, Any] = {}
    for path, value in memory.memory_stats(index).items():
        *outer, last = path.split(".")
        at = made
        for key in outer:
            at = at.setdefault(key, {})
        at[last] = value
    return made


def _nothing() -> None:
    """Pinned memory is not kept when it is not used."""


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
    """Let torch.accelerator, torch.Generator, torch.Stream and torch.Event know the device."""
    for name, function in _ASKED.items():
        if hasattr(torch._C, f"_accelerator_{name}"):
            setattr(torch._C, f"_accelerator_{name}", function)
    torch.accelerator.device_count = device_module.device_count
    _choosing("Generator", generators.Generator, False)
    _choosing("Stream", streams.Stream, True)
    _choosing("Event", streams.Event, True)
