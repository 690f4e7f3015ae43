"""Steps of a trace, which a replay repeats. A step names a tensor that was made during the capture by a
number, the tensor's slot. A replay makes the tensor anew, and copies the new values into the captured tensor
if the script still holds the captured tensor. Tensors are freed after their last use, so a replay holds no
more memory than the capture did.

A tensor that the script had before the capture is an address, as on a card: the script may free it, and a
replay reads the tensor that lies there by then.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ...base.errors import HandleError
from ...run.tensors.tensor import Tensor
from ...run.tensors.transfers import copy_into

Make = Callable[..., Sequence[Tensor]]
BANK_ADDRESS = (1 << 48) - 1  # bits of a tensor's address; those above say how the tensor is sharded


class _Step(NamedTuple):
    """One recorded call. ``inputs``: operands of the call, each the number of a slot, a place, or a tensor
    that only the trace holds; ``made``: weak references to the results; ``first``: slot of the first result,
    after which the slots of the other results follow."""

    make: Make
    inputs: tuple[Any, ...]
    made: tuple[weakref.ref[Tensor], ...]
    first: int


class _Place:
    """Where a tensor of the script lay at the capture."""

    def __init__(self, tensor: Tensor):
        self._tensor, self._device, self._handle = weakref.ref(tensor), tensor.device, tensor._handle
        self._type, self._layout, self._addr = tensor.type, tensor.layout, tensor._addr
        self._extent = tensor.spec.extent

    def tensor(self) -> Tensor:
        """The tensor, or the values that lie in its place now. Raises HandleError if no tensor begins there
        that is as large."""
        tensor = self._tensor()
        if tensor is not None and tensor.is_allocated and tensor._addr == self._addr:
            return tensor
        for reference in self._handle.tensors:
            found = reference()
            if found is not None and found.is_allocated and self._is_place_of(found):
                return Tensor(self._device, self._handle, self._type, self._layout, self._addr, found._owner)
        raise HandleError(f"nothing lies at address {self._addr & BANK_ADDRESS:#x}, where {self._type} was")

    def _is_place_of(self, other: Tensor) -> bool:
        place = other._addr & BANK_ADDRESS, other.layout.memory
        buffer = other.buffer
        return (
            place == (self._addr & BANK_ADDRESS, self._layout.memory)
            and buffer is not None
            and buffer.extent >= self._extent
        )


class Recorder:
    """``script``: tensors that the script holds when the capture begins; ``launched``: number of steps that
    wrote memory, the others made views."""

    def __init__(self, script: Iterable[Tensor] = ()) -> None:
        self._script = {id(tensor): weakref.ref(tensor) for tensor in script}
        self.launched = 0
        self._steps: list[_Step] = []
        # id(tensor) -> (weak reference to the tensor, slot); a later tensor may have the same id
        self._slots: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._count = 0
        self._last: dict[int, list[int]] = {}  # step -> slots that no later step reads

    def record(self, make: Make, inputs: Sequence[Tensor], made: Sequence[Tensor] = ()) -> None:
        """Record that the call ``make(*inputs)`` returned ``made``; a replay calls ``make`` again, with the
        values that the inputs have at the time of the replay."""
        owners = [tensor._owner for tensor in inputs]
        self.launched += not made or any(tensor._owner not in owners for tensor in made)
        slots = tuple(self._slot(tensor) for tensor in inputs)
        references = tuple(weakref.ref(tensor) for tensor in made)
        self._steps.append(_Step(make, slots, references, self._count))
        for at, (tensor, reference) in enumerate(zip(made, references, strict=True)):
            self._slots[id(tensor)] = reference, self._count + at
        self._count += len(references)

    def _slot(self, tensor: Tensor) -> Any:
        reference, number = self._slots.get(id(tensor), (None, 0))
        if reference is not None and reference() is tensor:
            return number
        held = self._script.get(id(tensor))
        return _Place(tensor) if held is not None and held() is tensor else tensor

    def finish(self) -> None:
        """End the recording: for each slot, note the step after which no step needs the slot."""
        last = {}
        for at, step in enumerate(self._steps):
            last.update(dict.fromkeys(range(step.first, step.first + len(step.made)), at))
            last.update({slot: at for slot in step.inputs if isinstance(slot, int)})
        for slot, at in last.items():
            self._last.setdefault(at, []).append(slot)

    def replay(self) -> None:
        held: dict[int, Tensor] = {}
        for at, step in enumerate(self._steps):
            found = step.make(*(_given(x, held) for x in step.inputs))
            for number, (reference, fresh) in enumerate(zip(step.made, found, strict=True), step.first):
                held[number] = _kept(reference(), fresh)
            for slot in self._last.get(at, ()):
                del held[slot]


def _given(operand: Any, held: dict[int, Tensor]) -> Tensor:
    if isinstance(operand, _Place):
        return operand.tensor()
    return held[operand] if isinstance(operand, int) else operand


def _kept(captured: Tensor | None, fresh: Tensor) -> Tensor:
    """The captured tensor with the new values if the script still holds the captured tensor, else the new
    tensor."""
    if captured is None or not captured.is_allocated:
        return fresh
    if captured._owner is not fresh._owner:
        copy_into(captured, fresh)
    return captured
