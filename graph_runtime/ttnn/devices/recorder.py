"""What a trace does again: steps over slots. A tensor that was made while the trace was captured has a slot;
a replay makes it anew and writes it into the captured one where the program still holds that. So a trace
that deallocates what it needs no more holds no more memory when it is replayed than when it was captured.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...run.tensors.tensor import Tensor
from ...run.tensors.transfers import copy_into

Make = Callable[..., Sequence[Tensor]]


class _Step(NamedTuple):
    """``inputs``: slots, or tensors that were there before; ``made``: references to what it made, from slot
    ``first`` on."""

    make: Make
    inputs: tuple[Any, ...]
    made: tuple[weakref.ref[Tensor], ...]
    first: int


class Recorder:
    """The steps of one trace."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._slots: dict[int, tuple[weakref.ref[Tensor], int]] = {}  # by id, which may be another's later
        self._count = 0
        self._last: dict[int, list[int]] = {}  # step -> slots that no later one reads

    def record(self, make: Make, inputs: Sequence[Tensor], made: Sequence[Tensor] = ()) -> None:
        """``make(*inputs)`` made ``made``; a replay calls it on what these inputs are then."""
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
        """No step comes any more."""
        last = {}
        for at, step in enumerate(self._steps):
            last.update(dict.fromkeys(range(step.first, step.first + len(step.made)), at))
            last.update({slot: at for slot in step.inputs if isinstance(slot, int)})
        for slot, at in last.items():
            self._last.setdefault(at, []).append(slot)

    def replay(self) -> None:
        """Do the steps again."""
        held: dict[int, Tensor] = {}
        for at, step in enumerate(self._steps):
            found = step.make(*(held[x] if isinstance(x, int) else x for x in step.inputs))
            for number, (reference, fresh) in enumerate(zip(step.made, found, strict=True), step.first):
                held[number] = _kept(reference(), fresh)
            for slot in self._last.get(at, ()):
                del held[slot]


def _kept(captured: Tensor | None, fresh: Tensor) -> Tensor:
    """The captured tensor with the new values, where the program holds it, else the new one."""
    if captured is None or not captured.is_allocated:
        return fresh
    if captured._owner is not fresh._owner:
        copy_into(captured, fresh)
    return captured
