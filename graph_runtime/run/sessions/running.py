"""Runs of a session in the calling thread: one call into C, more where something is to be done around it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...base.errors import KernelError, SessionBusyError
from .. import core
from .room import has_no_room, run_with_room
from .state import described, overwritten, state_of
from .unset import refuse

__all__ = ["Running", "span_of"]

# C comes back after this long, so that a signal (Ctrl-C) is seen; a person does not feel 50 ms
_BUDGET_NS = 50_000_000
_program_run, _program_release = core.lib.gr_program_run, core.lib.gr_program_release
_INTERRUPTED = core.lib.GR_INTERRUPTED


class Running:
    """The part of a Session that runs it."""

    def run(self) -> None:
        """Run all nodes once, in this thread (or the queues' ones), without the GIL.

        Raises InputError where an input has no value, KernelError where a kernel fails, SessionBusyError
        where another thread is in this session; after each, and after KeyboardInterrupt, the session can be
        run again.
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
            self._settle_state()
            self._refuse_unset()
            self.reserve()
            self._run_span(first, last)

    def _settle_state(self) -> None:
        """Wait for queued runs that write the session's state, and see what is left of it."""
        if self._submitter is not None and self.plan.aliases:
            self._submitter.in_flight.drain()
            self._submitter.in_place.settle()

    def _refuse_unset(self) -> None:
        if self.unset:
            refuse(self.graph, self.missing(), self.name, self.plan.aliases, self.lost)

    def _run_bound(self) -> None:
        """A run with copies around it, for zero copy, or after queued runs that write the same inputs; or in
        the queues, unless outputs are bound to arrays."""
        with self._guard():
            self._settle_state()
            self._refuse_unset()
            self.reserve()
            self._around = self._needs_more()  # inputs may have been set since
            if self._queued and not self._zero_copy.outputs:
                self.submissions().run_in_place()
                return
            for first, last in self._copies_in:
                self._run_span(first, last)
            self._run_span(0, self.program.main)
            for array, tensor in self._copies_out:
                np.copyto(array, tensor._written()[0])

    def _run_span(self, first: int, last: int) -> None:
        span = span_of(first, last)
        self._go_on(_program_run(self._native, span), span)

    def _go_on(self, status: int, span: Any) -> None:
        """Run on where the time budget was used up or room was short, raise for all else that is not OK."""
        if has_no_room(status, span):
            status = run_with_room(self.bound, self._native, span)
        while status == _INTERRUPTED:  # between two calls Python handles signals
            span = span_of(span.stopped_at, span.last)
            status = _program_run(self._native, span)
        if status:
            raise self._failure(status, span)

    def _failure(self, status: int, span: Any) -> Exception:
        if status == core.lib.GR_ERR_BUSY:
            return self._busy_error()
        at = min(span.stopped_at, self.program.count - 1)
        view = self.graph.node(int(self.program.nid[at]))
        device = str(self.plan.devices[self.plan.did[view.nid]])
        said = f"{core.last_error()}{self._losses(at, status)}"
        return KernelError(
            f"node {view.name!r} ({view.op} on {device}) failed: {said}",
            node=view.name,
            op=view.op,
            device=device,
            status=status,
        )

    def _losses(self, at: int, status: int) -> str:
        """What the failure of instruction ``at`` left of the session's state; runs refuse what it lost."""
        if not self.plan.aliases or at >= self.program.main:
            return ""
        lost = overwritten(self.program, at, status)
        self.lose(lost)
        return described(self.graph.input_names, state_of(self.program), lost)

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


def span_of(first: int, last: int) -> Any:
    """A ``gr_span *``: instructions first .. last - 1."""
    return core.ffi.new("gr_span *", {"first": first, "last": last, "budget_ns": _BUDGET_NS})
