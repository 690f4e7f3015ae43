"""What leaves L1 so that work can be queued, or run: the tensors that are where its circular buffers, and the
tensors that it makes, will be. They move to DRAM; their handles stay valid.

    evicting(attempt, needs)     the one way to ask for room: what attempt() gives, again after each eviction

Circular buffers begin at the base of L1, tensors are put as far up as they fit. So what is below the top of
the work's circular buffers goes; and above it the fewest bytes that leave its tensors room in one piece. A
tensor that a caller puts into L1 by name moves no other: it is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from ...base.errors import DeviceError, DeviceMemoryError, HandleError, afresh
from ...base.machine.layout import L1, Layout
from ...binding.circular import l1_number
from ..device_handles import DeviceHandle
from ..queues.blocks import blocks
from ..queues.template import copy
from .arrays import allocate
from .handle import moves
from .tensor import Tensor
from .traffic import record

__all__ = [
    "Need",
    "Resident",
    "block_need",
    "cheapest",
    "evict_unused",
    "evicting",
    "has_l1",
    "is_below",
    "make_room",
]

_Made = TypeVar("_Made")
_PAUSES = 0.001, 0.01, 0.05  # seconds


class Resident(NamedTuple):
    """Bytes of each bank of L1, and the handles that show them. ``pinned``: the work reads them there, or
    they are no tensor's; ``loose``: nor a session's, but a constant's, or a tensor's that is about to be."""

    addr: int
    extent: int
    handles: tuple[Tensor, ...] = ()
    pinned: bool = False
    loose: bool = False

    @property
    def end(self) -> int:
        return self.addr + self.extent


class Need(NamedTuple):
    """What work takes of the L1 of a device: ``circular`` bytes of each core from the base up, and above them
    ``taken(read)`` bytes of each bank, where it reads the ``reads`` of these names where they are, and makes
    the others anew. ``stay``: what it writes, which does not move."""

    handle: DeviceHandle
    circular: int
    taken: Callable[[Collection[Any]], int]
    reads: Mapping[Any, Tensor] = MappingProxyType({})  # by names of the caller's
    stay: Sequence[Tensor] = ()

    @property
    def end(self) -> int:
        """Where its circular buffers end."""
        return self.handle.device.descriptor.memory(L1).base + self.circular


def has_l1(handle: DeviceHandle) -> bool:
    return any(memory.name == L1 for memory in handle.device.descriptor.memories)


def block_need(
    handle: DeviceHandle,
    memory: int,
    extent: int,
    circular: int = 0,
    reads: Mapping[Any, Tensor] | None = None,
) -> list[Need]:
    """What work takes of L1 that makes one block of a memory of its device."""
    if not has_l1(handle):
        return []
    alignment = handle.device.descriptor.memory(L1).alignment
    taken = -(-extent // alignment) * alignment if memory == l1_number(handle.device) else 0
    return [Need(handle, circular, lambda read: taken, reads or {})]


def evicting(attempt: Callable[[], _Made], needs: Callable[[], Iterable[Need]]) -> _Made:
    """What ``attempt`` gives. Where it raises DeviceMemoryError, having done nothing, what is in the way of
    ``needs`` moves to DRAM, and it is tried again; raised is what it raises when nothing more can move. The
    caller holds no block that may have to go, nor a lock that others need to let one go."""
    pauses = iter(_PAUSES)
    while True:
        try:
            return attempt()
        except DeviceMemoryError as error:
            refused = afresh(error)  # its frames hold blocks of the attempt
        found = [make_room(need) for need in needs()]
        if not any(found):
            pause = next(pauses, None) if None in found else None
            if pause is None:
                break
            time.sleep(pause)
    raise afresh(refused)


def evict_unused(handle: DeviceHandle, read: Sequence[Tensor]) -> None:
    """Move all tensors from L1 to DRAM, but for those in ``read``."""
    for block in _blocks(handle, read):
        if not block.pinned:
            _move(handle, block)


def make_room(need: Need) -> bool | None:
    """Move what is in the way of work that did not fit; whether anything moved. None where what is in the way
    is no tensor that is known: another thread's, maybe, which is about to be."""
    handle, end = need.handle, need.end
    memory = handle.device.descriptor.memory(L1)
    below = [block for block in _blocks(handle, need.stay) if block.addr < end]
    if any(block.pinned for block in below):  # by what does not move
        return None if any(block.loose for block in below) else False
    for block in below:
        _move(handle, block)
    read = {name: tensor for name, tensor in need.reads.items() if tensor.layout.memory == L1}
    taken = need.taken(read.keys())
    held = _blocks(handle, [*read.values(), *need.stay])
    top = memory.bank_bytes // memory.alignment * memory.alignment
    chosen = cheapest(held, end, top, taken)
    if not chosen and not below and taken:  # in pieces, or beside memory of others: the oldest
        idle = [block for block in held if not block.pinned]
        chosen = sorted(idle, key=lambda block: min(tensor.id for tensor in block.handles))[:1]
    for block in chosen:
        _move(handle, block)
    return bool(below or chosen) or (None if any(block.loose for block in held) else False)


def cheapest(blocks: Sequence[Resident], low: int, high: int, need: int) -> list[Resident]:
    """The fewest bytes of blocks, none pinned, that leave ``need`` bytes in one piece between ``low`` and
    ``high``; of equals those furthest up. Empty where nothing has to go, and where nothing would do."""
    best: tuple[int, int, list[Resident]] | None = None
    for end in {high, *(block.addr for block in blocks), *(block.end + need for block in blocks)}:
        if end - need < low or end > high:
            continue
        over = [block for block in blocks if block.addr < end and block.end > end - need]
        if not any(block.pinned for block in over):
            found = sum(block.extent for block in over), -end, over
            best = found if best is None or found[:2] < best[:2] else best
    return best[2] if best else []


def is_below(tensor: Tensor, handle: DeviceHandle, end: int) -> bool:
    """Whether a tensor is in the L1 of a device and begins below an address."""
    buffer = tensor.buffer
    here = buffer is not None and buffer.handle is handle and tensor.layout.memory == L1
    return here and buffer is not None and buffer.addr < end


def _blocks(handle: DeviceHandle, stay: Sequence[Tensor]) -> list[Resident]:
    """What is held of the L1 of a device, but for what queued work alone needs."""
    l1 = l1_number(handle.device)
    shown: dict[int, list[Tensor]] = {}
    at = {}
    for tensor in handle.tensors.alive():
        buffer = tensor.buffer  # other threads may deallocate some, or move them
        if buffer is not None and buffer.memory == l1:
            shown.setdefault(id(buffer), []).append(tensor)
            at[id(buffer)] = buffer
    pinned = {id(tensor.buffer) for tensor in stay}
    found = {}
    for key, buffer in at.items():
        with suppress(DeviceError):  # another thread freed it meanwhile
            found[buffer.addr] = Resident(buffer.addr, buffer.extent, tuple(shown[key]), key in pinned)
    for block in blocks(handle, l1):
        if block.kind in ("reserved", "held"):
            found.setdefault(block.addr, Resident(block.addr, block.extent, (), True, block.kind == "held"))
    return list(found.values())


def _move(handle: DeviceHandle, block: Resident) -> None:
    """Move the handles of a block to DRAM together, those that other threads made meanwhile, too; where they
    have left it already, nothing. Raises DeviceMemoryError."""
    now = _seen(block)
    if now is None:
        return
    away = allocate(now.type, now.device, Layout("dram", now.layout.layout, now.layout.format)).snapshot()
    with moves:  # no thread writes the block from here on
        leaving = [tensor for tensor in handle.tensors.alive() if tensor.buffer is now.buffer]
        if not leaving:
            return
        assert now.buffer is not None  # of a block
        assert away.buffer is not None  # allocate gave it one
        copy(now.buffer, now.layout, away.buffer, away.layout, now.type)
        for tensor in leaving:
            tensor.settle(away, of=now.buffer)
    record("eviction", handle.device, now.nbytes)


def _seen(block: Resident) -> Tensor | None:
    """One of a block's handles as it is now, None where no handle shows the block any more."""
    for handle in block.handles:
        with suppress(HandleError, DeviceError):  # other threads may deallocate some
            now = handle.snapshot()
            if now.layout.memory == L1 and now.buffer is not None and now.buffer.addr == block.addr:
                return now
    return None
