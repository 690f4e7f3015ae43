"""Contents of L1 under ttnn's programs: tensors, an operation's own tensors, and circular buffers.

The tensors are those that scripts hold on the simulated board. Circular buffers and an operation's own
tensors are those of ttnn's program factories (costs/factories); they are not the buffers of our own kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...base.machine.layout import L1, footprint
from ...costs.factories import CardStage, CircularBuffer, peak
from ..devices.mesh_device import MeshDevice
from ..errors import fatal
from ..registry import TRANSFERS
from .call import Call, call_of, flat, tensors_in_l1
from .card_programs import stages_of

_MOST_NAMED = 5


@dataclass(frozen=True)
class Use:
    """Contents of a core's L1 in bytes while an operation runs the card program that needs most. ``tensors``:
    operands, the result and all other tensors that scripts hold; ``temporaries``: tensors that the operation
    holds for itself; ``circular``: circular buffers (``buffers``) of the card program. ``known``: whether a
    factory here covers the operation."""

    op: str
    tensors: int
    temporaries: int
    circular: int
    stages: tuple[CardStage, ...]
    worst: CardStage | None
    known: bool
    device: MeshDevice

    @property
    def peak(self) -> int:
        return self.tensors + self.temporaries + self.circular

    @property
    def buffers(self) -> tuple[CircularBuffer, ...]:
        return () if self.worst is None else self.worst.program.buffers


def _use(call: Call) -> Use:
    """Contents of a core's L1 during a call that has returned."""
    stages = stages_of(call)
    held = {id(tensor._handle): size for tensor, size in tensors_in_l1(call.device)}
    given = {id(x) for y in call.inputs for x in (y, y._handle)}
    fresh = (x for x in call.results if not {id(x), id(x._handle)} & given)
    results = sum(held.get(id(x._handle), 0) for x in fresh)
    memory = call.device.chip.descriptor.memory(L1)
    first, tensors = 0, sum(held.values()) - results
    if call.inputs and call.inputs[0]._handle.layout.memory == L1:
        handle = call.inputs[0]._handle
        first = footprint(handle.layout, handle.shape, memory)[0]
        if not handle.is_allocated:  # the tensor was in L1 until the call freed it
            tensors += first
    if stages is not None and not any(stage.last for stage in stages):
        results = 0  # they are views
    total, worst = peak(stages or (), tensors, first, results)
    circular = 0 if worst is None else worst.program.nbytes
    temporaries = 0 if worst is None else worst.nbytes - circular
    rest = total - circular - temporaries
    return Use(
        call.name, rest, temporaries, circular, tuple(stages or ()), worst, stages is not None, call.device
    )


def use_of_l1(operation: Any, args: Any, kwargs: Any, made: Any, always: bool) -> Use | None:
    """Contents of a core's L1 during a finished call; None if no device ran the call. Unless ``always``, the
    result is also None if all tensors lie in DRAM and the call has no program configuration, for ttnn then
    chooses blocks that fit. Raises RuntimeError if a card would have no room for the call."""
    if operation.name in TRANSFERS:
        return None
    tensors = flat((args, list(kwargs.values()), made))
    device = next((x._device for x in tensors if x._device is not None), None)
    if device is None:
        return None
    in_l1 = any(x._handle.layout.memory == L1 for x in tensors)
    if not always and not in_l1 and kwargs.get("program_config") is None:
        return None
    use = _use(call_of(operation, args, kwargs, made, device))
    memory = device.chip.descriptor.memory(L1)
    if use.circular and use.peak > memory.usable:
        text = _no_room(use, device, memory.base, memory.bank_bytes)
        raise fatal(operation.python_fully_qualified_name, text)
    return use


def what_is_kept(text: str, given: list[Any]) -> str:
    """The words to add to the text of an error about full memory: the sizes that open_device was asked to
    reserve; "" if there are none."""
    found = [*given, *(x._device for x in flat(given))]
    device = next((x for x in found if isinstance(x, MeshDevice)), None)
    sizes = ("l1_small_size", "worker_l1_size") if "L1 buffer" in text else ("trace_region_size",)
    kept = [f"{name}={getattr(device, name)}" for name in sizes if getattr(device, name, 0)]
    return f". open_device was asked for {', '.join(kept)}" if kept else ""


def _no_room(use: Use, device: MeshDevice, base: int, size: int) -> str:
    """The text of ttnn's error, then the buffers, and the sizes that would fit."""
    assert use.worst is not None
    grid, end = device.core_grid, base + use.circular
    where = f"[(x=0,y=0) - (x={grid.x - 1},y={grid.y - 1})]"
    if end > size:
        text = (
            f"Statically allocated circular buffers on core range {where} grow to {end} B "
            f"which is beyond max L1 size of {size} B"
        )
    else:
        text = (
            f"Statically allocated circular buffers in program {use.worst.program.name} clash with L1 "
            f"buffers on core range {where}. L1 buffer allocated at {size - use.tensors - use.temporaries} "
            f"and static circular buffer region ends at {end}"
        )
    opened = sorted(use.buffers, key=lambda buffer: -buffer.nbytes)[:_MOST_NAMED]
    named = ", ".join(f"{b.name} {b.nbytes} B" for b in opened if b.nbytes)
    text += f". Circular buffers: {named}"
    tensors = sorted(tensors_in_l1(device), key=lambda pair: -pair[1])[:_MOST_NAMED]
    own = [f"{held.name} {held.nbytes} B" for held in use.worst.held]
    others = [f"tensor {tuple(x.shape)} {x.dtype.name} {nbytes} B" for x, nbytes in tensors]
    if own or others:
        text += f". L1 tensors: {', '.join([*own, *others])}"
    room = size - base - use.tensors - use.temporaries
    beside = max(size - base - use.circular, 0)
    text += f". {max(room, 0)} B of circular buffers, or {beside} B of tensors beside these, would fit"
    small = device.l1_small_size
    return text + (f"; l1_small_size={small} of open_device is not among them" if small else "")
