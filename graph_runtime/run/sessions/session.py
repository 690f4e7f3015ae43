"""Session: a program bound to memory and addresses. ``run`` is one call into C.

    Plan --lower--> Program --bind--> Session --run--> Tensor

One thread at a time: a second one gets SessionBusyError. Any number of sessions may run at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.option_fields import RUNNING
from ...base.option_words import options_of, takes_words
from ...base.options import Options
from ...binding import circular, core
from ...binding.programs.lower import lower
from ...ir.graph import Graph
from ...plan.types import Plan
from .. import device_handles, kernels
from ..queues.run import Run
from ..tensors.tensor import Tensor
from .arena import Arena
from .bind import Bound, Lease
from .constants import own
from .plain_inputs import Live
from .room import make_native, make_way, queued_with_room, reserve_with_room
from .running import Held, busy_error, failure, run_on, span_of
from .staging import most_in_flight, require_queues
from .state import described, overwritten, state_of
from .unset import REFUSE, refuse, unset_of
from .zero_copy import ZeroCopy, array_of

if TYPE_CHECKING:
    from ..library import Library
    from .submission import Submitter

__all__ = ["Session"]

_program_run, _program_release = core.lib.gr_program_run, core.lib.gr_program_release


class Session:
    """A plan, ready to run.

    ``plan`` what was decided, ``program`` what it became. ``libraries`` are searched in order before the
    kernels built in, ``threads`` sets the size of the process's intra-op pool, ``name`` is the holder of the
    memory in out-of-memory texts. ``options``: those of running count here, which gr.Options explains;
    ``words`` are such fields of it, which come first. ``reserve`` False: memory is taken when it is first
    needed (reserve), which is never where the session is only submitted to. It is held until the session and
    all its tensors are gone. ``arena``: memory of sessions that never run at the same time.

    Raises LibraryError or UnsupportedOpError for a node without a kernel, CapacityError where the plan leaves
    no room for circular buffers, DeviceMemoryError where memory is short.
    """

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
        options = options_of(Session.__init__, options, {**words, "threads": threads})
        queued = require_queues(options.queues)
        if options.threads is not None:
            core.pool_set_threads(options.threads)
        self.plan, self.graph, self.name = plan, plan.graph, name
        self.max_in_flight = most_in_flight(options.max_in_flight)
        self.program = circular.measured(lower(plan, partial(kernels.resolve, libraries=tuple(libraries))))
        self._entry_did = plan.entry_did()
        self._input_eids, self._output_eids = self.graph.input_eids.tolist(), self.graph.outputs.tolist()
        self.handles = [device_handles.open_device(device) for device in plan.devices]
        self.bound = Bound(self.program, self.handles, name, arena)
        self._zero_copy = ZeroCopy(plan, self.bound)
        self.unset = unset_of(self.graph, options.unset_inputs)  # inputs that runs have to look for
        self.lost: set[int] = set()  # and those of them that a failed run overwrote
        self.refuses_unset = options.unset_inputs == REFUSE
        self._native = make_native(self.bound)
        self._whole = span_of(0, self.program.main)
        self._tensors = Live()
        self._copies_in: tuple[tuple[int, int], ...] = ()
        self._copies_out: tuple[tuple[np.ndarray, Tensor], ...] = ()
        self._constants: set[int] = set()  # entries in memory that may not be written
        self.sharing: set[int] = set()  # inputs of which a part may be constants of others, too
        self._queued = queued
        self._around = True  # whether a run is more than one call into C
        self._fresh = True  # no tensor has shown any of its own memory
        self._submitter: Submitter | None = None  # made by the first submit
        if reserve:
            self.reserve()

    def reserve(self) -> None:
        """Take the memory that runs in this thread need, unless the session has it. Raises
        DeviceMemoryError."""
        if not self.bound.reserved:
            self._settle()
            reserve_with_room(self.bound)
            self._around = self._needs_more()

    def release(self) -> bool:
        """Give that memory up, if none of it was seen or set; whether the session has none now."""
        if self.bound.reserved and self._fresh:
            self._around = True
            self.bound.release()
        return not self.bound.reserved

    # **************** runs in this thread ****************

    def run(self) -> None:
        """Run all nodes once, in this thread (or the queues' ones), without the GIL. Raises InputError where
        an input has no value, KernelError where a kernel fails, SessionBusyError where another thread is in
        this session; after each, and after KeyboardInterrupt, the session can be run again.
        """
        if self._around:
            self._run_bound()
            return
        try:
            status = _program_run(self._native, self._whole)
            if status:
                self._go_on(status, self._whole)
        except BaseException:  # a signal's, maybe: the program is still ours
            _program_release(self._native)
            raise

    def run_span(self, first: int, last: int) -> None:
        """Run instructions first .. last - 1, for a caller that looks at nodes one by one. Raises as run."""
        with self._guard():
            self._prepare()
            self._run_span(first, last)

    def _prepare(self) -> None:
        """Wait for queued runs that write the session's state, see what is left of it, have memory."""
        if self._submitter is not None and self.plan.aliases:
            self._submitter.drain()
        if self.unset:
            refuse(self.graph, self.missing(), self.name, self.plan.aliases, self.lost)
        self.reserve()

    def _run_bound(self) -> None:
        """A run with copies around it, for zero copy, or after queued runs that write the same inputs; or in
        the queues, unless outputs are bound to arrays."""
        with self._guard():
            self._prepare()
            self._around = self._needs_more()  # inputs may have been set since
            if self._queued and not self._zero_copy.outputs:
                make_way(self.bound, self.submissions().run_in_place)
                return
            for first, last in self._copies_in:
                self._run_span(first, last)
            self._run_span(0, self.program.main)
            for array, tensor in self._copies_out:
                np.copyto(array, np.asarray(tensor._written()[0]))

    def _run_span(self, first: int, last: int) -> None:
        span = span_of(first, last)
        self._go_on(_program_run(self._native, span), span)

    def _go_on(self, status: int, span: Any) -> None:
        """Run on where the time budget was used up or room was short, raise for all else that is not OK."""
        status, span = run_on(self.bound, self._native, span, status)
        if status == core.lib.GR_ERR_BUSY:
            raise busy_error(self.name)
        if status:
            at = min(span.stopped_at, self.program.count - 1)
            raise failure(self.program, at, status, core.last_error() + self._losses(at, status))

    def _losses(self, at: int, status: int) -> str:
        """What the failure of instruction ``at`` left of the session's state; runs refuse what it lost."""
        if not self.plan.aliases or at >= self.program.main:
            return ""
        lost = overwritten(self.program, at, status)
        self.lose(lost)
        return described(self.graph.input_names, state_of(self.program), lost)

    def _guard(self) -> Held:
        """Keeps other threads out of the session. Raises SessionBusyError where one is in."""
        return Held(self._native, self.name)

    def lose(self, indices: Collection[int]) -> None:
        """A run failed that had begun to write these inputs: unless unset ones are allowed, runs refuse them
        until they are set."""
        if self.refuses_unset:
            mine = set(indices) - self._zero_copy.inputs.keys()  # an array's owner may fill it unseen
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
        """Queue a run and return at once; ``run.outputs`` are its own tensors, which nothing overwrites.

        ``inputs`` {graph input's name or number: value}, for this run only; all others are the session's. A
        Tensor on the input's device in its layout is read where it is, when its own values are there; from
        elsewhere it is copied by the queues. Of anything else, an array say, a copy is made now. ``out``:
        tensors that outputs shall be written to. ``donate``: inputs whose tensors are given up to the run, as
        are those that an output is written into.

        Waits only where ``max_in_flight`` runs are in flight, for the oldest of them, or memory is short.
        Raises InputError, DeviceMemoryError; what goes wrong later, the run's ``wait`` raises.
        """
        given = {} if inputs is None else inputs
        return queued_with_room(self.bound, self.submissions(), given, out, donate, self.max_in_flight)

    def submissions(self) -> Submitter:
        """What queues its runs."""
        if self._submitter is None:
            self._fresh = False
            from .submission import Submitter

            self._submitter = Submitter(self.bound, self._zero_copy, self)
            self._around = self._around or bool(self.plan.aliases)
        return self._submitter

    def _settle(self) -> None:
        """Memory is about to move: wait for queued runs, and look at it anew for later ones."""
        if self._submitter is not None:
            self._submitter.in_flight.drain()
            self._submitter = None

    # **************** inputs and outputs ****************

    def tensor(self, eid: int) -> Tensor:
        """The live tensor of an entry."""
        found = self._tensors.get(eid)
        if found is None:
            if eid not in self.bound.owners:
                self.reserve()
            self._fresh = False
            did = int(self._entry_did[eid])
            array = self._zero_copy.moved.get(eid)
            addr = int(self.bound.entry_addr[eid]) if array is None else array.ctypes.data
            owner = self.bound.owner(eid) if array is None else array
            found = Tensor(
                self.plan.devices[did],
                self.handles[did],
                self.graph.entry_type(eid),
                self.plan.layout(eid),
                addr,
                owner,
                readonly=eid in self._constants,
            )
            if not self.bound.passing[eid]:  # others move with the arena
                self._tensors[eid] = found
        return found

    def input(self, index: int) -> Tensor:
        """The live tensor of graph input ``index``."""
        found = self.tensor(self._input_eids[index])
        if index in self.unset and isinstance(found._owner, Lease):
            found._owner.on_write = partial(self.unset.discard, index)
        return found

    def output(self, index: int) -> Tensor:
        """The live tensor of graph output ``index``: the next run overwrites it."""
        return self.tensor(self._output_eids[index])

    def set_input(self, index: int, value: Any) -> None:
        """Copy a host value or a Tensor into graph input ``index``, and to the devices that read it.

        An input bound by zero copy goes back to the session's memory first: the caller's array is never
        written. Raises InputError where shape or dtype do not fit.
        """
        if self._submitter is None and index not in self.unset and self._tensors.copy_plain(index, value):
            return
        if index in self.sharing:
            own(self, index)
        with self._guard():
            if self._zero_copy.reset_input(index):
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
        """Whether graph input ``index`` lives in an array of the caller's now (bind_input)."""
        return index in self._zero_copy.inputs

    def home(self, eid: int) -> tuple[int, object]:
        """Address of an entry, and what keeps the memory there alive."""
        if eid not in self.bound.owners:
            self.reserve()
        return int(self.bound.entry_addr[eid]), self.bound.owner(eid)

    def rehome(
        self, homes: Mapping[int, tuple[int, object]], readonly: bool = False, copies: bool = True
    ) -> None:
        """Let null nodes' entries live at other addresses for good, with all that shows the same values:
        {eid: (address, what keeps the memory there alive)}. The entries' own goes back to the system. Copies
        to devices that read them run once, if ``copies``.
        """
        with self._guard():
            self._settle()
            moved = {
                other: home for eid, home in homes.items() for other in self._zero_copy.group(eid).tolist()
            }
            self._tensors.clear()  # else they would hold the memory that is to go
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
        """Let graph input ``index`` live in the caller's array, which is kept alive. Where other devices read
        that input, the copy to them runs on each run. Raises InputError for an entry that is not on the host
        and for an array that does not fit.
        """
        if index in self.sharing:
            own(self, index)
        with self._guard():
            self.reserve()
            self._zero_copy.bind_input(index, array_of(value))
            self._rebind()

    def bind_output(self, index: int, value: Any) -> None:
        """Let graph output ``index`` be written to the caller's array, kept alive. Raises InputError."""
        with self._guard():
            self.reserve()
            self._zero_copy.bind_output(index, array_of(value))
            self._rebind()

    def reset_input(self, index: int) -> None:
        """Undo bind_input. The input then holds what it held before, on all devices that read it."""
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
        """What a run does besides the program: copies of bound inputs before, to bound outputs after it."""
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
