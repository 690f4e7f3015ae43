"""The memory that a tensor shows, as an array and as what the copy engine gets. Another thread may let the
handle lead elsewhere at any time (``x += y``, an eviction): nothing is kept of memory that was left, and who
reads gets values, address and owner of one time."""
from __future__ import annotations

import numpy as np

from .. import core
from ..layout import HOST
from .host_values import host_view

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
        """The live values of a host tensor of a dtype that numpy has, else None."""
        view, owner = self._view, self._owner
        if view is None and self.layout.memory == HOST:
            view = host_view(self.type, self._addr, owner, self.readonly)
            self._view = view if self._owner is owner else None
        return view
