"""Memory shared by processes of one machine: for bodies of requests, written by a server and read by its
replicas, and for tensors sent between processes.

    memory = SharedMemory(256 << 20)              in the writing process
    view = memory.take(602_112)                   a writable memoryview, or None if there is no room
    memory.offset_of(array)                       offset of an array in it, None for other arrays
    AttachedMemory(file, free)                    in the reading processes, from memory.file passed to them

A region is free again when nothing refers to it: no request, no batch of a replica, and no link whose other
end has arrays in it. So values never change while a process reads them. The memory is no file of a file
system, and ends with its processes.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from collections import deque
from collections.abc import Callable

import numpy as np

_ALIGN = 4096  # bytes of a page: regions are whole pages, so that gaps have few sizes
_WARM = 1 << 30  # bytes at the beginning that stay allocated, because writing to them is faster


class SharedMemory:
    """Memory whose regions are handed out. One thread calls take(); any thread may release a region.
    ``size``: number of bytes, which are allocated when first used. ``file``: file descriptor of the memory.
    Raises OSError if the system has no such memory."""

    def __init__(self, size: int):
        self.size = size
        self.file = os.memfd_create("graph_runtime", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self.file)
        os.ftruncate(self.file, size)
        self._map = _map(self.file, size, mmap.PROT_READ | mmap.PROT_WRITE)
        self._begin = np.frombuffer(self._map, np.uint8).ctypes.data
        self._free = [(0, size)]  # (begin, end) of free regions: ascending, not adjacent
        self._returned: deque[tuple[int, int]] = deque()  # regions released by any thread, even in take()

    @classmethod
    def where_possible(cls, size: int) -> SharedMemory | None:
        """New shared memory; None on a system that has no memory files or not enough memory."""
        try:
            return cls(size) if hasattr(os, "memfd_create") else None
        except (OSError, OverflowError):
            return None

    @property
    def taken(self) -> int:
        """Bytes of the regions in use."""
        self._take_back()
        return self.size - sum(end - begin for begin, end in self._free)

    def take(self, nbytes: int) -> memoryview | None:
        """A region of ``nbytes`` bytes, None if there is no room for it."""
        self._take_back()
        wanted = -(-nbytes // _ALIGN) * _ALIGN
        for at, (begin, end) in enumerate(self._free):
            if end - begin >= wanted > 0:
                self._free[at : at + 1] = [(begin + wanted, end)] if end - begin > wanted else []
                owner = np.frombuffer(self._map, np.uint8, nbytes, begin)
                weakref.finalize(owner, self._returned.append, (begin, begin + wanted)).atexit = False
                return owner.data
        return None

    def _take_back(self) -> None:
        while self._returned:
            begin, end = self._returned.popleft()
            if end > _WARM:
                self._map.madvise(mmap.MADV_REMOVE, begin, end - begin)
            self._give_back(begin, end)

    def _give_back(self, begin: int, end: int) -> None:
        at = next((i for i, (other, _) in enumerate(self._free) if other > begin), len(self._free))
        if at < len(self._free) and self._free[at][0] == end:
            end = self._free.pop(at)[1]
        if at and self._free[at - 1][1] == begin:
            at -= 1
            begin = self._free.pop(at)[0]
        self._free.insert(at, (begin, end))

    def offset_of(self, array: np.ndarray) -> int | None:
        """The offset of a contiguous array in this memory; None for any other array."""
        offset = array.ctypes.data - self._begin
        inside = 0 <= offset and offset + array.nbytes <= self.size
        return offset if inside and array.flags.c_contiguous else None


class AttachedMemory:
    """The memory of another process, mapped by a file descriptor that came over a socket; the descriptor is
    then closed. ``size``: number of bytes. ``free``: function that is called, in any thread, with the offset
    of each released array. Without ``free`` the mapping is read-only; with it, a session may write its inputs
    into the memory. Raises OSError."""

    def __init__(self, file: int, free: Callable[[int], None] | None = None):
        self._free = free
        try:
            self.size = os.fstat(file).st_size
            access = mmap.PROT_READ | (0 if free is None else mmap.PROT_WRITE)
            self._map = _map(file, self.size, access)
        finally:
            os.close(file)

    def array(self, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> np.ndarray:
        """A new array over the memory at ``offset``."""
        array = np.ndarray(shape, dtype, self._map, offset)
        if self._free is not None:
            weakref.finalize(array, self._free, offset).atexit = False
        return array


def _map(file: int, size: int, access: int) -> mmap.mmap:
    """Map the memory, in large pages if the system has them, because copying into small pages takes twice as
    long."""
    mapped = mmap.mmap(file, size, prot=access)
    with contextlib.suppress(OSError):  # the system has no large pages
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped
