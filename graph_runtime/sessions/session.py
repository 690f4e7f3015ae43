"""Session: a program bound to memory and addresses. ``run`` is one call into C.

    Plan --lower--> Program --bind--> Session --run--> Tensor

One thread at a time: a second one that calls in gets SessionBusyError. Any number of sessions may run at
once.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import core, library
from ..errors import InputError, KernelError, SessionBusyError
from ..plan.types import Plan
from ..programs.lower import lower
from ..queues.run import Run
from ..tensors.tensor import Tensor
from .bind import Bound
from .staging import most_in_flight
from .zero_copy import ZeroCopy, array_of

if TYPE_CHECKING:
    from .submission import Submitter

__all__ = ["MAX_IN_FLIGHT", "Session"]

# C comes back after this long, so that a signal (Ctrl-C) is seen; a person does not feel 50 ms
_BUDGET_NS = 50_000_000
MAX_IN_FLIGHT = 8
_program_run, _program_release = core.lib.gr_program_run, core.lib.gr_program_release
_INTERRUPTED = core.lib.GR_INTERRUPTED


class Session:
    """A plan, ready to run.

    ``plan`` what was decided, ``program`` what it became. ``libraries`` are searched in order before the
    kernels built in, ``threads`` sets the size of the process's intra-op pool, ``name`` is who holds the
    memory in out-of-memory texts. ``queues``: "threads" lets run() use the devices' queues, so that they work
    at the same time. ``max_in_flight``: queued runs that hold memory at once; submit waits for the oldest
    before it queues one more. Memory is held until the session and all its tensors are gone.

    Raises LibraryError or UnsupportedOpError for a node without a kernel, DeviceMemoryError where memory is
    short.
    """

    def __init__(self, plan: Plan, libraries: Sequence[library.Library] = (), threads: int | None = None,
                 name: str = "session", queues: str = "inline", max_in_flight: int = MAX_IN_FLIGHT):
        if queues not in ("inline", "threads"):
            raise InputError(f"queues is 'inline' or 'threads', not {queues!r}", got=queues)
        if threads is not None:
            core.pool_set_threads(threads)
        self.plan, self.graph, self.name = plan, plan.graph, name
        self.max_in_flight = most_in_flight(max_in_flight)
        self.program = lower(plan, partial(library.resolve, libraries=tuple(libraries)))
        self._entry_did = plan.entry_did()
        self._input_eids, self._output_eids = self.graph.input_eids.tolist(), self.graph.outputs.tolist()
        self.handles = [core.open_device(device) for device in plan.devices]
        self.bound = Bound(self.program, self.handles, name)
        self._zero_copy = ZeroCopy(plan, self.bound)
        self._native = core.program_create(self.bound.instrs.ctypes.data, self.program.count)
        self._whole = _span(0, self.program.main)
        self._tensors: dict[int, Tensor] = {}
        self._copies_in: tuple[tuple[int, int], ...] = ()
        self._copies_out: tuple[tuple[np.ndarray, Tensor], ...] = ()
        self._constants: set[int] = set()            # entries in memory that may not be written
        self._queued = queues == "threads"
        self._around = self._queued                  # whether a run is more than one call into C
        self._submitter: Submitter | None = None     # made by the first submit

    # **************** running ****************

    def run(self) -> None:
        """Run all nodes once, in this thread (or the queues' ones), without the GIL.

        Raises KernelError where a kernel fails, SessionBusyError where another thread is in this session;
        after either, and after KeyboardInterrupt, the session can be run again.
        """
        if self._around:
            self._run_bound()
            return
        try:
            status = _program_run(self._native, self._whole)
            if status:
                self._go_on(status, self._whole)
        except BaseException:              # a signal's, maybe: the program is still ours
            _program_release(self._native)
            raise

    def run_span(self, first: int, last: int) -> None:
        """Run instructions first .. last - 1, for who looks at nodes one by one. Raises as run."""
        with self._guard():
            self._run_span(first, last)

    def _run_bound(self) -> None:
        """A run with copies around it, for zero copy, or after queued runs that write the same inputs; or in
        the queues, unless outputs are bound to arrays."""
        with self._guard():
            if self._queued and not self._zero_copy.outputs:
                self.submissions().run_in_place()
                return
            if self._submitter is not None and self.plan.aliases:
                self._submitter.drain()
            for first, last in self._copies_in:
                self._run_span(first, last)
            self._run_span(0, self.program.main)
            for array, tensor in self._copies_out:
                np.copyto(array, tensor.__array__(copy=False))

    def _run_span(self, first: int, last: int) -> None:
        span = _span(first, last)
        self._go_on(_program_run(self._native, span), span)

    def _go_on(self, status: int, span: Any) -> None:
        """Run on where the time budget was used up, raise for all else that is not OK."""
        while status == _INTERRUPTED:                # between two calls Python handles signals
            span = _span(span.stopped_at, span.last)
            status = _program_run(self._native, span)
        if status:
            raise self._failure(status, span)

    def _failure(self, status: int, span: Any) -> Exception:
        if status == core.lib.GR_ERR_BUSY:
            return self._busy_error()
        at = min(span.stopped_at, self.program.count - 1)
        view = self.graph.node(int(self.program.nid[at]))
        device = str(self.plan.devices[self.plan.did[view.nid]])
        return KernelError(f"node {view.name!r} ({view.op} on {device}) failed: {core.last_error()}",
                           node=view.name, op=view.op, device=device, status=status)

    def _busy_error(self) -> SessionBusyError:
        return SessionBusyError(f"{self.name} is running in another thread: make one session a thread")

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Keeps other threads out of the session. Raises SessionBusyError where one is in."""
        if core.lib.gr_program_hold(self._native):
            raise self._busy_error()
        try:
            yield
        finally:
            _program_release(self._native)

    # **************** queued runs ****************

    def submit(self, inputs: Mapping[int | str, Any] | None = None,
               out: Mapping[int, Tensor] | Sequence[Tensor | None] | None = None,
               donate: Collection[int | str] = ()) -> Run:
        """Queue a run and return at once; ``run.outputs`` are its own tensors, which nothing overwrites.

        ``inputs`` {graph input's name or number: value}, for this run only; all others are the session's. A
        Tensor on the input's device in its layout is read where it is, when its own values are there; from
        elsewhere it is copied by the queues. Of anything else, an array say, a copy is made now. ``out``:
        tensors that outputs shall be written to. ``donate``: inputs whose tensors are given up to the run, as
        are those that an output is written into.

        Waits only where ``max_in_flight`` runs are in flight, for the oldest of them, or memory is short.

        Raises InputError, DeviceMemoryError; what goes wrong later, the run's ``wait`` raises.
        """
        return self.submissions().submit({} if inputs is None else inputs, out, donate, self.max_in_flight)

    def submissions(self) -> Submitter:
        """What queues its runs."""
        if self._submitter is None:
            from .submission import Submitter
            self._submitter = Submitter(self.bound, self._zero_copy)
            self._around = self._around or bool(self.plan.aliases)
        return self._submitter

    def _settle(self) -> None:
        """Memory is about to move: wait for queued runs, and look at it anew for later ones."""
        if self._submitter is not None:
            self._submitter.drain()
            self._submitter = None

    # **************** inputs and outputs ****************

    def tensor(self, eid: int) -> Tensor:
        """The live tensor of an entry."""
        found = self._tensors.get(eid)
        if found is None:
            did = int(self._entry_did[eid])
            owner = self._zero_copy.moved.get(eid)
            if owner is not None:
                addr = owner.ctypes.data
            else:
                addr, owner = int(self.bound.entry_addr[eid]), self.bound.owner(eid)
            found = Tensor(self.plan.devices[did], self.handles[did], self.graph.entry_type(eid),
                           self.plan.layout(eid), addr, owner, readonly=eid in self._constants)
            self._tensors[eid] = found
        return found

    def input(self, index: int) -> Tensor:
        """The live tensor of graph input ``index``."""
        return self.tensor(self._input_eids[index])

    def output(self, index: int) -> Tensor:
        """The live tensor of graph output ``index``: the next run overwrites it."""
        return self.tensor(self._output_eids[index])

    def set_input(self, index: int, value: Any) -> None:
        """Copy a host value or a Tensor into graph input ``index``, and to the devices that read it.

        An input bound by zero copy goes back to the session's memory first: the caller's array is never
        written. Raises InputError where shape or dtype do not fit.
        """
        with self._guard():
            if index in self._zero_copy.inputs:
                self._zero_copy.reset_input(index)
                self._rebind()
            if self._submitter is not None:
                self._submitter.before_write(index)
            name = self.graph.names[self.graph.inputs[index]]
            self.input(index).copy_from(value, f"input {name!r}")
            self._run_copies(self.program.at_input.get(index))

    # **************** memory of others ****************

    def is_bound(self, index: int) -> bool:
        """Whether graph input ``index`` lives in an array of the caller's now (bind_input)."""
        return index in self._zero_copy.inputs

    def place(self, eid: int) -> tuple[int, object]:
        """Address of an entry, and what keeps the memory there alive."""
        return int(self.bound.entry_addr[eid]), self.bound.owner(eid)

    def rehome(self, places: Mapping[int, tuple[int, object]], readonly: bool = False) -> None:
        """Let null nodes' entries live at other addresses for good, with all that shows the same values:
        {eid: (address, what keeps the memory there alive)}.

        The entries' own goes back to the system. Copies to devices that read them run once.
        """
        with self._guard():
            self._settle()
            moved = {other: place for eid, place in places.items()
                     for other in self._zero_copy.group(eid).tolist()}
            self._tensors.clear()                    # else they would hold the memory that is to go
            self.bound.rehome(moved)
            if readonly:
                self._constants.update(moved)
            self._rebind()
            nids = self.graph.entry_nid[list(places)]
            for index in np.flatnonzero(np.isin(self.graph.inputs, nids)).tolist():
                self._run_copies(self.program.at_input.get(index))

    def _run_copies(self, span: tuple[int, int] | None) -> None:
        if span is not None:
            self._run_span(*span)

    # **************** zero copy ****************

    def bind_input(self, index: int, value: Any) -> None:
        """Let graph input ``index`` live in the caller's array, which is kept alive.

        Raises InputError for an entry that is not on the host and for an array that does not fit.
        Where other devices read that input, the copy to them runs on each run.
        """
        with self._guard():
            self._zero_copy.bind_input(index, array_of(value))
            self._rebind()

    def bind_output(self, index: int, value: Any) -> None:
        """Let graph output ``index`` be written to the caller's array, kept alive. Raises InputError."""
        with self._guard():
            self._zero_copy.bind_output(index, array_of(value))
            self._rebind()

    def reset_input(self, index: int) -> None:
        """Undo bind_input. The input then holds what it held before."""
        with self._guard():
            self._zero_copy.reset_input(index)
            self._rebind()

    def reset_output(self, index: int) -> None:
        """Undo bind_output."""
        with self._guard():
            self._zero_copy.reset_output(index)
            self._rebind()

    def _rebind(self) -> None:
        """What a run does besides the program: copies of bound inputs before, to bound outputs after it."""
        self._settle()
        self._tensors.clear()
        bound, spans = self._zero_copy, self.program.at_input
        self._copies_in = tuple(spans[i] for i in bound.inputs if i in spans)
        self._copies_out = tuple((bound.outputs[i], self.output(i)) for i in bound.copied)
        self._around = bool(self._copies_in or self._copies_out or self._queued)


def _span(first: int, last: int) -> Any:
    """A ``gr_span *``: instructions first .. last - 1."""
    return core.ffi.new("gr_span *", {"first": first, "last": last, "budget_ns": _BUDGET_NS})
