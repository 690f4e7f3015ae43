"""The tensors that a session has shown, and which of its inputs are plain: an array is copied into memory of
the host, and nothing else is to be done. Most runs set such inputs, and small models take less time than
the rest of setting one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...binding import core
from ..tensors.tensor import Tensor
from .bind import Lease
from .running import busy_error

__all__ = ["Live"]

_hold, _release = core.lib.gr_program_hold, core.lib.gr_program_release


class _Plain:
    """A plain input: its tensor, what keeps its memory, that memory to be written, its dtype and shape."""

    __slots__ = ("_name", "_native", "dtype", "lease", "memory", "shape", "tensor")

    def __init__(self, tensor: Tensor, lease: Lease, memory: np.ndarray, native: Any, name: str):
        self.tensor, self.lease, self.memory = tensor, lease, memory
        self.dtype, self.shape = memory.dtype, memory.shape
        self._native, self._name = native, name

    def copy(self, value: np.ndarray, of: dict[int, _Plain], index: int) -> bool:
        """Copy an array of the very dtype and shape, if the input is still this one of ``of``. Raises
        SessionBusyError."""
        if value.dtype is not self.dtype or value.shape != self.shape:
            return False
        if _hold(self._native):
            raise busy_error(self._name)
        try:  # from here on no other thread lets it lead elsewhere
            memory, tensor = self.memory, self.tensor
            if (
                of.get(index) is not self
                or tensor._target_view is not memory
                or self.lease.events is not None
            ):
                return False
            memory[...] = value
            tensor._version = None
            return True
        finally:
            _release(self._native)


class Live(dict[int, Tensor]):
    """{entry: the tensor that shows it}, as long as it leads to the memory that the session uses."""

    def __init__(self) -> None:
        super().__init__()
        self._plain: dict[int, _Plain] = {}

    def clear(self) -> None:
        """Entries have other memory from now on."""
        super().clear()
        self._plain.clear()

    def copy_plain(self, index: int, value: Any) -> bool:
        """Set graph input ``index``, if it is plain and the value an array that fits as it is."""
        plain = self._plain.get(index)
        return plain is not None and value.__class__ is np.ndarray and plain.copy(value, self._plain, index)

    def was_set(self, index: int, eid: int, native: Any, name: str) -> None:
        """Graph input ``index`` of the session ``name``, entry ``eid``, was set; nothing queued uses it and
        no other device reads it."""
        tensor = self.get(eid)
        if tensor is None or type(tensor._owner) is not Lease or tensor._target_view is None:
            return
        self._plain[index] = _Plain(tensor, tensor._owner, tensor._target_view, native, name)
