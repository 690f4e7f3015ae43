"""torch.tt: what torch asks a device's module for, and memory statistics."""

from __future__ import annotations

import os
from typing import Any

import torch

from ..run import core
from ..run.queues.limbo import sweep
from .required import TorchDeviceError
from .store import collect, current, device_of, devices, live, torch_device

__all__ = ["DeviceModule", "refuse_in_child"]

_pid = os.getpid()


class _DeviceContext:
    """``with torch.tt.device(1):`` "tt" means tt:1 inside."""

    def __init__(self, device: Any):
        self._index, self._before = device_of(device), 0

    def __enter__(self) -> None:
        self._before, current[0] = current[0], self._index

    def __exit__(self, *_: object) -> None:
        current[0] = self._before


class DeviceModule:
    """The module torch.tt. Bytes of memory are what the device's main memory really gives: padded tiles and
    pages of all banks, whatever holds them."""

    __name__ = "torch.tt"
    device = _DeviceContext

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        """Whether this is a child of fork: the simulated device's threads are its parent's."""
        return os.getpid() != _pid

    def _lazy_init(self) -> None:
        """Nothing: devices are opened at first use."""

    def current_device(self) -> int:
        return current[0]

    def set_device(self, device: Any) -> None:
        current[0] = device_of(device)

    def device_count(self) -> int:
        return len(devices())

    def get_device_name(self, device: Any = None) -> str:
        """The board, as "wormhole_b0/n150"."""
        return devices()[device_of(device)].descriptor.name

    def synchronize(self, device: Any = None) -> None:
        """Wait until the values of all tensors on a device are there."""
        index = device_of(device)
        for store in live():
            if store.index == index and store.base is not None:
                store.base.wait()

    # **************** random numbers: made on the host ****************

    def manual_seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        self.manual_seed(seed)

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.default_generator.get_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.default_generator.set_state(state)

    # **************** autocast ****************

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    # **************** memory ****************

    def memory_stats(self, device: Any = None) -> dict[str, int]:
        """Bytes of the device's main memory: {"allocated", "free", "largest_free", "allocations", "idle"}.
        ``idle``: given back, and kept for the next taker."""
        collect()
        sweep()
        handle = core.open_device(devices()[device_of(device)])
        banks = handle.device.main_memory.banks
        stats, idle = handle.stats(0), core.lib.gr_buffers_idle(handle.pointer, 0)
        return {
            "allocated": (stats.allocated - idle) * banks,
            "free": stats.free * banks,
            "largest_free": stats.largest_free * banks,
            "allocations": stats.allocations,
            "idle": idle * banks,
        }

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors, programs and sessions hold, padding counted."""
        return self.memory_stats(device)["allocated"]

    def memory_reserved(self, device: Any = None) -> int:
        """memory_allocated, and what is kept for the next taker."""
        stats = self.memory_stats(device)
        return stats["allocated"] + stats["idle"]

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """(free bytes, bytes in all)."""
        stats = self.memory_stats(device)
        free = stats["free"] + stats["idle"]
        return free, free + stats["allocated"]

    def empty_cache(self) -> None:
        """Give idle memory back to the devices."""
        collect()
        sweep()
        for device in devices():
            core.lib.gr_reclaim(core.open_device(device).pointer, 0, 0)


def refuse_in_child() -> None:
    """Raise where this process is a child of fork, and the device its parent's."""
    if os.getpid() != _pid:
        raise TorchDeviceError(
            "this process is a child of fork: its parent has the simulated device. Start "
            "workers that use tt by spawn, or keep what they make on the CPU",
            device=str(torch_device(0)),
        )
