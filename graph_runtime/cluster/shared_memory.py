"""Memory that processes of one machine share: the bodies of requests, which a server reads into it and its
replicas read from it.

    memory = SharedMemory(256 << 20)       the process that writes
    view = memory.take(602_112)            a writable memoryview, or None where no room is left
    memory.offset_of(array)                where an array that lies in it begins, None for others
    AttachedMemory(memory.name, size)      the processes that read

A region is free again when nothing refers to it: neither a request, nor a batch that a replica still has. So
a replica never reads values that change under it. The memory has no file: it ends with its processes.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import weakref

import numpy as np

from ..base.errors import ClusterError

__all__ = ["AttachedMemory", "SharedMemory"]

_ALIGN = 4096  # of regions: whole pages, so that there are few sizes of gaps
_COOKIE = 32  # bytes at the beginning, by which a reader knows that it has opened the right memory


class SharedMemory:
    """See the module. Not safe across threads. ``size``: bytes; they take memory when they are first used."""

    def __init__(self, size: int):
        self.size = size
        self._file = os.memfd_create("graph_runtime_requests", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self._file)
        os.ftruncate(self._file, size)
        self._map = mmap.mmap(self._file, size)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._bytes[:_COOKIE] = np.frombuffer(secrets.token_bytes(_COOKIE), np.uint8)
        self._free = [(_ALIGN, size)]  # (begin, end), ascending, none next to another

    @classmethod
    def where_possible(cls, size: int) -> SharedMemory | None:
        """None on systems that have no memory without a file."""
        return cls(size) if hasattr(os, "memfd_create") else None

    @property
    def name(self) -> tuple[str, str]:
        """What AttachedMemory opens: a path that lasts as long as this process, and the cookie."""
        return f"/proc/{os.getpid()}/fd/{self._file}", bytes(self._bytes[:_COOKIE]).hex()

    @property
    def taken(self) -> int:
        """Bytes that are in use."""
        return self.size - _ALIGN - sum(end - begin for begin, end in self._free)

    def take(self, nbytes: int) -> memoryview | None:
        """A region of ``nbytes``, None where there is no room for it."""
        wanted = -(-nbytes // _ALIGN) * _ALIGN
        for at, (begin, end) in enumerate(self._free):
            if end - begin >= wanted > 0:
                self._free[at : at + 1] = [(begin + wanted, end)] if end - begin > wanted else []
                owner = np.frombuffer(self._map, np.uint8, nbytes, begin)
                weakref.finalize(owner, self._give_back, begin, begin + wanted).atexit = False
                return owner.data
        return None

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
        offset = array.ctypes.data - self._bytes.ctypes.data
        inside = 0 <= offset and offset + array.nbytes <= self.size
        return offset if inside and array.flags.c_contiguous else None


class AttachedMemory:
    """The same bytes in another process, which cannot write them. Raises ClusterError where it is another
    machine, user or container that has them."""

    def __init__(self, name: tuple[str, str], size: int):
        path, cookie = name
        try:
            with contextlib.ExitStack() as stack:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, file)
                self._map = mmap.mmap(file, size, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise ClusterError(f"{path} cannot be shared: {error}", got=path) from None
        if bytes(self._map[:_COOKIE]).hex() != cookie:
            raise ClusterError(f"{path} is the memory of another process", got=path)

    def array(self, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> np.ndarray:
        """An array that lies at ``offset``."""
        return np.ndarray(shape, dtype, self._map, offset)
