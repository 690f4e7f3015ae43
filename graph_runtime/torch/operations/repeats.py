"""Calls that repeat: what a kernel of torch's did for a signature, done again as one submission.

Signature (signatures.py)  --new-->     the kernel, with notes (recording.py)  -->  Ready (ready.py)
                      --known-->   Ready.again: one LaunchChain, and what comes of it; in C++ where used
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

__all__ = ["Repeating"]

_MOST = 4096  # signatures that are kept
_MOST_STEPS = 32  # of a call that is remembered


class Repeating:
    """A kernel of torch's for the overload ``op``: ``plain(args, kwargs)`` does it, and what it did is kept
    for each signature. ``written``: position or name of the one argument that it writes, None: its results
    are new. ``indices``: positions of arguments that are indices."""

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
            spoil()  # what repeats is not noted
        collect()
        try:
            call = Signature(args, kwargs, self.indices, self.written)
        except LookupError:
            return self.plain(args, kwargs)
        try:
            ready = self.ready[call.key]
            made = ready.again(call)
        except (LookupError, TypeError, AttributeError, GraphRuntimeError):
            pass  # new, moved, or no room: the slow way knows
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
