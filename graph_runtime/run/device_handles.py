"""Open devices: their memory, and the C objects of the core that stand for them.

The C code of a kind from another package is compiled when the first device of that kind is opened."""

from __future__ import annotations

import os
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from ..base import config
from ..base.errors import DeviceError
from ..base.locks import new_lock, new_rlock
from ..base.machine.descriptors import outside_code
from ..base.machine.devices import Device, require_at_home
from ..base.machine.layout import MEMORY_CODES, Layout, shard_words, unit_places
from ..binding import core
from ..binding.core import check, ffi, lib

_LEAST = 256  # a list of at most so many references is never swept
_lock = new_rlock()  # held while a list is read or swept; appending needs no lock


class MemoryStats(NamedTuple):
    """Counters of a device's memory, in bytes per bank. ``bytes_in`` and ``bytes_out`` count bytes copied
    from and to the host or other devices; ``pages_*`` count pages that kernels moved."""

    allocated: int
    free: int
    largest_free: int
    allocations: int
    bytes_in: int
    bytes_out: int
    pages_read: int
    pages_written: int


class CoreStats(NamedTuple):
    """Counters of a device's simulated cores. ``opened``: how often kernels opened a core; ``different``:
    number of different cores that kernels opened; ``most_bytes``: the most bytes of circular buffers that one
    core asked for; ``threads``: number of host threads that ran cores."""

    opened: int
    different: int
    most_bytes: int
    threads: int


class DeviceHandle:
    """An open device, with its memory. ``env``: a ``gr_env *``, which kernels get.

    open_device makes one handle of a device in a process; tests make and close their own. No tensor memory is
    taken before alloc. ``tensors``: weak references to the handles of all tensors in the device's memory;
    ``constants``: to the Buffers of constants, which no tensor shows."""

    tensors: WeakList
    constants: WeakList
    env: Any

    def __init__(self, device: Device):
        self.device = device
        rows, cols = device.descriptor.grid
        names = ("banks", "bank_bytes", "base", "alignment", "top_down", "tile_header")
        facts = [{name: getattr(m, name) for name in names} for m in device.descriptor.memories]
        kinds = [{"kind": MEMORY_CODES[m.name]} for m in device.descriptor.memories]
        descs = ffi.new("gr_memory_desc[]", [{**a, **b} for a, b in zip(kinds, facts, strict=True)])
        out = ffi.new("gr_device **")
        source = outside_code.get(device.kind)
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
        self._tags: dict[tuple[Layout, tuple[int, ...]], tuple[int, Any]] = {}  # tag, table of the device
        self.tensors, self.constants = WeakList(), WeakList()
        self.env = lib.gr_device_env(self._pointer)
        if config.get("GUARD"):
            self.set_guard(True)

    def __repr__(self) -> str:
        return f"DeviceHandle({self.device})"

    @property
    def pointer(self) -> Any:
        """The ``gr_device *``. Raises DeviceError for a closed device."""
        return self._open()

    def _open(self) -> Any:
        if self._pointer is None:
            raise DeviceError(f"device {self.device} is closed", device=str(self.device))
        return self._pointer

    def alloc(self, memory: int, extent: int, holder: str) -> int:
        """The address of newly allocated memory: ``extent`` bytes (in every bank) of memory number ``memory``
        of the descriptor. ``holder``: name in out-of-memory errors. Raises DeviceMemoryError."""
        found = self.try_alloc(memory, extent, holder)
        if found is None:
            check(lib.gr_last_status(), device=str(self.device))
        assert found is not None  # C's status says that the allocation failed
        return found

    def try_alloc(self, memory: int, extent: int, holder: str) -> int | None:
        """The result of alloc, or None if alloc would raise DeviceMemoryError; the reason is then C's last
        status and error text."""
        out = ffi.new("uint64_t *")
        return (
            None if lib.gr_device_alloc(self._open(), memory, extent, holder.encode(), out) else int(out[0])
        )

    def free(self, memory: int, addr: int) -> None:
        """Give back an allocation. On a closed device this does nothing, because all memory of the device has
        been given back."""
        if self._pointer is not None:
            check(lib.gr_device_free(self._pointer, memory, addr), device=str(self.device))

    def discard(self, memory: int, addr: int, nbytes: int) -> None:
        """Drop the contents of a part of an allocation: the host pages that hold this part go back to the
        system."""
        check(lib.gr_device_discard(self._open(), memory, addr, nbytes), device=str(self.device))

    def shard_tag(self, layout: Layout, shape: tuple[int, ...]) -> int:
        """The bits above the bank address in a sharded tensor's address, which tell how it is sharded; 0 for
        a tensor that is not sharded."""
        if not layout.is_sharded:
            return 0
        if (layout, shape) not in self._tags:
            shard, table = cut_of(ffi, layout, shape, self.device.descriptor.grid[1])
            out = ffi.new("uint64_t *")
            check(lib.gr_device_shard(self._open(), shard, out), device=str(self.device))
            self._tags[layout, shape] = out[0], table
        return self._tags[layout, shape][0]

    def stats(self, memory: int) -> MemoryStats:
        """Counters of bytes held and moved in memory number ``memory``."""
        out = ffi.new("uint64_t[8]")
        check(lib.gr_device_stats(self._open(), memory, out), device=str(self.device))
        return MemoryStats(*out)

    def cores(self, reset: bool = False) -> CoreStats:
        """Counters of the cores that kernels have used since the device was made, or since the last call with
        ``reset``. Call this between two runs."""
        out = ffi.new("uint64_t[4]")
        check(lib.gr_device_cores(self._open(), reset, out), device=str(self.device))
        return CoreStats(*out)

    def traffic(self, memory: int) -> np.ndarray:
        """int64 [banks, 2]: payload bytes that copies and kernels read from and wrote to each bank."""
        out = np.zeros((self.device.descriptor.memories[memory].banks, 2), np.int64)
        check(
            lib.gr_device_traffic(self._open(), memory, ffi.cast("uint64_t *", out.ctypes.data)),
            device=str(self.device),
        )
        return out

    def set_guard(self, on: bool) -> None:
        """Switch guard mode (GR_GUARD=1): device memory is PROT_NONE outside of kernels and copies, and fresh
        memory holds NaNs."""
        check(lib.gr_device_set_guard(self._open(), on), device=str(self.device))

    def close(self) -> None:
        """Give back all memory. No program of this device may run afterwards."""
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
    """The process's handle of a device, one for each kind, ordinal and board. The handle lives as long as the
    process, because a daemon thread may still run kernels on the device when the interpreter ends."""
    with _handles_lock:
        handle = _handles.get(require_at_home(device))
        if handle is None:
            core.choose_threads()
            handle = _handles[device] = DeviceHandle(device)
        return handle


