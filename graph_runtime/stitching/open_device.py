"""OpenDevice: a device that somebody opened to stitch programs on it: the tensors that live there, the
programs that are loaded for it. Closing it ends both.

The simulated device itself is the process's (core.open_device): sessions of others go on after a close.
"""
from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from .. import core
from ..devices import Device, parse
from ..errors import DeviceError, InputError
from ..locks import new_rlock
from ..tensors.tensor import Tensor

__all__ = ["Holder", "MemoryView", "OpenDevice", "opened"]


class Holder(NamedTuple):
    """One tensor in a memory: ``addr`` and ``bytes_per_bank`` of its block."""

    tensor: int
    type: str
    addr: int
    bytes_per_bank: int
    retained: bool


class MemoryView(NamedTuple):
    """One memory of a device; bytes are per bank, as in tt-mlir. ``holders``: the tensors of this open
    device; the rest of what is allocated belongs to programs, other sessions, and blocks kept for reuse."""

    num_banks: int
    total_bytes_per_bank: int
    total_bytes_allocated_per_bank: int
    total_bytes_free_per_bank: int
    largest_contiguous_bytes_free_per_bank: int
    holders: tuple[Holder, ...]


def opened(value: Any) -> OpenDevice:
    """An OpenDevice, as it is. Raises InputError for anything else."""
    if not isinstance(value, OpenDevice):
        raise InputError(f"an open device is wanted, got {value!r}: open_device(\"tt:0\") gives one",
                         got=value)
    return value


class OpenDevice:
    """A device, open until ``close`` or the end of a with block.

    ``device`` which one, ``handle`` its memory, ``programs`` what is loaded for it (executable.py keeps it),
    ``lock`` for loading them.
    """

    def __init__(self, device: Device | str):
        self.device = parse(device)
        self.handle = core.open_device(self.device)
        self.is_open = True
        self.programs: dict[Any, Any] = {}
        self.lock = new_rlock()
        self._tensors: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()

    def __repr__(self) -> str:
        return f"<OpenDevice {self.device}{'' if self.is_open else ', closed'}>"

    def __enter__(self) -> OpenDevice:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_open:
            self.close()

    def alive(self) -> OpenDevice:
        """The device itself. Raises DeviceError for one that was closed."""
        if not self.is_open:
            raise DeviceError(f"device {self.device} is closed: open_device gives a new one",
                              device=str(self.device))
        return self

    def adopt(self, tensor: Tensor) -> Tensor:
        """Count a tensor among those of this device: evictable, shown in memory_view, gone when it closes."""
        self._tensors[tensor.id] = tensor
        return tensor

    def tensors(self, memory: str | None = None) -> list[Tensor]:
        """The tensors that live here, the oldest first; those of one memory, if it is named."""
        alive = [t for t in [ref() for ref in self._tensors.valuerefs()] if t is not None]
        found = [t for t in alive if t.is_allocated and t.device == self.device]
        return sorted((t for t in found if memory is None or t.layout.memory == memory), key=lambda t: t.id)

    def close(self) -> None:
        """Let its tensors and programs go: handles end here, memory comes back when queued work
        is over. Raises DeviceError for one that is closed."""
        with self.alive().lock:
            self.is_open = False
            self.programs.clear()
        for tensor in self.tensors():
            tensor.give_up(f"was on device {self.device}, which was closed")

    def memory_view(self) -> dict[str, MemoryView]:
        """{memory name: MemoryView}."""
        made = {}
        for number, memory in enumerate(self.alive().device.descriptor.memories):
            now = self.handle.stats(number)
            blocks = [(t, t.buffer) for t in self.tensors(memory.name)]  # other threads may deallocate some
            holders = tuple(Holder(t.id, str(t.type), block.addr, block.extent, t.retain)
                            for t, block in blocks if block is not None)
            made[memory.name] = MemoryView(memory.banks, memory.usable, now.allocated, now.free,
                                           now.largest_free, holders)
        return made
