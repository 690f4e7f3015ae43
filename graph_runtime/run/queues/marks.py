"""Places in a device's queued work. Work counts also where its results were dropped."""

from __future__ import annotations

from functools import partial

from ...binding.core import ffi, lib
from ..device_handles import DeviceHandle
from .buffer import wait_in_slices

__all__ = ["Mark", "wait_within"]


class Mark:
    """All that was queued on a device when this was made."""

    __slots__ = ("_handle", "_marks")

    def __init__(self, handle: DeviceHandle):
        self._handle, self._marks = handle, ffi.new("uint64_t[3]")
        lib.gr_async_marks(handle.pointer, self._marks)

    @property
    def reached(self) -> bool:
        """Whether it is over. Never waits."""
        return not lib.gr_async_reached(self._handle.pointer, self._marks, 0)

    def wait(self) -> None:
        """Until it is over. What failed is told where values are waited for."""
        if not self.reached:
            wait_in_slices(self._within, None, f"what is queued on {self._handle.device}")

    def _within(self, budget: int) -> int:
        return lib.gr_async_reached(self._handle.pointer, self._marks, budget)


def wait_within(handle: DeviceHandle, most: int) -> None:
    """Until no more than ``most`` are queued of what came to each queue of a device so far."""
    if lib.gr_async_within(handle.pointer, most, 0):
        wait_in_slices(partial(lib.gr_async_within, handle.pointer, most), None, str(handle.device))
