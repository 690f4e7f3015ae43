"""Runs of a session in the calling thread: spans of instructions, one thread at a time, and what failed."""

from __future__ import annotations

from typing import Any

from ...base.errors import KernelError, SessionBusyError
from ...binding import core
from ...binding.programs.program import Program
from .bind import Bound
from .room import has_no_room, run_with_room

__all__ = ["Held", "busy_error", "failure", "run_on", "span_of"]

# C comes back after this long, so that a signal (Ctrl-C) is seen; a person does not feel 50 ms
_BUDGET_NS = 50_000_000
_INTERRUPTED = core.lib.GR_INTERRUPTED


def span_of(first: int, last: int) -> Any:
    """A ``gr_span *``: instructions first .. last - 1."""
    return core.ffi.new("gr_span *", {"first": first, "last": last, "budget_ns": _BUDGET_NS})


def run_on(bound: Bound, native: Any, span: Any, status: int) -> tuple[int, Any]:
    """After gr_program_run gave ``status``: on, where the time budget was used up or room was short. Returns
    the status at the end, and the span that gave it."""
    if has_no_room(status, span):
        status = run_with_room(bound, native, span)
    while status == _INTERRUPTED:  # between two calls Python handles signals
        span = span_of(span.stopped_at, span.last)
        status = core.lib.gr_program_run(native, span)
    return status, span


def failure(program: Program, at: int, status: int, said: str) -> KernelError:
    """The error about instruction ``at``; ``said``: what C says of it, and what is left of the state."""
    plan = program.plan
    view = plan.graph.node(int(program.nid[at]))
    device = str(plan.devices[plan.did[view.nid]])
    return KernelError(
        f"node {view.name!r} ({view.op} on {device}) failed: {said}",
        node=view.name,
        op=view.op,
        device=device,
        status=status,
    )


def busy_error(name: str) -> SessionBusyError:
    return SessionBusyError(
        f"{name} is running in another thread: make one session a thread, or create(..., concurrent=N)"
    )


class Held:
    """Keeps other threads out of a session's program while it is entered.

    Raises SessionBusyError where one is in.
    """

    __slots__ = ("_name", "_native")

    def __init__(self, native: Any, name: str):
        self._native, self._name = native, name

    def __enter__(self) -> None:
        if core.lib.gr_program_hold(self._native):
            raise busy_error(self._name)

    def __exit__(self, *_: object) -> None:
        core.lib.gr_program_release(self._native)
