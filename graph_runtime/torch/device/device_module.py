"""torch.tt: the module through which torch and users control the device. It collects the functions of this
file (devices) and of memory, streams and generators."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, NamedTuple

import torch

from ..required import TorchDeviceError
from ..store import current, device_of, devices, torch_device
from . import generators, memory, streams

_pid = os.getpid()


class Properties(NamedTuple):
    """Properties of a device, in the form of torch.cuda's. ``name``: the board's; ``device``: the runtime's
    name of the device; ``total_memory``: bytes of main memory; ``multi_processor_count``: number of cores;
    ``clock_mhz``: the cores' clock rate."""

    name: str
    device: str
    arch: str
    total_memory: int
    multi_processor_count: int
    clock_mhz: int
    formats: tuple[str, ...]


class _Chosen:
    """Inside of the block ``with torch.tt.device(1):`` the name "tt" means tt:1. None or a negative number
    changes nothing."""

    def __init__(self, device: Any):
        self.idx = self._find(device)
        self.prev_idx = 0

    def _find(self, device: Any) -> int | None:
        unchanged = device is None or (isinstance(device, int) and device < 0)
        return None if unchanged else device_of(device)

    def __enter__(self) -> None:
        self.prev_idx = current.index
        if self.idx is not None:
            current.index = self.idx

    def __exit__(self, *_: object) -> None:
        current.index = self.prev_idx


class _OfTensor(_Chosen):
    """Inside of the block ``with torch.tt.device_of(x):`` the name "tt" means the device of the tensor x. A
    CPU tensor changes nothing."""

    def _find(self, device: Any) -> int | None:
        return device.device.index if device.device.type == "tt" else None


def is_initialized() -> bool:
    return True


def is_available() -> bool:
    return True


def is_in_bad_fork() -> bool:
    """Whether this process is a fork's child, in which the simulated device has no threads."""
    return os.getpid() != _pid


def init() -> None:
    """Do nothing: devices are opened at first use."""


def current_device() -> int:
    """The number of the device that "tt" means in this thread."""
    return current.index


def set_device(device: Any) -> None:
    """Make "tt" mean this device in this thread. A negative number changes nothing."""
    if not (isinstance(device, int) and device < 0):
        current.index = device_of(device)


def exchange_device(device: int) -> int:
    """Set the current device, and return the number of the previous current device."""
    before = current.index
    set_device(device)
    return before


def device_count() -> int:
    return len(devices())


def get_device_name(device: Any = None) -> str:
    """The board's name, such as "n150"."""
    return devices()[device_of(device)].descriptor.name


def get_device_properties(device: Any = None) -> Properties:
    found = devices()[device_of(device)]
    at, main = found.descriptor, found.main_memory
    total = main.banks * (main.bank_bytes - main.base)
    cores = at.grid[0] * at.grid[1]
    return Properties(at.name, str(found), at.arch, total, cores, at.clock_mhz, at.formats)


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """{"supported_dtypes": the torch dtypes that a device computes with}, for
    torch.accelerator.get_device_capability."""
    from ..kinds import computed

    device_of(device)
    return {"supported_dtypes": computed()}


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes in which torch.autocast("tt") may compute products."""
    return [torch.bfloat16]


def refuse_in_child() -> None:
    """Raise TorchDeviceError if this process is a fork's child: the device belongs to the parent."""
    if os.getpid() != _pid:
        raise TorchDeviceError(
            "this process is a child of fork: its parent has the simulated device. Start "
            "workers that use tt by spawn, or keep what they make on the CPU",
            device=str(torch_device(0)),
        )


_OWN = (
    is_initialized,
    is_available,
    init,
    current_device,
    set_device,
    exchange_device,
    device_count,
    get_device_name,
    get_device_properties,
    get_device_capability,
    is_bf16_supported,
    get_amp_supported_dtype,
)


def make_module() -> ModuleType:
    """The module torch.tt."""
    module = ModuleType("torch.tt", __doc__)
    for part in (memory, streams, generators):
        for name in part.__all__:
            setattr(module, name, getattr(part, name))
    for function in _OWN:
        setattr(module, function.__name__, function)
    module.device, module.device_of = _Chosen, _OfTensor  # type: ignore[attr-defined]
    module.maybe_exchange_device = exchange_device  # type: ignore[attr-defined]
    module._is_in_bad_fork, module._lazy_init = is_in_bad_fork, init  # type: ignore[attr-defined]
    module._DeviceGuard = _Chosen  # type: ignore[attr-defined]
    return module
