"""Queued runs over inputs that outputs are written into: state, the session's own or what a run is given.

What a run that failed left of it C says (gr_run_left). What a run was given goes back to its giver, or is
lost (run/tensors/donated.py); the session's own is as before, or asked for anew (state.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import ref

from ...binding.programs.slots import Slots
from ..queues.buffer import Buffer
from ..queues.template import Template
from ..tensors.donated import UNCHANGED, UNDEFINED, WRITTEN, Overwrite, announced, spoiled
from .bind import Bound, Lease
from .state import described

__all__ = ["InPlace", "Stateful"]


class Stateful(Protocol):
    """It knows which inputs of a session have values: the session. ``lost``: those that a failed run had
    begun to overwrite."""

    lost: set[int]

    def missing(self) -> set[int]:
        """The inputs without values that the next run would read."""

    def lose(self, indices: Collection[int]) -> None:
        """A run failed that had begun to write these."""


class InPlace:
    """``own`` {slot: the session's memory}, ``defaults`` ``gr_buffer *[]`` [slots] their pointers; ``given``
    {graph input: the array that it is bound to}."""

    def __init__(
        self,
        bound: Bound,
        slots: Slots,
        own: dict[int, Buffer],
        given: dict[int, Buffer],
        defaults: Any,
        state: Stateful,
    ):
        graph = bound.program.plan.graph
        self._names, self._bound, self._state = graph.input_names, bound, state
        self._own, self._given, self._defaults = own, given, defaults
        self._into = {i: int(slots.slot[graph.input_eids[i]]) for i in sorted(set(slots.into.values()))}
        self._before: dict[int, Buffer] = {}  # Buffers that were renewed: a submission may hold one yet

    def announced(self, template: Template, slots: Any, held: Mapping[int, Buffer]) -> dict[int, Overwrite]:
        """{graph input: how the run that is queued next writes it}; ``slots``: its ``gr_buffer *[]``,
        ``held``: the Buffers of what it is given, by slot. Empty where a block has another Buffer than there
        by now; the second look finds that one. Under ``donations``, as its submission."""
        found: dict[int, Overwrite] = {}
        for index, at in self._into.items():
            buffer = held.get(at) or self._own[at]
            made = announced(buffer, template, at)
            if made is not None:
                found[index] = made
            if made is None or slots[at] != buffer.pointer:
                for overwrite in found.values():
                    overwrite.told()
                return {}
            if buffer is self._own.get(at) or buffer is self._given.get(index):
                made.keeper = partial(_renewed, ref(self), index)
        return found

    def left(self, overwrites: Mapping[int, Overwrite], held: Mapping[int, Buffer]) -> Callable[[], str]:
        """What says, once such a run has failed, how it left its inputs."""
        own = {i: overwrite for i, overwrite in overwrites.items() if self._into[i] not in held}
        given = {i: overwrite for i, overwrite in overwrites.items() if i not in own}
        return partial(_left, self._names, own, given)

    def settle(self) -> None:
        """See what failed runs left of the state that the session keeps: where they wrote nothing it is as
        before, else the session has lost it. What is queued yet is left alone."""
        for index, at in self._into.items():
            buffer = self._given.get(index) or self._own.get(at)
            if buffer is not None and buffer.overwrites and spoiled(buffer):
                self._state.lose([index])

    def renewed(self, index: int, buffer: Buffer) -> None:
        """The memory of an input has another Buffer. Only one more while a submission is made: a run in place
        must fail before, and of those one is submitted at a time."""
        if index in self._given:
            self._before[index], self._given[index] = self._given[index], buffer
            return
        at = self._into[index]
        self._before[index], self._own[at], self._defaults[at] = self._own[at], buffer, buffer.pointer
        owner = self._bound.owner(int(self._bound.program.plan.graph.input_eids[index]))
        if isinstance(owner, Lease):
            owner.renewed(buffer)


def _renewed(whose: ref[InPlace], index: int, buffer: Buffer) -> None:
    found = whose()
    if found is not None:
        found.renewed(index, buffer)


def _left(names: Sequence[str], own: Mapping[int, Overwrite], given: Mapping[int, Overwrite]) -> str:
    """Of inputs by number: the session's ``own``, and those that the run was ``given``. Nothing is said of
    one that the run did not come to because earlier work failed."""
    left = {i: overwrite.left for i, overwrite in (*own.items(), *given.items())}
    undefined = [i for i in own if left[i] in (WRITTEN, UNDEFINED)]
    lost = [i for i in given if left[i] == UNDEFINED]
    kept = [i for i, it in left.items() if it == UNCHANGED]
    return described(names, sorted([*kept, *undefined]), undefined, lost)
