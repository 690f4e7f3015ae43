"""Repeated calls: the work of a torch kernel for a signature, repeated as one submission.

new Signature    --> the kernel runs, with notes (recording.py) --> Ready (ready.py)
known Signature  --> Ready.again: one LaunchChain and its results; in C++ if C++ is in use

Signatures are made by signatures.py.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphRuntimeError
from ...run.single import verification
from ..native_calls import tell
from ..recording import Notes, now, recorded, spoil
from ..store import collect
from .ready import Ready, ready_of
from .signatures import Signature

_MOST = 4096  # maximum number of signatures that are kept
_MOST_STEPS = 32  # maximum number of steps of a call that is remembered


class Repeating:
    """A kernel of torch for the overload ``op``, which remembers its calls. ``plain(args, kwargs)`` runs a
    call, whose steps are kept under its signature. ``written``: position or name of the one argument that the
    kernel writes, None if its results are new; ``indices``: positions of arguments that are indices."""

    op: Any
    written: str | int | None
    indices: tuple[int, ...] = ()

    def __init__(self, op: Any, written: str | int | None = None):
        self.op, self.written = op, written
        self.ready: dict[Any, Ready] = {}
        verification.on_change(self.ready.clear)

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if now.notes is not None:
            spoil()  # an enclosing call will not be repeated
        collect()
        try:
            call = Signature(args, kwargs, self.indices, self.written)
        except LookupError:
            return self.plain(args, kwargs)
        try:
            ready = self.ready[call.key]
            made = ready.again(call)
        except (LookupError, TypeError, AttributeError, GraphRuntimeError):
            pass  # the call is new or evicted, or memory is short: ``plain`` runs it
        else:
            tell(self, ready, call)
            return made
        with recorded() as notes:
            made = self.plain(args, kwargs)
        self._remember(call, notes, made)
        return made

    def _remember(self, call: Signature, notes: Notes, made: Any) -> None:
        if notes.spoiled or len(notes.steps) > _MOST_STEPS or (call.target is None) != (self.written is None):
            return
        try:
            ready = ready_of(call, notes, made)
        except LookupError:
            return
        if len(self.ready) >= _MOST:
            self.ready.clear()
        self.ready[call.key] = ready
