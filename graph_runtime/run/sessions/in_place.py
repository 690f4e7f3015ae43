"""State: inputs that outputs are written into, and what a failed run left of them.

A failed inline run left an input unchanged if no instruction that writes the input's memory began, or if the
failed instruction refused before its first write (GR_ERR_REFUSED). Otherwise the contents are undefined: runs
refuse the input until it is set, like an input that was never set (running.py). For queued runs C tells what
is left (gr_run_left). State given to the run goes back to its giver, or is lost (run/tensors/donated.py); the
session's own state is as before, or must be set again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import ref

import numpy as np

from ...binding import core
from ...binding.programs.program import Program
from ...binding.programs.slots import Slots
from ..queues.buffer import Buffer
from ..queues.template import Template
from ..tensors.donated import UNCHANGED, UNDEFINED, WRITTEN, Overwrite, announced, spoiled
from .bind import Bound, Lease


def state_of(program: Program) -> list[int]:
    """The graph inputs into which outputs are written."""
    return sorted({into for _, into in program.plan.aliases})


def overwritten(program: Program, at: int, status: int) -> list[int]:
    """The state inputs that a run wrote before or while instruction ``at`` failed with ``status``."""
    if not 0 <= at < program.main:  # no node ran, only a copy of an input at most
        return []
    plan = program.plan
    graph = plan.graph
    began = program.nid[: at if status == core.lib.GR_ERR_REFUSED else at + 1]
    written = np.isin(graph.entry_nid, began)
    return [i for i in state_of(program) if (written & (plan.sid == plan.sid[graph.input_eids[i]])).any()]


def described(
    names: Sequence[str], state: Sequence[int], undefined: Collection[int], lost: Sequence[int] = ()
) -> str:
    """Text on the state after a failure, for an error. ``names``: names of the graph's inputs; ``lost``:
    numbers of donated inputs that were written in part."""
    kept = [repr(names[i]) for i in state if i not in undefined]
    gone = [repr(names[i]) for i in undefined]
    said = f"; input {', '.join(kept)} is unchanged" if kept else ""
    said += (
        f"; the contents of input {', '.join(gone)} are undefined: set it before the next run" if gone else ""
    )
    given = ", ".join(repr(names[i]) for i in lost)
    return said + (f"; the contents of input {given} are lost" if lost else "")


class Stateful(Protocol):
    """The part of a session that records which inputs have values. ``lost``: inputs that a failed run had
    begun to overwrite."""

    lost: set[int]

    def missing(self) -> set[int]: ...
    def lose(self, indices: Collection[int]) -> None: ...


class InPlace:
    """The inputs that queued runs of a session write in place. ``own`` {slot: the session's memory};
    ``defaults``: ``gr_buffer *[]`` [slots] with the pointers of ``own``; ``given`` {graph input: Buffer of
    the array to which it is bound}."""

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
        self._before: dict[int, Buffer] = {}  # Buffers that were replaced but may be in a submission

    def announced(self, template: Template, slots: Any, held: Mapping[int, Buffer]) -> dict[int, Overwrite]:
        """{graph input: how the next queued run writes it}. ``slots``: the run's ``gr_buffer *[]``; ``held``:
        Buffers of the run's inputs by slot. Empty if a block has another Buffer by now, which a second call
        finds. The caller holds ``donations`` until the run is submitted."""
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
        """A function that tells, after a run with these overwrites has failed, how the run left its
        inputs."""
        own = {i: overwrite for i, overwrite in overwrites.items() if self._into[i] not in held}
        given = {i: overwrite for i, overwrite in overwrites.items() if i not in own}
        return partial(_left, self._names, own, given)

    def settle(self) -> None:
        """Look at what failed runs left of the session's state: it is unchanged if they wrote nothing, and
        lost otherwise. Does not wait for queued runs."""
        for index, at in self._into.items():
            buffer = self._given.get(index) or self._own.get(at)
            if buffer is not None and buffer.overwrites and spoiled(buffer):
                self._state.lose([index])

    def renewed(self, index: int, buffer: Buffer) -> None:
        """Use another Buffer of an input's memory. This happens at most once while a submission is made: a
        run in place must fail first, and one such run is submitted at a time."""
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
    """Text on the state of inputs, {number: overwrite}: the session's ``own``, and those ``given`` to the
    run. Inputs that the run did not reach because earlier work failed are not mentioned."""
    left = {i: overwrite.left for i, overwrite in (*own.items(), *given.items())}
    undefined = [i for i in own if left[i] in (WRITTEN, UNDEFINED)]
    lost = [i for i in given if left[i] == UNDEFINED]
    kept = [i for i, it in left.items() if it == UNCHANGED]
    return described(names, sorted([*kept, *undefined]), undefined, lost)
