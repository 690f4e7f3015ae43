"""Steps of a trace, which a replay repeats. A step names a tensor that was made during the capture by a
number, the tensor's slot. A replay makes the tensor anew, and copies the new values into the captured tensor
if the script still holds the captured tensor. Tensors are freed after their last use, so a replay holds no
more memory than the capture did.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...run.tensors.tensor import Tensor
from ...run.tensors.transfers import copy_into

Make = Callable[..., Sequence[Tensor]]


class _Step(NamedTuple):
    """One recorded call. ``inputs``: operands of the call, each the number of a slot, or a tensor that
    existed before the capture; ``made``: weak references to the results; ``first``: slot of the first result,
    after which the slots of the other results follow."""

    make: Make
    inputs: tuple[Any, ...]
    made: tuple[weakref.ref[Tensor], ...]
    first: int


class Recorder:
    def __init__(self) -> None:
        self._steps: list[_Step] = []
        # id(tensor) -> (weak reference to the tensor, slot); a later tensor may have the same id
        self._slots: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._count = 0
        self._last: dict[int, list[int]] = {}  # step -> slots that no later step reads

    def record(self, make: Make, inputs: Sequence[Tensor], made: Sequence[Tensor] = ()) -> None:
        """Record that the call ``make(*inputs)`` returned ``made``; a replay calls ``make`` again, with the
        values that the inputs have at the time of the replay."""
        slots = tuple(self._slot(tensor) for tensor in inputs)
        references = tuple(weakref.ref(tensor) for tensor in made)
        self._steps.append(_Step(make, slots, references, self._count))
        for at, (tensor, reference) in enumerate(zip(made, references, strict=True)):
            self._slots[id(tensor)] = reference, self._count + at
        self._count += len(references)

    def _slot(self, tensor: Tensor) -> Any:
        reference, number = self._slots.get(id(tensor), (None, 0))
        return number if reference is not None and reference() is tensor else tensor

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
            found = step.make(*(held[x] if isinstance(x, int) else x for x in step.inputs))
            for number, (reference, fresh) in enumerate(zip(step.made, found, strict=True), step.first):
                held[number] = _kept(reference(), fresh)
            for slot in self._last.get(at, ()):
                del held[slot]


def _kept(captured: Tensor | None, fresh: Tensor) -> Tensor:
    """The captured tensor with the new values if the script still holds the captured tensor, else the new
    tensor."""
    if captured is None or not captured.is_allocated:
        return fresh
    if captured._owner is not fresh._owner:
        copy_into(captured, fresh)
    return captured