class WeakList(list[Any]):
    """A list of ``weakref.ref`` objects. ``most``: length above which ``add`` calls ``sweep``."""

    __slots__ = ("most",)

    most: int

    def __init__(self) -> None:
        super().__init__()
        self.most = _LEAST

    def add(self, thing: Any) -> None:
        """Append a reference to an object."""
        self.append(ref(thing))
        if len(self) > self.most:
            self.sweep()

    def sweep(self) -> None:
        """Remove the references to dead objects. References that other threads append meanwhile stay at the
        end of the list."""
        with _lock:
            count = len(self)
            self[:count] = [known for known in self[:count] if known() is not None]
            self.most = max(_LEAST, 2 * len(self))

    def alive(self) -> list[Any]:
        """The objects that are still alive, in the order in which they were added."""
        with _lock:
            known = self[:]
        return [found for found in [one() for one in known] if found is not None]


def cut_of(ffi: Any, layout: Layout, shape: tuple[int, ...], grid_cols: int) -> tuple[Any, Any]:
    """(the gr_shard struct, its table or NULL) of a sharded layout. The device reads the table until it is
    closed, so the caller keeps the table."""
    words = shard_words(layout, shape, grid_cols)
    if layout.nd is None:
        return ffi.new("gr_shard *", (*words, ffi.NULL, 0, 0)), ffi.NULL
    banks, places, slots = unit_places(layout, shape, grid_cols)
    table = ffi.from_buffer("uint32_t[]", np.ascontiguousarray(np.stack([banks, places], 1), np.uint32))
    return ffi.new("gr_shard *", (*words, table, len(banks), slots)), table
