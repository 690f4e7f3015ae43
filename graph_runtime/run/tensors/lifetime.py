"""When a handle ends: deallocated, given to a run (donated.py), or an output whose values never came."""

from __future__ import annotations

import warnings

from ...base.errors import InputError
from ...base.machine.layout import HOST
from ..queues.buffer import Buffer
from .donated import Donated, Failed
from .shown import moves

__all__ = ["Lifetime"]


class Lifetime:
    """Base of Tensor."""

    __slots__ = ()

    @property
    def is_allocated(self) -> bool:
        """Whether the handle still leads to memory."""
        if self._went() is not None:
            return False
        buffer = self.buffer
        return buffer is None or buffer.pointer is not None

    @property
    def retain(self) -> bool:
        """Whether deallocate() and donations leave this handle alone."""
        return self._retained

    @retain.setter
    def retain(self, on: bool) -> None:
        self.alive()._retained = bool(on)

    def deallocate(self, force: bool = False) -> bool:
        """Give the memory back, without waiting: it is used again when queued work that reads it is over.

        The handle cannot be used any more. Memory that several handles show goes with the last of them,
        with ``force`` at once: then the others raise, too. A retained handle stays, whatever ``force`` says,
        with a warning; host memory stays, as in tt-mlir. Returns whether the handle was given up. Raises
        HandleError for one that is gone already, InputError for a session's view.
        """
        buffer = self.alive().buffer
        on_host = self.layout.memory == HOST
        if buffer is None or not (on_host or buffer.owner is None):
            raise InputError(f"{self!r} shows memory of a session: it goes with the session")
        if self._retained:
            warnings.warn(
                f"tensor {self.id} is retained and was not deallocated: set retain to False first",
                stacklevel=2,
            )
            return False
        if on_host:
            return False
        if not force:
            self.give_up("was deallocated")
            return True
        with moves:  # an eviction moves all handles, or none
            buffer = self.alive().buffer
            self.give_up("was deallocated")
            buffer.free(force=True)
        return True

    def give_up(self, why: str | Donated) -> None:
        """Let later uses raise HandleError, "tensor 7 <why>"; the memory lives as long as others need it."""
        kept = self._owner, self._addr, self.layout, self._origin
        self._gone = why
        self._owner = self._origin = None
        self._view = self._target_view = self._copy_arg = None
        if isinstance(why, Donated):
            why.keep(self, kept)

    def come_back(self, gone: Donated, buffer: Buffer) -> None:
        """The run that it was donated to failed, and left what it led to: it leads there again, by this
        Buffer, unless it has come back from there before."""
        if self._gone is gone and gone.kept is not None:
            self._spec = None
            _, self._addr, self.layout, self._origin = gone.kept
            self._owner, self._gone = buffer, None

    def follow(self, old: Buffer, buffer: Buffer) -> None:
        """The block that it leads to has another Buffer now."""
        if self._owner is old:
            self._owner = buffer
            self._view = self._target_view = self._copy_arg = None

    def lose(self, failed: Failed) -> None:
        """Its values never came, and its memory goes back to its donor: uses raise what failed."""
        if self._gone is None:
            self._gone = failed
            self._owner = self._view = self._target_view = self._copy_arg = None

    def _went(self, wait: bool = False) -> str | Donated | Failed | None:
        """Why the handle leads nowhere, None where it does not."""
        gone = self._gone
        return None if isinstance(gone, Donated) and gone.comes_back(self, wait) else gone
