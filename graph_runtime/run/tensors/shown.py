"""The memory that a tensor shows, as an array and as what the copy engine gets. Another thread may let the
handle lead elsewhere at any time (``x += y``, an eviction): nothing is kept of memory that was left, and a
reader gets values, address and owner of one time.

A write is at one time, too, for the moves that no user asked for: ``moves`` is held from the look at where a
tensor is until the write there is done or queued, and by an eviction from the copy of the values until all
handles lead to the copy. So each write comes before that copy, or goes to the new place.

Arrays of it are read-only but those of ``_target`` and ``_exported``, which wait for queued work.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ...base.locks import new_rlock
from ...base.machine.layout import HOST, L1
from .. import core
from ..queues.buffer import Buffer, Writing
from .host_values import host_view, writable_view
from .lineage import before_write

__all__ = ["Shown", "moves"]

# what holds it takes neither lineage's lock nor donations; only that of overwrites (donated.py) comes after
moves = new_rlock()


class Shown:
    """Base of Tensor."""

    __slots__ = ()

    # **************** where it leads ****************

    def snapshot(self) -> Any:
        """A handle on the same memory that no device knows: where it leads does not change. Raises
        HandleError."""
        now = self.alive()  # before the look: a donated one may come back
        made = self.__class__(
            now.device, now._handle, now.type, now.layout, now._addr, now._owner, now.readonly, False
        )
        self.alive()  # and after it: another thread may have given it up before
        return made

    def alias(self) -> Any:
        """Another handle on the same memory, with the same retain flag and version."""
        self.alive()  # a donated one may come back, which waits: not under the lock
        with moves:
            made = self.__class__(
                self.device, self._handle, self.type, self.layout, self._addr, self._owner, self.readonly
            )
        self.alive()
        made._origin = self if self._origin is None else self._origin
        made._retained, made._recipe = self._retained, self._recipe
        return made

    __copy__ = alias

    def settle(self, other: Any, of: Buffer | None = None) -> None:
        """Lead to the memory of ``other`` from now on, which has the same values at another place of the same
        device; the old memory goes when queued work is over. ``of``: unless it has left that memory already.
        For evictions: handles stay valid."""
        if of is not None and self._owner is not of:
            return
        _kept = self._owner  # its end may let other threads in, which should find all of it new
        self._spec = None  # first: a thread that reads the owner, then the spec, gets no older spec
        self.layout, self._addr, self._owner = other.layout, other._addr, other._owner
        self._view = self._target_view = self._copy_arg = None

    def overwritten(self, recipe: object = None) -> Any:
        """Other values come into the memory than those that its recipe makes: they have another, or none.
        Returns the handle itself."""
        self._recipe = recipe
        return self

    def remade(self, other: Any, recipe: object) -> None:
        """Lead to ``other``, which has the values that failed to come, made by ``recipe``; not where other
        values came meanwhile."""
        with moves:
            if self._recipe is recipe:
                self.settle(other)
                self._recipe = None

    # **************** reading ****************

    def _written(self) -> tuple[np.ndarray | None, core.Arg | None, object]:
        """Waits: the live values of a host tensor, or None and what the copy engine gets; and what is to be
        kept while that memory is read. Raises as Tensor.wait."""
        while True:
            owner = self._owner
            kept = owner, getattr(owner, "pointer", None)  # another thread may free it by force
            view = self.wait()._host_view()
            arg = self._arg if view is None else None
            if self._owner is owner:
                return view, arg, kept

    @property
    def _arg(self) -> core.Arg:
        """What the copy engine gets."""
        arg, owner = self._copy_arg, self._owner
        if arg is None:
            arg = core.tensor_arg(self._addr, self.dtype, self.shape, self.layout, handle=self._handle)
            self._copy_arg = arg if self._owner is owner else None
        return arg

    def _host_view(self) -> np.ndarray | None:
        """The live values of a host tensor of a dtype that numpy has, to be read, else None."""
        view, owner = self._view, self._owner
        if view is None and self.layout.memory == HOST:
            view = host_view(self.type, self._addr, owner)
            self._view = view if self._owner is owner else None
        return view

    def _turn(self) -> Writing | None:
        """The host's turn to write the memory, which waits for queued work that uses it; None where nothing
        queued can. Raises HandleError, DeviceError."""
        while True:
            owner = self.alive()._owner
            buffer = getattr(owner, "events", None)
            turn = None if buffer is None else buffer.writing()
            if self._owner is owner:
                told = getattr(owner, "on_write", None)
                if told is not None:
                    told()
                return turn
            turn = None  # another thread let the handle lead elsewhere meanwhile

    def _overwrite(
        self, array: np.ndarray | None, arg: core.Arg | None, handle: core.DeviceHandle | None, kept: object
    ) -> None:
        """Write the memory when the host's turn has come: values of an array, or those that ``arg`` names
        on a device. ``kept`` keeps what is read."""
        while True:
            turn = self._turn()
            try:
                # others move a tensor unasked where evictions look, and while it may fail and be made again
                moved = self.layout.memory == L1 or self._recipe is not None
                with moves if moved else nullcontext():
                    if turn is None or self._events is turn.buffer:
                        self.overwritten()._put(array, arg, handle)
                        return
            finally:
                if turn is not None:
                    turn.close()

    def _put(self, array: np.ndarray | None, arg: core.Arg | None, handle: core.DeviceHandle | None) -> None:
        target = self._target() if arg is None else None
        if target is not None:
            np.copyto(target, array)
            return
        given = arg or core.host_arg(np.asarray(array, order="C"), self.dtype)
        core.copy(handle, given, self._handle, self._arg)

    def _target(self) -> np.ndarray | None:
        """The values of a host tensor, to be written by the holder of its turn, until it is closed; None as
        _host_view. Not to be kept."""
        view, owner = self._target_view, self._owner
        if view is None and self.layout.memory == HOST:
            view = writable_view(self.type, self._addr, owner)
            self._target_view = view if self._owner is owner else None
        return view

    def _exported(self) -> np.ndarray | None:
        """An array of a host tensor, to be written as long as it lives; None as _host_view."""
        before_write(self)
        turn = self._turn()
        return writable_view(self.type, self._addr, self._owner if turn is None else turn)
