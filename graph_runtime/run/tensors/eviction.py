"""Eviction from L1: tensors in the place that a run's circular buffers or new tensors need move to DRAM.
Their handles stay valid.

    evicting(attempt, needs)     the one way to ask for room: calls attempt() again after each eviction

Circular buffers begin at the base of L1, tensors lie as far up as they fit. So all tensors below the top of
the run's circular buffers move. Of the tensors above the top, as few bytes move as are needed to make room in
one piece for the run's tensors. A tensor that a caller puts into L1 by name moves no other tensor: without
room it is refused."""

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

_Made = TypeVar("_Made")
# seconds of each pause for a tensor that another thread is making; together more than a thread of a busy
# machine waits for its turn
_PAUSES = 0.001, 0.01, 0.05, 0.2, 0.5, 1, 2


class Resident(NamedTuple):
    """A block in L1, by its bytes in each bank, and the handles that show it. ``pinned``: the block cannot
    move, because the run reads it in place or no tensor shows it. ``loose``: whether a pinned block belongs
    to a tensor that is being made or written, so that it will soon be shown or given back: it is neither a
    session's nor a constant's."""

    addr: int
    extent: int
    handles: tuple[Tensor, ...] = ()
    pinned: bool = False
    loose: bool = False

    @property
    def end(self) -> int:
        return self.addr + self.extent


class Need(NamedTuple):
    """Needs of a run in the L1 of a device: ``circular`` bytes of each core from the base up, and above them
    ``taken(read)`` bytes of each bank. The argument ``read`` has the names of the tensors in ``reads`` that
    the run reads in place; the run copies all other tensors. ``stay``: tensors that the run writes, which do
    not move."""

    handle: DeviceHandle
    circular: int
    taken: Callable[[Collection[Any]], int]
    reads: Mapping[Any, Tensor] = MappingProxyType({})  # under names that the caller chooses
    stay: Sequence[Tensor] = ()

    @property
    def end(self) -> int:
        """The address at which the run's circular buffers end."""
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
    """Needs of L1 for taking one block of a memory of the device."""
    if not has_l1(handle):
        return []
    alignment = handle.device.descriptor.memory(L1).alignment
    taken = -(-extent // alignment) * alignment if memory == l1_number(handle.device) else 0
    return [Need(handle, circular, lambda read: taken, reads or {})]


def evicting(attempt: Callable[[], _Made], needs: Callable[[], Iterable[Need]]) -> _Made:
    """The result of ``attempt()``. If the call raises DeviceMemoryError, which means that it has done
    nothing, tensors in the way of ``needs`` move to DRAM and ``attempt`` is called again. When no more
    tensors can move, the error of the last call is raised. The caller holds no block that may have to move,
    and no lock that others need to free a block."""
    pauses = iter(_PAUSES)
    while True:
        try:
            return attempt()
        except DeviceMemoryError as error:
            refused = afresh(error)  # a copy, because the error's frames hold blocks of the attempt
        found = [make_room(need) for need in needs()]
        if not any(found):
            pause = next(pauses, None) if None in found else None
            if pause is None:
                break
            time.sleep(pause)
    raise afresh(refused)


def evict_unused(handle: DeviceHandle, read: Sequence[Tensor]) -> None:
    """Move all tensors from L1 to DRAM, except those in ``read``."""
    for block in _blocks(handle, read):
        if not block.pinned:
            _move(handle, block)


def make_room(need: Need) -> bool | None:
    """Move tensors out of the way of a run that did not fit. Returns whether any moved, or None if the bytes
    in the way belong to no known tensor: perhaps to a tensor that another thread is making."""
    handle, end = need.handle, need.end
    memory = handle.device.descriptor.memory(L1)
    below = [block for block in _blocks(handle, need.stay) if block.addr < end]
    if any(block.pinned for block in below):  # a block in the way is pinned and cannot move
        return None if any(block.loose for block in below) else False
    for block in below:
        _move(handle, block)
    read = {name: tensor for name, tensor in need.reads.items() if tensor.layout.memory == L1}
    taken = need.taken(read.keys())
    held = _blocks(handle, [*read.values(), *need.stay])
    top = memory.bank_bytes // memory.alignment * memory.alignment
    chosen = cheapest(held, end, top, taken)
    if not chosen and not below and taken:  # free bytes in pieces, or next to pinned blocks: the oldest
        idle = [block for block in held if not block.pinned]
        chosen = sorted(idle, key=lambda block: min(tensor.id for tensor in block.handles))[:1]
    for block in chosen:
        _move(handle, block)
    return bool(below or chosen) or (None if any(block.loose for block in held) else False)


def cheapest(blocks: Sequence[Resident], low: int, high: int, need: int) -> list[Resident]:
    """The blocks, none pinned, with the fewest bytes in all whose move leaves ``need`` bytes in one piece
    between ``low`` and ``high``; of several such choices, the one furthest up. The result is empty if no
    block has to move, or if no choice gives enough room."""
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
    """Whether a tensor is in the L1 of a device and begins below the address ``end``."""
    buffer = tensor.buffer
    here = buffer is not None and buffer.handle is handle and tensor.layout.memory == L1
    return here and buffer is not None and buffer.addr < end


def _blocks(handle: DeviceHandle, stay: Sequence[Tensor]) -> list[Resident]:
    """The blocks held in the L1 of a device, except those that only queued work needs."""
    l1 = l1_number(handle.device)
    shown: dict[int, list[Tensor]] = {}
    at = {}
    for tensor in handle.tensors.alive():
        buffer = tensor.buffer  # read once, as other threads may deallocate or move the tensor
        if buffer is not None and buffer.memory == l1:
            shown.setdefault(id(buffer), []).append(tensor)
            at[id(buffer)] = buffer
    pinned = {id(tensor.buffer) for tensor in stay}
    found = {}
    for key, buffer in at.items():
        with suppress(DeviceError):  # another thread freed it meanwhile
            found[buffer.addr] = Resident(buffer.addr, buffer.extent, tuple(shown[key]), key in pinned)
    constants = set()
    for buffer in handle.constants.alive():
        if buffer.memory == l1:
            with suppress(DeviceError):  # freed
                constants.add(buffer.addr)
    for block in blocks(handle, l1):
        if block.kind in ("reserved", "held"):
            loose = block.kind == "held" and block.addr not in constants
            found.setdefault(block.addr, Resident(block.addr, block.extent, (), True, loose))
    return list(found.values())


def _move(handle: DeviceHandle, block: Resident) -> None:
    """Move all handles of a block to DRAM together, including handles that other threads have made meanwhile.
    Does nothing if they have left the block already. Raises DeviceMemoryError."""
    now = _seen(block)
    if now is None:
        return
    away = allocate(now.type, now.device, Layout("dram", now.layout.layout, now.layout.format)).snapshot()
    with moves:  # no thread writes the block from here on
        leaving = [tensor for tensor in handle.tensors.alive() if tensor.buffer is now.buffer]
        if not leaving:
            return
        assert now.buffer is not None  # the memory of the tensor is a block
        assert away.buffer is not None  # allocate gave it a buffer
        copy(now.buffer, now.layout, away.buffer, away.layout, now.type)
        for tensor in leaving:
            tensor.settle(away, of=now.buffer)
    record("eviction", handle.device, now.nbytes)


def _seen(block: Resident) -> Tensor | None:
    """A snapshot of one of a block's handles, None if no handle shows the block any more."""
    for handle in block.handles:
        with suppress(HandleError, DeviceError):  # other threads may deallocate some
            now = handle.snapshot()
            if now.layout.memory == L1 and now.buffer is not None and now.buffer.addr == block.addr:
                return now
    return None
