"""Submitter of a program whose inputs are handles: it keeps no memory for inputs, and does little work per
run.

As in a Session that is used by submit alone, only constants, and their copies on other devices, have memory.
All other memory belongs to the caller or to a run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..base.machine.layout import HOST, host_layout
from ..binding.circular import measured
from ..binding.core import ffi, lib
from ..binding.programs.program import Program
from ..binding.programs.slots import assign_slots, extent_of, memory_of, slots_of_copies
from ..plan.types import Plan
from ..run import kernels
from ..run.device_handles import DeviceHandle, open_device
from ..run.queues import template
from ..run.queues.buffer import Buffer, wait_in_slices
from ..run.sessions.assembly import assemble
from ..run.sessions.bind import Bound
from ..run.sessions.constants import hold
from ..run.sessions.l1_needs import of_submission
from ..run.sessions.staging import stage, written
from ..run.sessions.zero_copy import ALIGNMENT
from ..run.tensors.eviction import Need, evicting
from ..run.tensors.spec import TensorSpec, spec_of
from ..run.tensors.tensor import Tensor
from . import native_calls
from .store import Form, number_of

_addr = lib.gr_buffer_addr
_MOST_IN_FLIGHT = 16  # maximum number of runs in flight; further runs wait


@dataclass(slots=True)
class _Home:
    """The owner of constants, in the form that run/sessions/constants.py needs."""

    plan: Plan
    program: Program
    handles: list[DeviceHandle]
    name: str


class HandleSubmitter:
    """Submits runs of one program. ``constants`` {graph input: its values} are held once per device for all
    programs; ``given``: the graph inputs that each run gets, in this order. Any thread may submit.

    Raises LibraryError or UnsupportedOpError for a node without a kernel, DeviceMemoryError.
    """

    def __init__(self, plan: Plan, name: str, constants: Mapping[int, Any], given: Sequence[int]):
        self._plan, self._graph, self._name = plan, plan.graph, name
        self._handles = [open_device(device) for device in plan.devices]
        program = measured(kernels.lowered(plan))
        self._bound = Bound(program, self._handles, name)
        self._slots = slots = assign_slots(plan)
        copied = slots_of_copies(program, slots)
        self._template = assemble(self._bound, slots, frozenset(i for i in given if i in copied))
        self._own: dict[int, Buffer] = {}
        for index, values in constants.items():
            for eid, held in hold(_Home(plan, program, self._handles, name), index, values, {}).items():
                self._own[int(slots.slot[eid])] = held.memory
        self._defaults = ffi.new("gr_buffer *[]", slots.count)
        for slot, buffer in self._own.items():
            self._defaults[slot] = buffer.pointer
        self._size = ffi.sizeof(self._defaults)
        self._given = tuple(given)
        eids = [int(eid) for eid in self._graph.input_eids[list(given)]]
        self._inputs = [self._input(eid) for eid in eids]
        found = [int(slot) for slot in slots.outputs]
        self.slots_of_outputs = list(dict.fromkeys(found))  # each slot once: a slot may serve several outputs
        self._blocks = [  # (device, memory, bytes) of each slot
            (self._handles[int(slots.did[slot])], int(slots.memory[slot]), int(slots.extent[slot]))
            for slot in self.slots_of_outputs
        ]
        self._outputs = [
            (self.slots_of_outputs.index(slot), self._graph.entry_type(int(eid)), plan.layout(int(eid)))
            for slot, eid in zip(found, self._graph.outputs, strict=True)
        ]
        self._flying: deque[Any] = deque()

    def submit(self, values: Sequence[Any]) -> list[Tensor]:
        """Queue a run and return its outputs at once. ``values``: values of the ``given`` inputs, in their
        order. Tensors on the plan's device and in its layout are read in place; other tensors, and arrays,
        are copied. If the run fails, readers of an output get the error."""
        self.wait_for_turn()
        return evicting(lambda: self._submitted(values), lambda: self._needs(values))

    def _needs(self, values: Sequence[Any]) -> Iterator[Need]:
        """The L1 memory that a run needs on each device."""
        return of_submission(self._bound.program, self._handles, dict(zip(self._given, values, strict=True)))

    def _submitted(self, values: Sequence[Any]) -> list[Tensor]:
        slots = ffi.new("gr_buffer *[]", self._slots.count)
        ffi.memmove(slots, self._defaults, self._size)
        kept = []  # keeps the buffers alive until the submission
        for (slot, eid, spec, on_host), value in zip(self._inputs, values, strict=True):
            buffer: Any = None
            there = None
            if value.__class__ is Tensor:  # read the owner first: another thread may evict the tensor
                buffer, there = value._owner, value.spec
            fits = buffer.__class__ is Buffer and there is spec
            if not fits or (on_host and buffer.addr % ALIGNMENT):
                buffer = self._copied(eid, value)
            kept.append(buffer.live())
            slots[slot] = kept[-1]
        run = self._template.submit(slots)
        return self.adopt(run, [slots[slot] for slot in self.slots_of_outputs])

    def adopt(self, run: Any, pointers: Sequence[Any]) -> list[Tensor]:
        """The outputs of a queued run ``gr_run *``, made over ``pointers``, the ``gr_buffer *`` of
        ``slots_of_outputs``."""
        self._flying.append(ffi.gc(run, lib.gr_run_release))
        buffers = [
            Buffer(handle, memory, extent, pointer)
            for (handle, memory, extent), pointer in zip(self._blocks, pointers, strict=True)
        ]
        return [
            Tensor(buffer.handle.device, buffer.handle, type_, layout, _addr(buffer.pointer), buffer)
            for buffer, type_, layout in [(buffers[at], type_, layout) for at, type_, layout in self._outputs]
        ]

    def in_cpp(
        self, given: Sequence[tuple[int, Any]], forms: Sequence[Form], adopt: Callable[[Any, Any], Any]
    ) -> Any:
        """A function of native/torch/programs.h that takes all arguments of a call and submits a run. None if
        C++ is not in use, if an input is on the host, or if two outputs share a slot. ``given``: for each
        input, the number of its argument and its torch dtype; ``forms``: the Form of each output; ``adopt``:
        function that does the work of the method ``adopt`` but returns Stores."""
        slots = self.slots_of_outputs
        if any(on_host for *_, on_host in self._inputs) or len(slots) != len(self._outputs):
            return None
        addresses = [
            int(ffi.cast("uintptr_t", pointer)) for pointer in (self._template.pointer, self._defaults)
        ]
        made = native_calls.program(addresses[0], self._slots.count, addresses[1], self.wait_for_turn, adopt)
        if made is None:
            return None
        for (argument, dtype), (slot, _, spec, _) in zip(given, self._inputs, strict=True):
            made.give(argument, slot, spec, dtype, spec.type.shape)
        for slot, (handle, _, _), form, (_, type_, _) in zip(
            slots, self._blocks, forms, self._outputs, strict=True
        ):
            made.make(slot, number_of(handle.device), form.code, form.bits, type_.shape)
        return made

    def wait_for_turn(self) -> None:
        """Wait until one more run may be in flight."""
        flying = self._flying
        while len(flying) >= _MOST_IN_FLIGHT:
            try:
                run = flying.popleft()
            except IndexError:  # another thread took the last run
                return
            if not lib.gr_run_done(run):
                wait_in_slices(partial(lib.gr_run_wait, run), None, "a run")

    # **************** inputs and outputs ****************

    def _input(self, eid: int) -> tuple[int, int, TensorSpec, bool]:
        """(slot, entry, spec of a tensor that can be read in place, whether the entry is on the host)."""
        layout, device = self._plan.layout(eid), self._plan.devices[int(self._plan.entry_did()[eid])]
        spec = spec_of(device, self._graph.entry_type(eid), layout)
        return int(self._slots.slot[eid]), eid, spec, layout.memory == HOST

    def _copied(self, eid: int, value: Any) -> Buffer:
        """A new buffer with the values of a tensor or an array, in the layout of an entry."""
        type_, layout = self._graph.entry_type(eid), self._plan.layout(eid)
        handle = self._handles[int(self._plan.entry_did()[eid])]
        memory, extent = memory_of(self._plan, eid), extent_of(self._plan, eid)
        free = isinstance(value, Tensor) and value.buffer is not None
        if not free and (isinstance(value, Tensor) or layout.memory == HOST):
            return written(handle, memory, extent, type_, layout, value, self._name)
        fresh = Buffer.alloc(handle, memory, extent, self._name)
        if free:
            value = value.snapshot()  # a consistent copy: other threads may evict the tensor
            template.copy(value.buffer, value.layout, fresh, layout, type_)
        else:
            staged = stage(np.asarray(value), type_, self._name)
            template.copy(staged, host_layout(type_.dtype), fresh, layout, type_)
        return fresh
