"""Devices that are open: their memory, and what the core knows of them.

The C of a kind that another package brought is compiled when its first device opens.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ..base import config
from ..base.errors import DeviceError
from ..base.locks import new_lock
from ..base.machine.devices import Device, require_at_home
from ..base.machine.layout import MEMORY_CODES, Layout
from ..base.machine.outside_kinds import code_of
from ..base.weaklist import WeakList
from ..binding import core
from ..binding.core import check, ffi, lib
from ..binding.shard_structs import cut_of

__all__ = ["CoreStats", "DeviceHandle", "MemoryStats", "open_device"]


class MemoryStats(NamedTuple):
    """Bytes are per bank; ``bytes_in`` and ``bytes_out`` count copies from and to the host or another device,
    pages what kernels moved."""

    allocated: int
    free: int
    largest_free: int
    allocations: int
    bytes_in: int
    bytes_out: int
    pages_read: int
    pages_written: int


class CoreStats(NamedTuple):
    """``opened`` cores, ``different`` ones among them, ``most_bytes`` of circular buffers that one asked for,
    ``threads`` of the host that were cores."""

    opened: int
    different: int
    most_bytes: int
    threads: int


class DeviceHandle:
    """A device that is there: its memory and the env its kernels get. ``env`` is a ``gr_env *``.

    Made by open_device, once a process; tests make their own and close them. Takes no tensor memory before
    alloc. ``tensors``: weak references to all handles that lead to its memory.
    """

    tensors: WeakList
    env: Any

    def __init__(self, device: Device):
        self.device = device
        rows, cols = device.descriptor.grid
        descs = ffi.new(
            "gr_memory_desc[]",
            [
                {
                    "kind": MEMORY_CODES[m.name],
                    "banks": m.banks,
                    "bank_bytes": m.bank_bytes,
                    "base": m.base,
                    "alignment": m.alignment,
                    "top_down": m.top_down,
                    "tile_header": m.tile_header,
                }
                for m in device.descriptor.memories
            ],
        )
        out = ffi.new("gr_device **")
        source = code_of(device.kind)
        if source is not None:
            from ..codegen.device_kinds import build_kind  # kinds of other packages are compiled here

            path = build_kind(source)
            check(lib.gr_device_load(device.kind.encode(), os.fsencode(path)), device=str(device))
        check(
            lib.gr_device_create(
                device.kind.encode(), str(device).encode(), rows * cols, descs, len(descs), out
            ),
            device=str(device),
        )
        self._pointer = out[0]
        self._tags: dict[tuple[Layout, tuple[int, ...]], tuple[int, Any]] = {}  # and the table that it reads
        self.tensors = WeakList()
        self.env = lib.gr_device_env(self._pointer)
        if config.get("GUARD"):
            self.set_guard(True)

    def __repr__(self) -> str:
        return f"DeviceHandle({self.device})"

    @property
    def pointer(self) -> Any:
        """The ``gr_device *``. Raises DeviceError where the device is closed."""
        return self._open()

    def _open(self) -> Any:
        if self._pointer is None:
            raise DeviceError(f"device {self.device} is closed", device=str(self.device))
        return self._pointer

    def alloc(self, memory: int, extent: int, holder: str) -> int:
        """Address of ``extent`` bytes (in every bank) of memory number ``memory`` of the descriptor.
        ``holder`` is the name in out-of-memory texts. Raises DeviceMemoryError."""
        out = ffi.new("uint64_t *")
        check(
            lib.gr_device_alloc(self._open(), memory, extent, holder.encode(), out), device=str(self.device)
        )
        return out[0]

    def free(self, memory: int, addr: int) -> None:
        """Give back what alloc returned. Nothing happens on a closed device: closing gave everything back."""
        if self._pointer is not None:
            check(lib.gr_device_free(self._pointer, memory, addr), device=str(self.device))

    def discard(self, memory: int, addr: int, nbytes: int) -> None:
        """The content of a part of an allocation is not needed any more: host pages go back to the system."""
        check(lib.gr_device_discard(self._open(), memory, addr, nbytes), device=str(self.device))

    def shard_tag(self, layout: Layout, shape: tuple[int, ...]) -> int:
        """What the address of a tensor has above its bank address: how it is sharded, 0 where it is not."""
        if not layout.is_sharded:
            return 0
        if (layout, shape) not in self._tags:
            shard, table = cut_of(ffi, layout, shape, self.device.descriptor.grid[1])
            out = ffi.new("uint64_t *")
            check(lib.gr_device_shard(self._open(), shard, out), device=str(self.device))
            self._tags[layout, shape] = out[0], table
        return self._tags[layout, shape][0]

    def stats(self, memory: int) -> MemoryStats:
        """What memory number ``memory`` holds and has moved."""
        out = ffi.new("uint64_t[8]")
        check(lib.gr_device_stats(self._open(), memory, out), device=str(self.device))
        return MemoryStats(*out)

    def cores(self, reset: bool = False) -> CoreStats:
        """What kernels took of the cores since the device was made or last reset; between two runs."""
        out = ffi.new("uint64_t[4]")
        check(lib.gr_device_cores(self._open(), reset, out), device=str(self.device))
        return CoreStats(*out)

    def traffic(self, memory: int) -> np.ndarray:
        """int64 [banks, 2]: payload bytes that copies and kernels moved out of and into each bank."""
        out = np.zeros((self.device.descriptor.memories[memory].banks, 2), np.int64)
        check(
            lib.gr_device_traffic(self._open(), memory, ffi.cast("uint64_t *", out.ctypes.data)),
            device=str(self.device),
        )
        return out

    def set_guard(self, on: bool) -> None:
        """Guard mode (GR_GUARD=1): device memory is PROT_NONE outside of kernels and copies, fresh memory
        holds NaNs."""
        check(lib.gr_device_set_guard(self._open(), on), device=str(self.device))

    def close(self) -> None:
        """Give everything back. No program of this device may run, now or later."""
        pointer, self._pointer, self.env = self._pointer, None, ffi.NULL
        if pointer is not None:
            lib.gr_device_destroy(pointer)

    def __enter__(self) -> DeviceHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_handles: dict[Device, DeviceHandle] = {}
_handles_lock = new_lock()


def open_device(device: Device) -> DeviceHandle:
    """The process's handle of a device: one simulated device for each kind, ordinal and board.

    It lives as long as the process: a daemon thread may still be running kernels on it when the interpreter
    ends.
    """
    with _handles_lock:
        handle = _handles.get(require_at_home(device))
        if handle is None:
            core.choose_threads()
            handle = _handles[device] = DeviceHandle(device)
        return handle
