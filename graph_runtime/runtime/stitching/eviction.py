"""What leaves L1 so that a program can be queued: the tensors that are where its circular buffers, and the
tensors that it makes, will be. They move to DRAM; their handles stay valid.

Circular buffers begin at the base of L1, tensors are put as far up as they fit. So what is below the top of
the program's circular buffers goes; and above it the fewest bytes that leave its tensors room in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...base.errors import DeviceError, HandleError
from ...base.machine.layout import L1, Layout
from ...run.circular import l1_number, of_instructions
from ...run.programs.slots import assign_slots
from ...run.queues.blocks import blocks
from ...run.queues.template import copy
from ...run.tensors.arrays import allocate
from ...run.tensors.handle import moves
from ...run.tensors.tensor import Tensor
from ...run.tensors.traffic import record
from .executable import Executable
from .open_device import OpenDevice

__all__ = ["Resident", "cheapest", "evict_unused", "make_room"]


class Resident(NamedTuple):
    """Bytes of each bank of L1, and the handles that show them. ``pinned``: the program reads them there, or
    they are no tensor's."""

    addr: int
    extent: int
    handles: tuple[Tensor, ...] = ()
    pinned: bool = False

    @property
    def end(self) -> int:
        return self.addr + self.extent


def evict_unused(opened: OpenDevice, given: Sequence[Tensor]) -> None:
    """Move all tensors from L1 to DRAM that are no inputs."""
    for block in _blocks(opened, given, given):
        if not block.pinned:
            _move(opened, block)


def make_room(target: Executable, given: Sequence[Tensor], fitting: MutableMapping[int, Tensor]) -> bool:
    """Move what is in the way of a program that did not fit; whether anything moved. ``fitting`` {position:
    what the program reads}: an input that is in the way itself is taken out of it, to be converted anew.

    A copy that was converted for this program counts as nothing that moved: it may come back to where it was,
    and the caller would try for ever."""
    opened, spots = target.opened, target.session.plan.devices
    if opened.device not in spots or not any(m.name == L1 for m in opened.device.descriptor.memories):
        return False
    memory = opened.device.descriptor.memory(L1)
    end = memory.base + of_instructions(target.session.program).get(spots.index(opened.device), 0)
    for at in [at for at, tensor in fitting.items() if tensor is not given[at]]:
        if _is_below(fitting[at], opened, end):
            del fitting[at]
    below = [block for block in _blocks(opened, given, ()) if block.addr < end]
    if any(block.pinned for block in below):  # by what does not move
        return False
    for block in below:
        _move(opened, block)
    read = {}
    for at, tensor in enumerate(given):
        now = fitting.get(at, tensor)
        if now.layout == target.inputs[at].layout and not _is_below(now, opened, end):
            read[at] = now
        else:
            fitting.pop(at, None)
    taken = _taken(target, read)
    held = _blocks(opened, given, list(read.values()))
    top = memory.bank_bytes // memory.alignment * memory.alignment
    chosen = cheapest(held, end, top, taken)
    if not chosen and not below and taken:  # in pieces, or beside memory of others: the oldest
        idle = [block for block in held if not block.pinned]
        chosen = sorted(idle, key=lambda block: min(handle.id for handle in block.handles))[:1]
    for block in chosen:
        _move(opened, block)
    return bool(below or chosen)


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


def _blocks(opened: OpenDevice, given: Sequence[Tensor], read: Sequence[Tensor]) -> list[Resident]:
    """What is held of the L1 of the open device, but for what queued work alone needs. ``read``: tensors that
    stay."""
    l1 = l1_number(opened.device)
    known = {tensor.id: tensor for tensor in [*opened.tensors(L1), *given, *read]}
    shown: dict[int, list[Tensor]] = {}
    at = {}
    for tensor in known.values():
        buffer = tensor.buffer  # other threads may deallocate some, or move them
        if buffer is not None and buffer.handle is opened.handle and buffer.memory == l1:
            shown.setdefault(id(buffer), []).append(tensor)
            at[id(buffer)] = buffer
    pinned = {id(tensor.buffer) for tensor in read}
    found = {}
    for key, buffer in at.items():
        with suppress(DeviceError):  # another thread freed it meanwhile
            found[buffer.addr] = Resident(buffer.addr, buffer.extent, tuple(shown[key]), key in pinned)
    for block in blocks(opened.handle, l1):
        if block.kind in ("reserved", "held"):
            found.setdefault(block.addr, Resident(block.addr, block.extent, (), True))
    return list(found.values())


def _is_below(tensor: Tensor, opened: OpenDevice, end: int) -> bool:
    here, buffer = tensor.device == opened.device and tensor.layout.memory == L1, tensor.buffer
    return here and buffer is not None and buffer.addr < end


def _taken(target: Executable, read: Mapping[int, Tensor]) -> int:
    """Bytes of each bank of the device's L1 that a run takes: for its own tensors, and for the inputs that
    are not read where they are."""
    session, device = target.session, target.opened.device
    plan, slots, taken = session.plan, assign_slots(session.plan), 0
    did = plan.devices.index(device)
    memories = device.descriptor.memories
    converted = {
        int(slots.slot[session.graph.input_eids[spec.index]])
        for at, spec in enumerate(target.inputs)
        if at not in read
    }
    for slot, extent in enumerate(slots.extent.tolist()):
        memory = memories[int(slots.memory[slot])] if slots.did[slot] == did else None
        if memory is not None and memory.name == L1 and (not slots.kept[slot] or slot in converted):
            taken += -(-extent // memory.alignment) * memory.alignment
    return taken


def _move(opened: OpenDevice, block: Resident) -> None:
    """Move the handles of a block to DRAM together, those that other threads made meanwhile, too; where they
    have left it already, nothing. Raises DeviceMemoryError."""
    now = _seen(block)
    if now is None:
        return
    away = allocate(now.type, now.device, Layout("dram", now.layout.layout, now.layout.format)).snapshot()
    with moves:  # no thread writes the block from here on
        leaving = [tensor for tensor in opened.handle.tensors.alive() if tensor.buffer is now.buffer]
        if not leaving:
            return
        assert now.buffer is not None  # of a block
        assert away.buffer is not None  # allocate gave it one
        copy(now.buffer, now.layout, away.buffer, away.layout, now.type)
        for tensor in leaving:
            tensor.settle(away, of=now.buffer)
    record("eviction", opened.device, now.nbytes)


def _seen(block: Resident) -> Tensor | None:
    """One of a block's handles as it is now, None where no handle shows the block any more."""
    for handle in block.handles:
        with suppress(HandleError, DeviceError):  # other threads may deallocate some
            now = handle.snapshot()
            if now.layout.memory == L1 and now.buffer is not None and now.buffer.addr == block.addr:
                return now
    return None
