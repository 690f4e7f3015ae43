"""Session: a program bound to memory and addresses. ``run`` is one call into C.

    Plan --lower--> Program --bind--> Session --run--> Tensor

One thread at a time may use a session: a second thread gets SessionBusyError. Any number of sessions may run
at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.option_fields import RUNNING
from ...base.option_words import takes_words
from ...base.options import Options, options_of
from ...binding import circular, core
from ...binding.programs.program import lower
from ...ir.graph import Graph
from ...plan.types import Plan
from .. import device_handles, kernels
from ..queues.run import Run
from ..tensors.tensor import Tensor
from . import running
from .arena import Arena
from .bind import Bound, Lease
from .constants import own
from .in_place import described, overwritten, state_of
from .zero_copy import ZeroCopy, array_of

if TYPE_CHECKING:
    from ..library import Library
    from .submission import Submitter

_program_run, _program_release = core.lib.gr_program_run, core.lib.gr_program_release


class Session:
    """A plan, ready to run.

    ``program`` is the lowered ``plan``. ``libraries`` are searched in order before the built-in kernels;
    ``threads``: size of the process's intra-op pool; ``name``: the session's name in out-of-memory errors;
    ``options``: the fields of gr.Options for running are used, overridden by ``words``. ``reserve`` False:
    memory is taken when it is first needed (reserve), which is never if runs are only submitted. The memory
    is held until the session and all its tensors are gone. ``arena``: memory shared by sessions that never
    run at the same time. Raises LibraryError or UnsupportedOpError for a node without a kernel, CapacityError
    if the plan leaves no room for circular buffers, DeviceMemoryError if memory is short."""

    name: str
    plan: Plan
    graph: Graph
    handles: list[device_handles.DeviceHandle]
    max_in_flight: int
    bound: Bound
    refuses_unset: bool
    unset: set[int]

    @takes_words(RUNNING)
    def __init__(
        self,
        plan: Plan,
        libraries: Sequence[Library] = (),
        threads: int | None = None,
        name: str = "session",
        *,
        options: Options | None = None,
        reserve: bool = True,
        arena: Arena | None = None,
        **words: Any,
    ):
        if words or threads or not isinstance(options, Options):
            options = options_of(Session.__init__, options, {**words, "threads": threads})
        queued = running.require_queues(options.queues)
        if options.threads is not None:
            core.pool_set_threads(options.threads)
        self.plan, self.graph, self.name = plan, plan.graph, name
        self.max_in_flight = running.most_in_flight(options.max_in_flight)
        program = kernels.lowered(plan, libraries) if libraries else lower(plan)
        self.program = program if program.circular is not None else circular.measured(program)
        self._entry_did = plan.entry_did()
        self._input_eids, self._output_eids = self.graph.input_eids.tolist(), self.graph.outputs.tolist()
        self.handles = [device_handles.open_device(device) for device in plan.devices]
        self.bound = Bound(self.program, self.handles, name, arena)
        self._zero_copy = ZeroCopy(plan, self.bound)
        self.unset = running.unset_of(self.graph, options.unset_inputs)  # inputs that runs must check
        self.lost: set[int] = set()  # inputs in unset that a failed run overwrote
        self.refuses_unset = options.unset_inputs == running.REFUSE
        self._native = running.make_native(self.bound)
        self._whole = running.span_of(0, self.program.main)
        self._tensors = running.Live()
        self._copies_in: tuple[tuple[int, int], ...] = ()
        self._copies_out: tuple[tuple[np.ndarray, Tensor], ...] = ()
        self._constants: set[int] = set()  # entries in memory that may not be written
        self.sharing: set[int] = set()  # inputs that may in part be constants shared with other sessions
        self._queued = queued
        self._around = True  # whether a run is more than one call into C
        self._fresh = True  # whether no tensor has shown the session's own memory yet
        self._submitter: Submitter | None = None  # made by the first submit
        if reserve:
            self.reserve()

    def reserve(self) -> None:
        """Take the memory for runs in this thread, unless the session has it already. Raises
        DeviceMemoryError."""
        if not self.bound.reserved:
            self._settle()
            running.reserve_with_room(self.bound)
            self._around = self._needs_more()

    def release(self) -> bool:
        """Give up the memory for runs in this thread, if no caller has seen or set any of it. Returns whether
        the session has no such memory now."""
        if self.bound.reserved and self._fresh:
            self._around = True
            self.bound.release()
        return not self.bound.reserved

    # **************** runs in this thread ****************

    def run(self) -> None:
        """Run all nodes once, in this thread (or in the queues), without the GIL. Raises InputError if an
        input has no value, KernelError if a kernel fails, SessionBusyError if another thread is in this
        session. After each of these errors, and after KeyboardInterrupt, the session can run again."""
        if self._around:
            self._run_bound()
            return
        try:
            status = _program_run(self._native, self._whole)
            if status:
                self._go_on(status, self._whole)
        except BaseException:  # perhaps a signal's error: this thread still has the program
            _program_release(self._native)
            raise

    def run_span(self, first: int, last: int) -> None:
        """Run instructions first .. last - 1, for a caller that looks at single nodes. Raises the errors of
        run."""
        with self._guard():
            self._prepare()
            self._run_span(first, last)

    def _prepare(self) -> None:
        """Wait for queued runs that write the session's state, refuse to run if inputs lack values, and take
        memory."""
        if self._submitter is not None and self.plan.aliases:
            self._submitter.drain()
        if self.unset:
            running.refuse(self.graph, self.missing(), self.name, self.plan.aliases, self.lost)
        self.reserve()

    def _run_bound(self) -> None:
        """Run the nodes, with copies before and after them for zero copy, and after queued runs that write
        the same inputs. If the session uses queues and no output is bound to an array, run in the queues
        instead."""
        with self._guard():
            self._prepare()
            self._around = self._needs_more()  # inputs may have been set since the last run
            if self._queued and not self._zero_copy.outputs:
                running.make_way(self.bound, self.submissions().run_in_place)
                return
            for first, last in self._copies_in:
                self._run_span(first, last)
            self._run_span(0, self.program.main)
            for array, tensor in self._copies_out:
                np.copyto(array, np.asarray(tensor._written()[0]))

    def _run_span(self, first: int, last: int) -> None:
        span = running.span_of(first, last)
        self._go_on(_program_run(self._native, span), span)

    def _go_on(self, status: int, span: Any) -> None:
        """Continue a run if its time budget was used up or room was short. Raises for any other status but
        OK."""
        status, span = running.run_on(self.bound, self._native, span, status)
        if status == core.lib.GR_ERR_BUSY:
            raise running.busy_error(self.name)
        if status:
            at = min(span.stopped_at, self.program.count - 1)
            raise running.failure(self.program, at, status, core.last_error() + self._losses(at, status))

    def _losses(self, at: int, status: int) -> str:
        """Text on the session's state after instruction ``at`` failed. Records the inputs whose contents are
        lost, which runs then refuse."""
        if not self.plan.aliases or at >= self.program.main:
            return ""
        lost = overwritten(self.program, at, status)
        self.lose(lost)
        return described(self.graph.input_names, state_of(self.program), lost)

    def _guard(self) -> running.Held:
        """A context manager that keeps other threads out of the session. Raises SessionBusyError if a thread
        is in it."""
        return running.Held(self._native, self.name)

    def lose(self, indices: Collection[int]) -> None:
        """Record that a failed run had begun to write these inputs. Runs refuse the inputs until they are
        set, unless unset inputs are allowed."""
        if self.refuses_unset:
            mine = set(indices) - self._zero_copy.inputs.keys()  # the caller may fill bound arrays unseen
            self.lost |= mine
            self.unset |= mine
            for index in mine:
                self.input(index)  # tensors that a caller holds tell when they are written
            self._around = self._around or bool(mine)

    # **************** queued runs ****************

    def submit(
        self,
        inputs: Mapping[int | str, Any] | None = None,
        out: Mapping[int, Tensor] | Sequence[Tensor | None] | None = None,
        donate: Collection[int | str] = (),
    ) -> Run:
        """Queue a run and return at once; ``run.outputs`` are tensors of the run's own, which no other run
        overwrites.

        ``inputs`` {graph input's name or number: value}, for this run only; other inputs are the session's. A
        Tensor on the input's device in the input's layout is read in place, once its values are there; any
        other Tensor is copied by the queues. Other values, such as arrays, are copied now. ``out``: tensors
        to write outputs to. ``donate``: inputs whose tensors are given up to the run; tensors of inputs into
        which an output is written are given up in any case.

        Waits only for the oldest of ``max_in_flight`` runs, or if memory is short. Raises InputError,
        DeviceMemoryError; later failures are raised by the run's ``wait``."""
        given = {} if inputs is None else inputs
        return running.queued_with_room(
            self.bound, self.submissions().submit, given, out, donate, self.max_in_flight
        )

    def submissions(self) -> Submitter:
        """The Submitter, which queues the session's runs."""
        if self._submitter is None:
            self._fresh = False
            from .submission import Submitter

            self._submitter = Submitter(self.bound, self._zero_copy, self)
            self._around = self._around or bool(self.plan.aliases)
        return self._submitter

    def _settle(self) -> None:
        """Wait for queued runs and drop the Submitter, because memory is about to move."""
        if self._submitter is not None:
            self._submitter.in_flight.drain()
            self._submitter = None

    # **************** inputs and outputs ****************

    def tensor(self, eid: int) -> Tensor:
        found = self._tensors.get(eid)
        if found is None:
            if eid not in self.bound.owners:
                self.reserve()
            self._fresh = False
            did, type_, layout = int(self._entry_did[eid]), self.graph.entry_type(eid), self.plan.layout(eid)
            array = self._zero_copy.moved.get(eid)
            addr = int(self.bound.entry_addr[eid]) if array is None else array.ctypes.data
            owner = self.bound.owner(eid) if array is None else array
            device, constant = self.plan.devices[did], eid in self._constants
            found = Tensor(device, self.handles[did], type_, layout, addr, owner, constant)
            if not self.bound.passing[eid]:  # other entries move with the arena
                self._tensors[eid] = found
        return found

    def input(self, index: int) -> Tensor:
        """The live tensor of graph input ``index``."""
        found = self.tensor(self._input_eids[index])
        if index in self.unset and isinstance(found._owner, Lease):
            found._owner.on_write = partial(self.unset.discard, index)
        return found

    def output(self, index: int) -> Tensor:
        """The live tensor of graph output ``index``, which the next run overwrites."""
        return self.tensor(self._output_eids[index])

    def set_input(self, index: int, value: Any) -> None:
        """Copy a host value or a Tensor into graph input ``index``, and to the devices that read it. An input
        bound by zero copy first returns to the session's memory, so the caller's array is not written. Raises
        InputError if shape or dtype do not fit."""
        if self._submitter is None and index not in self.unset and self._tensors.copy_plain(index, value):
            return
        if index in self.sharing:
            own(self, index)
        with self._guard():
            if index in self._zero_copy.inputs:
                self._zero_copy.reset_input(index)
                self._rebind()
            if self._submitter is not None:
                self._submitter.before_write(index)
            name, copies = self.graph.names[self.graph.inputs[index]], self.program.at_input.get(index)
            self.input(index).copy_from(value, f"input {name!r}")
            self.unset.discard(index)
            self._run_copies(copies)
            if copies is None and self._submitter is None:
                self._tensors.was_set(index, self._input_eids[index], self._native, self.name)

    # **************** memory of others ****************

    def missing(self) -> set[int]:
        """The inputs without values that the next run would read."""
        return self.unset - self._zero_copy.inputs.keys() if self.unset else self.unset

    def is_bound(self, index: int) -> bool:
        """Whether graph input ``index`` lives in an array of the caller, after bind_input."""
        return index in self._zero_copy.inputs

    def home(self, eid: int) -> tuple[int, object]:
        """(address of an entry, owner that keeps the memory there alive)."""
        if eid not in self.bound.owners:
            self.reserve()
        return int(self.bound.entry_addr[eid]), self.bound.owner(eid)

    def rehome(
        self, homes: Mapping[int, tuple[int, object]], readonly: bool = False, copies: bool = True
    ) -> None:
        """Move null nodes' entries to other addresses for good, with all aliases: ``homes`` {eid: (address,
        owner of the memory)}. The entries' own memory goes back to the system. ``copies``: whether to run,
        once, the copies to other devices that read the entries."""
        with self._guard():
            self._settle()
            moved = {
                other: home for eid, home in homes.items() for other in self._zero_copy.group(eid).tolist()
            }
            self._tensors.clear()  # the tensors would hold the memory that is to go
            self.bound.rehome(moved)
            if readonly:
                self._constants.update(moved)
            self._rebind()
            nids = self.graph.entry_nid[list(homes)]
            for index in np.flatnonzero(np.isin(self.graph.inputs, nids)).tolist():
                self.unset.discard(index)
                self._run_copies(self.program.at_input.get(index) if copies else None)

    def _run_copies(self, span: tuple[int, int] | None) -> None:
        if span is not None:
            self._run_span(*span)

    # **************** zero copy ****************

    def bind_input(self, index: int, value: Any) -> None:
        """Let graph input ``index`` live in the caller's array, which is kept alive. If other devices read
        the input, each run copies it to them. Raises InputError for an entry that is not on the host and for
        an array that does not fit."""
        if index in self.sharing:
            own(self, index)
        with self._guard():
            self.reserve()
            self._zero_copy.bind_input(index, array_of(value))
            self._rebind()

    def bind_output(self, index: int, value: Any) -> None:
        """Let graph output ``index`` be written to the caller's array, which is kept alive. Raises
        InputError."""
        with self._guard():
            self.reserve()
            self._zero_copy.bind_output(index, array_of(value))
            self._rebind()

    def reset_input(self, index: int) -> None:
        """Undo bind_input: the input holds its earlier values again, on all devices that read it."""
        with self._guard():
            bound = self._zero_copy.reset_input(index)
            self._rebind()
            self._run_copies(self.program.at_input.get(index) if bound else None)

    def reset_output(self, index: int) -> None:
        """Undo bind_output."""
        with self._guard():
            self._zero_copy.reset_output(index)
            self._rebind()

    def _rebind(self) -> None:
        """Find the copies before and after a run: of bound inputs to other devices before it, and to bound
        outputs after it."""
        self._settle()
        self._tensors.clear()
        bound, spans = self._zero_copy, self.program.at_input
        self._copies_in = tuple(spans[i] for i in bound.inputs if i in spans)
        self._copies_out = tuple((bound.outputs[i], self.output(i)) for i in bound.copied)
        self._around = self._needs_more()

    def _needs_more(self) -> bool:
        """Whether a run is more than one call into C."""
        return bool(
            self._copies_in
            or self._copies_out
            or self._queued
            or not self.bound.reserved
            or self.unset
            or (self._submitter is not None and self.plan.aliases)
        )
