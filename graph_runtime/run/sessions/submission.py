"""Submissions of a session: the inputs and outputs of each run.

Each set of inputs whose copies to other devices are part of a run has a template, made at the first such
submit. Runs only read the session's own memory, and write memory of their own, so that any number of runs may
be in flight."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import InputError
from ...base.locks import new_lock
from ...base.machine.layout import HOST, host_layout
from ...binding.core import ffi, lib
from ...binding.programs.slots import assign_slots, extent_of, memory_of, slots_of_copies
from ..device_handles import DeviceHandle
from ..queues import template
from ..queues.blocks import let_go
from ..queues.buffer import Buffer
from ..queues.run import Run, failure_of
from ..queues.template import Template
from ..tensors.donated import Donated, Overwrite, donations
from ..tensors.handle import moves
from ..tensors.tensor import Tensor
from .assembly import assemble
from .bind import Bound, borrowed
from .in_flight import InFlight
from .in_place import InPlace, Stateful
from .running import refuse
from .staging import check_kinds, find_input, stage, to_write, written
from .zero_copy import ALIGNMENT, ZeroCopy

_NO_LOCK = nullcontext()


class _Given(NamedTuple):
    """Inputs of a run. The fields are, in order: ``gr_buffer *[]`` [slots]; {graph input: value}; {slot: the
    slot's Buffer}; pointers that are held until the run is queued; {graph input: Overwrite, if the run writes
    the input in place}."""

    slots: Any
    given: dict[int, Any]
    held: dict[int, Buffer]
    kept: list[Any]
    overwrites: dict[int, Overwrite]


class Submitter:
    """Puts a session's runs into the queues; ``zero_copy``: arrays bound to inputs. A Submitter is made at
    the session's first submit, and again after its memory has moved. Any thread may use it."""

    in_flight: InFlight
    in_place: InPlace | None

    def __init__(self, bound: Bound, zero_copy: ZeroCopy, state: Stateful):
        if zero_copy.outputs:
            raise InputError(
                f"outputs {sorted(zero_copy.outputs)} of {bound.holder} are bound to arrays, "
                "which only run() writes: give submit out=, or call reset_zero_copy"
            )
        self._bound, self._plan, self._graph = bound, bound.program.plan, bound.program.plan.graph
        self._slots = slots = assign_slots(self._plan)
        self._templates: dict[frozenset[int], Template] = {}
        self.in_flight = InFlight(bound.holder)
        self._lock = new_lock()
        self._own_outputs: dict[int, Buffer] | None = None  # outputs of runs in place
        self._times: np.ndarray | None = None  # times of the last timed run that ran in place
        self._input_slot = [int(slots.slot[eid]) for eid in self._graph.input_eids.tolist()]
        self._copied = slots_of_copies(bound.program, slots)
        self._own = {
            at: borrowed(bound, slots, at)
            for at in np.flatnonzero(slots.kept).tolist()
            if bound.reserved or int(slots.eid[at]) in bound.owners
        }
        # a weak reference, because the session holds this object: in a cycle, a dropped session's memory
        # would wait for gc
        self._state = state = weakref.proxy(state)
        self._lacking = {i for i, at in enumerate(self._input_slot) if at not in self._own}
        self._given = {
            i: borrowed(bound, slots, self._input_slot[i], array) for i, array in zero_copy.inputs.items()
        }
        self._defaults = ffi.new(
            "gr_buffer *[]",
            [self._own[at].pointer if at in self._own else ffi.NULL for at in range(slots.count)],
        )
        self.in_place = (
            InPlace(bound, slots, self._own, self._given, self._defaults, state) if slots.into else None
        )
        weakref.finalize(self, _let_go, bound.handles).atexit = False

    def drain(self) -> None:
        """Wait for queued runs, and look at how they left the session's state."""
        self.in_flight.drain()
        if self.in_place:
            self.in_place.settle()

    # **************** submitting ****************

    def submit(
        self,
        inputs: Mapping[int | str, Any],
        out: Mapping[int, Tensor] | Sequence[Tensor | None] | None,
        donate: Collection[int | str],
        max_in_flight: int,
        donors: Mapping[int, tuple[Tensor, str]] = MappingProxyType({}),
    ) -> Run:
        """Queue a run as Session.submit does. ``donors`` {donated input: (the donated handle, text on where
        it went)}, for inputs whose donated handle is not the tensor given as input."""
        check_kinds(inputs, out, donate)
        outs = to_write(out)
        asked = {self._index(i): value for i, value in inputs.items()}
        if len(asked) < len(inputs):
            text = f"an input is given twice, by name and by number: got {list(inputs)}"
            raise InputError(text, got=list(inputs))
        if self.in_place:
            self.in_place.settle()
        given = {**self._given, **asked}
        if (lacking := self._lacking | self._state.missing()) and (lacking := lacking - given.keys()):
            refuse(self._graph, lacking, self._bound.holder, self._plan.aliases, self._state.lost)
        donated = {self._index(i) for i in donate} | {i for i in self._slots.into.values() if i in asked}
        made = self._template(frozenset(given.keys() & self._copied.keys()))
        self.in_flight.wait_for_turn(max_in_flight)
        # one thread at a time donates a tensor or writes state; tensors that the run writes do not move
        # meanwhile
        with donations if donated or self.in_place else _NO_LOCK, moves if outs or donated else _NO_LOCK:
            slots, given, held, kept, overwrites = self._gather(made, asked)
            try:
                self._place_outputs(slots, outs, held, kept)
                run = self._queue(made, slots, held, overwrites)
                run.outputs = self._hand_out(slots, outs, held)
                for output, index in self._slots.into.items():
                    overwrites[index].outputs.append(weakref.ref(run.outputs[output]))
                self.in_flight.add(run.pointer)
                for index in donated:
                    why = f"was donated as input {self._name(index)} of {self._bound.holder}"
                    value, why = donors.get(index, (given.get(index), why))
                    if isinstance(value, Tensor):
                        value.give_up(Donated(why, failure_of(run.pointer), overwrites.get(index)))
            finally:
                for overwrite in overwrites.values():
                    overwrite.told()
        return run

    def _gather(self, made: Template, asked: Mapping[int, Any]) -> _Given:
        """The inputs of a run of ``made``. If a failed run has given a block back meanwhile, they are
        gathered a second time."""
        for again in (True, False):
            slots, given = ffi.new("gr_buffer *[]", self._slots.count), {**self._given, **asked}
            ffi.memmove(slots, self._defaults, ffi.sizeof(self._defaults))
            kept: list[Any] = []
            held = self._place_inputs(slots, given, kept)
            overwrites = self.in_place.announced(made, slots, held) if self.in_place else {}
            if overwrites or not self.in_place:
                break
            for buffer in held.values():  # a given input may be an output whose values never came
                if buffer.replaced and not again:
                    buffer.wait()
        return _Given(slots, given, held, kept, overwrites)

    def _queue(
        self, made: Template, slots: Any, held: Mapping[int, Buffer], overwrites: Mapping[int, Overwrite]
    ) -> Run:
        raw = made.submit(slots)
        if not overwrites or self.in_place is None:
            return Run(raw, (), self._bound.holder)
        for overwrite in overwrites.values():
            overwrite.queued(raw)
        return Run(raw, (), self._bound.holder, self.in_place.left(overwrites, held))

    def run_in_place(self, times: np.ndarray | None = None) -> None:
        """Run once over the session's own memory, in the queues. ``times``: as in Template.clock. Raises the
        errors of Run.wait."""
        if self._own_outputs is None:
            plain = {
                at
                for o, at in enumerate(self._slots.outputs)
                if o not in self._slots.into and o not in self._slots.copied
            }
            self._own_outputs = {at: borrowed(self._bound, self._slots, at) for at in plain}
        made = self._template(frozenset(i for i in self._given if i in self._copied))
        self._times = times
        made.clock(times)
        with donations if self.in_place else _NO_LOCK:
            slots, _, held, _kept, overwrites = self._gather(made, {})
            try:
                for at, buffer in self._own_outputs.items():
                    slots[at] = buffer.pointer
                run = self._queue(made, slots, held, overwrites)
            finally:
                for overwrite in overwrites.values():
                    overwrite.told()
        for output in self._slots.copied:  # their slots are not used, as the session shows kept values itself
            lib.gr_buffer_release(slots[self._slots.outputs[output]])
        try:
            run.wait()
        finally:
            made.clock(None)
            if not run.done():  # after Ctrl-C the run goes on, in the session's memory
                self.in_flight.add(run.pointer)
            held.clear()

    def _index(self, key: int | str) -> int:
        return find_input(key, self._graph, self._bound.holder)

    def _name(self, index: int) -> str:
        return repr(self._graph.names[self._graph.inputs[index]])

    def _template(self, copies: frozenset[int]) -> Template:
        with self._lock:
            found = self._templates.get(copies)
            if found is None:
                found = self._templates[copies] = assemble(self._bound, self._slots, copies)
            return found

    # **************** inputs ****************

    def _place_inputs(self, slots: Any, given: Mapping[int, Any], kept: list[Any]) -> dict[int, Buffer]:
        """{slot: Buffer} of the given inputs; ``slots`` gets NULL for copies of a given input, so that the
        run makes its own copies."""
        held: dict[int, Buffer] = {}
        for index, value in given.items():
            held[self._input_slot[index]] = self._input_buffer(index, value)
            for at in self._copied.get(index, ()):
                slots[at] = ffi.NULL
        for at, buffer in held.items():
            slots[at] = _keep(kept, buffer)
        written = {self._input_slot[i]: i for i in self._slots.into.values()}
        for at in written.keys() & held.keys():
            if any(other != at and buffer is held[at] for other, buffer in held.items()):
                raise InputError(
                    f"an output is written into input {self._name(written[at])}: its tensor "
                    "cannot be given for another input, too",
                    got=written[at],
                )
        return held

    def _input_buffer(self, index: int, value: Any) -> Buffer:
        eid = int(self._graph.input_eids[index])
        type_, layout = self._graph.entry_type(eid), self._plan.layout(eid)
        handle = self._bound.handles[int(self._plan.entry_did()[eid])]
        if isinstance(value, Buffer):  # the array to which the input is bound
            return value
        if isinstance(value, Tensor):
            if value.type != type_:
                text = f"input {self._name(index)} is {value.type}, the graph says {type_}"
                raise InputError(text, got=str(value.type), wanted=str(type_))
            value = value.snapshot()  # as it is now: other threads may evict it
            buffer = value.buffer
            if (
                buffer is not None
                and (value.device, value.layout) == (handle.device, layout)
                and self._may_be_read_there(index, value)
            ):
                return buffer
        memory, extent = memory_of(self._plan, eid), extent_of(self._plan, eid)
        what, holder = f"input {self._name(index)}", self._bound.holder
        if value.buffer is None if isinstance(value, Tensor) else layout.memory == HOST:
            return written(handle, memory, extent, type_, layout, value, what, holder)
        fresh = Buffer.alloc(handle, memory, extent, holder)
        if isinstance(value, Tensor):
            assert value.buffer is not None  # the type and layout were checked above
            template.copy(value.buffer, value.layout, fresh, layout, type_)
        else:
            template.copy(stage(value, type_, what), host_layout(type_.dtype), fresh, layout, type_)
        return fresh

    def _may_be_read_there(self, index: int, tensor: Tensor) -> bool:
        """Whether kernels may use a tensor of the right layout in place: host memory must be aligned, and a
        constant must not be an input that the run writes."""
        buffer = tensor.buffer
        unaligned = tensor.layout.memory == HOST and buffer is not None and buffer.addr % ALIGNMENT
        return not unaligned and not (tensor.readonly and index in self._slots.into.values())

    # **************** outputs ****************

    def _place_outputs(
        self, slots: Any, outs: Mapping[int, Tensor], held: dict[int, Buffer], kept: list[Any]
    ) -> None:
        used = {buffer.id: "an input" for buffer in held.values()}
        used |= {buffer.id: "the session's own memory" for buffer in self._own.values()} if outs else {}
        for index, tensor in outs.items():
            buffer = self._out_buffer(index, tensor)
            if buffer.id in used:
                raise InputError(f"out[{index}] is {used[buffer.id]} of this run, too", got=index)
            used[buffer.id] = f"out of another output than {index}"
            at = self._slots.outputs[index]
            if slots[at] != ffi.NULL:
                text = f"out[{index}]: another output is the same value and already has an out"
                raise InputError(text, got=index)
            slots[at] = _keep(kept, buffer)

    def _out_buffer(self, index: int, tensor: Any) -> Buffer:
        what = f"out[{index}]"
        heads = self._graph.outputs
        if not isinstance(index, int) or not 0 <= index < len(heads):
            text = f"there is no output {index!r}: {self._bound.holder} has {len(heads)}"
            raise InputError(text, got=index, wanted=len(heads))
        eid = int(heads[index])
        type_, layout = self._graph.entry_type(eid), self._plan.layout(eid)
        device = self._plan.devices[int(self._plan.entry_did()[eid])]
        if not isinstance(tensor, Tensor) or tensor.buffer is None:
            text = f"{what} must be a tensor with memory of its own, got {type(tensor).__name__}"
            raise InputError(text, got=type(tensor).__name__)
        tensor = tensor.snapshot()  # the tensor as it is now, as for inputs
        if index in self._slots.into:
            text = f"{what}: that output is written into input {self._slots.into[index]}"
            raise InputError(text, got=index)
        if (tensor.type, tensor.device, tensor.layout) != (type_, device, layout):
            text = (
                f"{what} is {tensor.type} on {tensor.device} ({tensor.layout}), the output is "
                f"{type_} on {device} ({layout})"
            )
            raise InputError(text, got=str(tensor.type), wanted=str(type_), device=str(tensor.device))
        if tensor.readonly:
            raise InputError(f"{what} is a constant: it cannot be written")
        return tensor.buffer

    def _hand_out(
        self, slots: Any, outs: Mapping[int, Tensor], held: Mapping[int, Buffer]
    ) -> tuple[Tensor, ...]:
        found: list[Tensor] = []
        made = {
            self._slots.outputs[o]: tensor.buffer for o, tensor in outs.items() if tensor.buffer is not None
        }
        for index, at in enumerate(self._slots.outputs):
            eid = int(self._graph.outputs[index])
            handle = self._bound.handles[int(self._slots.did[at])]
            if index in outs:
                found.append(outs[index].overwritten())
                continue
            if index in self._slots.into:
                buffer = held.get(at) or self._own[at]
            elif at in made:
                buffer = made[at]
            else:
                buffer = made[at] = Buffer(
                    handle, int(self._slots.memory[at]), int(self._slots.extent[at]), slots[at]
                )
            type_, layout = self._graph.entry_type(eid), self._plan.layout(eid)
            found.append(Tensor(handle.device, handle, type_, layout, buffer.addr, buffer))
        return tuple(found)

    # **************** the session's own memory ****************

    def before_write(self, index: int) -> None:
        """Wait for runs that read copies on other devices of graph input ``index``, which is about to be set.
        Writing the input's own tensor waits for the tensor's readers."""
        for at in self._copied.get(index, ()):
            self._own[at].writing().close()


def _let_go(handles: Sequence[DeviceHandle]) -> None:
    for handle in handles:
        let_go(handle)


def _keep(kept: list[Any], buffer: Buffer) -> Any:
    """A Buffer's pointer for a C array; ``kept`` holds the pointer until the array is submitted."""
    kept.append(buffer.live())
    return kept[-1]
