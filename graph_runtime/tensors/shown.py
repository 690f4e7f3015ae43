"""The memory that a tensor shows, as an array and as what the copy engine gets. Another thread may let the
handle lead elsewhere at any time (``x += y``, an eviction): nothing is kept of memory that was left, and who
reads gets values, address and owner of one time.

Arrays of it are read-only but those of ``_target`` and ``_exported``, which wait for queued work.
"""
from __future__ import annotations

import numpy as np

from .. import core
from ..layout import HOST
from ..queues.buffer import Writing
from ..single.lineage import before_write
from .host_values import host_view, writable_view

__all__ = ["Shown"]


class Shown:
    """Base of Tensor."""

    __slots__ = ()

    def _written(self) -> tuple[np.ndarray | None, core.Arg | None, object]:
        """Waits: the live values of a host tensor, or None and what the copy engine gets; and the owner of
        that memory, who is to be kept while it is read. Raises as Tensor.wait."""
        while True:
            owner = self._owner
            view = self.wait()._host_view()
            arg = self._arg if view is None else None
            if self._owner is owner:
                return view, arg, owner

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
            turn = None                     # another thread let the handle lead elsewhere meanwhile

    def _overwrite(self, array: np.ndarray | None, arg: core.Arg | None, handle: core.DeviceHandle | None,
                   owner: object) -> None:
        """Write the memory when the host's turn has come: values of an array, or those that ``arg`` names
        on a device. ``owner`` of what is read is kept."""
        turn = self._turn()
        try:
            target = self._target() if arg is None else None
            if target is not None:
                np.copyto(target, array)
                return
            given = arg or core.host_arg(np.asarray(array, order="C"), self.dtype)
            core.copy(handle, given, self._handle, self._arg)
        finally:
            if turn is not None:
                turn.close()

    def _target(self) -> np.ndarray | None:
        """The values of a host tensor, to be written by who has its turn, until it is closed; None as
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
