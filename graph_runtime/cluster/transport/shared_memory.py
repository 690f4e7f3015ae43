"""Memory that processes of one machine share: the bodies of requests, which a server reads into it and its
replicas read from it; tensors on their way from one machine's worker to another one's process.

    memory = SharedMemory(256 << 20)              the process that writes
    view = memory.take(602_112)                   a writable memoryview, or None where no room is left
    memory.offset_of(array)                       where an array that lies in it begins, None for others
    AttachedMemory(file, free)                    the processes that read: by memory.file, passed to them

A region is free again when nothing refers to it: neither a request, nor a batch that a replica still has, nor
a link whose other end has arrays there. So no process reads values that change under it. The memory has no
file: it ends with its processes.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from collections import deque
from collections.abc import Callable

import numpy as np

_ALIGN = 4096  # of regions: whole pages, so that there are few sizes of gaps
_WARM = 1 << 30  # bytes at the beginning that stay with a process: pages that are there are faster to write


class SharedMemory:
    """See the module. One thread takes; regions come back in any. ``size``: bytes; they take memory when they
    are first used. ``file``: its descriptor. Raises OSError where the system has none."""

    def __init__(self, size: int):
        self.size = size
        self.file = os.memfd_create("graph_runtime", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self.file)
        os.ftruncate(self.file, size)
        self._map = _map(self.file, size, mmap.PROT_READ | mmap.PROT_WRITE)
        self._begin = np.frombuffer(self._map, np.uint8).ctypes.data
        self._free = [(0, size)]  # (begin, end), ascending, none next to another
        self._returned: deque[tuple[int, int]] = deque()  # in any thread, and in the middle of take()

    @classmethod
    def where_possible(cls, size: int) -> SharedMemory | None:
        """None on systems that have no memory without a file, or not so much."""
        try:
            return cls(size) if hasattr(os, "memfd_create") else None
        except (OSError, OverflowError):
            return None

    @property
    def taken(self) -> int:
        """Bytes that are in use."""
        self._take_back()
        return self.size - sum(end - begin for begin, end in self._free)

    def take(self, nbytes: int) -> memoryview | None:
        """A region of ``nbytes``, None where there is no room for it."""
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
        """Where a contiguous array lies in it, None for one that does not."""
        offset = array.ctypes.data - self._begin
        inside = 0 <= offset and offset + array.nbytes <= self.size
        return offset if inside and array.flags.c_contiguous else None


class AttachedMemory:
    """The same bytes in another process, by a descriptor that came over a socket, which is closed. ``size``:
    of all. ``free`` is called, in any thread, with the offset of an array that nothing refers to any more;
    without it the memory is read only: with it a session may write its inputs there. Raises OSError."""

    def __init__(self, file: int, free: Callable[[int], None] | None = None):
        self._free = free
        try:
            self.size = os.fstat(file).st_size
            access = mmap.PROT_READ | (0 if free is None else mmap.PROT_WRITE)
            self._map = _map(file, self.size, access)
        finally:
            os.close(file)

    def array(self, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> np.ndarray:
        """An array that lies at ``offset``."""
        array = np.ndarray(shape, dtype, self._map, offset)
        if self._free is not None:
            weakref.finalize(array, self._free, offset).atexit = False
        return array


def _map(file: int, size: int, access: int) -> mmap.mmap:
    """In large pages where the system has them: copying into small ones takes twice as long."""
    mapped = mmap.mmap(file, size, prot=access)
    with contextlib.suppress(OSError):  # a kernel without them
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped
