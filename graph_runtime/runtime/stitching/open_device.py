"""OpenDevice: a device that the user opened to stitch programs on it. It has tensors and loaded programs,
which end when it is closed.

The simulated device itself belongs to the process (run/device_handles.py), so other sessions continue after a
close.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from ...base.errors import DeviceError, InputError
from ...base.locks import new_rlock
from ...base.machine.devices import Device, parse
from ...binding.circular import peak
from ...run.device_handles import DeviceHandle, open_device
from ...run.queues.blocks import blocks, let_go
from ...run.queues.limbo import sweep
from ...run.sessions.constants import constants
from ...run.tensors.tensor import Tensor


class Holder(NamedTuple):
    """One block of a memory: ``addr``, ``bytes_per_bank``.

    ``kind``: use of the block: "tensor" (memory of handles), "constant" (shared by all programs with the same
    values), "session" (memory of a module for runs in the calling thread), "program" (other memory of a
    program or of a copy in progress), "queued" (needed by queued work only, such as intermediates) or "idle"
    (kept for reuse). ``name``: the first user of the block. For a block of kind "tensor", ``tensors`` has the
    ids of all handles on the block, and ``tensor``, ``type`` and ``retained`` are the id and properties of
    the oldest handle; for other kinds these four are (), None, "" and False.
    """

    tensor: int | None
    type: str
    addr: int
    bytes_per_bank: int
    retained: bool
    kind: str
    name: str
    tensors: tuple[int, ...]


class MemoryView(NamedTuple):
    """The state of one memory of a device; bytes are per bank, as in tt-mlir. ``holders``: all allocated
    blocks, whose sizes sum to ``total_bytes_allocated_per_bank``. ``circular_bytes_per_bank``: the most bytes
    that a run has reserved for circular buffers so far."""

    num_banks: int
    total_bytes_per_bank: int
    total_bytes_allocated_per_bank: int
    total_bytes_free_per_bank: int
    largest_contiguous_bytes_free_per_bank: int
    holders: tuple[Holder, ...]
    circular_bytes_per_bank: int = 0


_KINDS = {"reserved": "session", "held": "program", "queued": "queued", "idle": "idle"}
_open: weakref.WeakSet[OpenDevice] = weakref.WeakSet()
_open_lock = new_rlock()


def opened(value: Any) -> OpenDevice:
    """The value, checked to be an OpenDevice. Raises InputError for anything else."""
    if not isinstance(value, OpenDevice):
        raise InputError(f'an open device is wanted, got {value!r}: open_device("tt:0") gives one', got=value)
    return value


class OpenDevice:
    """A device, open until ``close`` or the end of a with block.

    ``device``: its name and kind; ``handle``: its memory; ``programs`` {bundle: its loaded programs}, filled
    by executable.py and dropped with the bundle; ``lock``: held while programs are loaded.
    """

    device: Device
    is_open: bool
    handle: DeviceHandle
    lock: Any

    def __init__(self, device: Device | str):
        self.device = parse(device)
        self.handle = open_device(self.device)
        self.is_open = True
        self.programs: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        self.lock = new_rlock()
        self._made: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
        with _open_lock:
            _open.add(self)

    def __repr__(self) -> str:
        return f"<OpenDevice {self.device}{'' if self.is_open else ', closed'}>"

    def __enter__(self) -> OpenDevice:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_open:
            self.close()

    def alive(self) -> OpenDevice:
        """This device, which must be open. Raises DeviceError for a closed device."""
        if not self.is_open:
            raise DeviceError(
                f"device {self.device} is closed: open_device gives a new one", device=str(self.device)
            )
        return self

    def adopt(self, tensor: Tensor) -> Tensor:
        """The tensor, registered as made through this open device: when this is closed the tensor ends, even
        if the same device is open elsewhere."""
        self._made[tensor.id] = tensor
        return tensor

    def tensors(self, memory: str | None = None) -> list[Tensor]:
        """The tensors on the device, however they were made, oldest first; ``memory``: only tensors in that
        memory. Views of modules' memory are not included."""
        found = [t for t in self.handle.tensors.alive() if t.buffer is not None and t.is_allocated]
        return [t for t in found if memory is None or t.layout.memory == memory]

    def close(self) -> None:
        """Unload the device's programs and end its tensors: handles are invalid from now on, and memory is
        freed when queued work has ended. Only the tensors made through this OpenDevice end if the same device
        is open elsewhere, or is a host, whose memory belongs to the process. Raises DeviceError for a closed
        device."""
        with self.alive().lock:
            self.is_open = False
            self.programs.clear()
        with _open_lock:
            _open.discard(self)
            last = not any(other.handle is self.handle for other in _open)
        made = [t for t in [ref() for ref in self._made.valuerefs()] if t is not None and t.is_allocated]
        everything = self.tensors() if last and not self.device.descriptor.on_host else []
        for tensor in {id(t): t for t in [*made, *everything]}.values():
            tensor.give_up(f"was on device {self.device}, which was closed")
        if last:
            let_go(self.handle)

    def memory_view(self) -> dict[str, MemoryView]:
        """{memory name: MemoryView}. Memory that finished work still holds is freed first."""
        sweep()
        made = {}
        for number, memory in enumerate(self.alive().device.descriptor.memories):
            holders = self._holders(number)
            taken = sum(holder.bytes_per_bank for holder in holders)
            largest = self.handle.stats(number).largest_free
            made[memory.name] = MemoryView(
                memory.banks,
                memory.usable,
                taken,
                memory.usable - taken,
                largest,
                holders,
                peak(self.handle, number),
            )
        return made

    def _holders(self, number: int) -> tuple[Holder, ...]:
        """Every block of one memory."""
        name = self.device.descriptor.memories[number].name
        shown: dict[int, list[Tensor]] = {}
        for tensor in self.tensors(name):
            shown.setdefault(tensor._addr, []).append(tensor)
        shared = {buffer.addr for buffer in constants(self.handle, number)}
        found = []
        for block in blocks(self.handle, number):
            kind, handles = _KINDS[block.kind], shown.get(block.addr, [])
            if kind == "program":
                kind = "tensor" if handles else "constant" if block.addr in shared else kind
            ids: tuple[int, ...] = ()
            type_, retained = "", False
            if kind == "tensor":
                ids = tuple(t.id for t in handles)
                type_, retained = str(handles[0].type), handles[0]._retained
            found.append(
                Holder(
                    ids[0] if ids else None,
                    type_,
                    block.addr,
                    block.extent,
                    retained,
                    kind,
                    block.holder,
                    ids,
                )
            )
        return tuple(found)


def deallocated(tensor: Tensor, device: OpenDevice | bool | None, force: bool) -> bool:
    """The result of Tensor.deallocate, for callers that name the tensor's open device; True or False in its
    place is ``force``. Raises DeviceError for another device."""
    if isinstance(device, bool):
        force = device
    elif device is not None:
        wanted = opened(device).alive().device
        if tensor.alive().device != wanted and not tensor.device.descriptor.on_host:
            text = (
                f"tensor {tensor.id} is on {tensor.device}, not on {wanted}: name the device "
                "that it is on, or none"
            )
            raise DeviceError(text, device=str(wanted), got=str(tensor.device))
    return tensor.deallocate(force)
