"""Tensors on their way between two processes of one machine: memory that both map, and that is used again.

The sender copies once, into a segment (an anonymous file) whose descriptor it passes over the socket when
it is first used; the receiver's arrays are that memory. When they are gone it says so, and the sender may
write there again. A segment has no name, so nothing is left behind by a process that is killed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from weakref import finalize

import numpy as np

__all__ = ["ReceivedSegments", "SentSegments"]

_MOST_BYTES = 1 << 30  # of segments that are not in use


@dataclass(slots=True, eq=False)
class _Segment:
    number: int
    fd: int
    memory: np.ndarray
    busy: bool = True
    passed: bool = False


class SentSegments:
    """The sender's side of a connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: dict[int, _Segment] = {}
        self._count = 0

    def take(self, nbytes: int) -> _Segment:
        """A segment with that much room, which is busy from now on. Raises OSError where there is no
        memory."""
        with self._lock:
            fits = [s for s in self._segments.values() if not s.busy and len(s.memory) >= nbytes]
            if fits:
                found = min(fits, key=lambda s: len(s.memory))
                found.busy = True
                return found
            size = max(1 << 16, 1 << (nbytes - 1).bit_length())
            fd = os.memfd_create("graph_runtime", os.MFD_CLOEXEC)
            try:
                os.ftruncate(fd, size)
                memory = np.frombuffer(_map(fd, size), np.uint8)
            except BaseException:
                os.close(fd)
                raise
            self._count += 1
            made = self._segments[self._count] = _Segment(self._count, fd, memory)
            return made

    def free(self, number: int) -> list[int]:
        """The receiver needs a segment no more. Returns those that are given up because there are too
        many."""
        with self._lock:
            if number in self._segments:
                self._segments[number].busy = False
            idle = [s for s in self._segments.values() if not s.busy]
            dropped = []
            while sum(len(s.memory) for s in idle) > _MOST_BYTES:
                segment = idle.pop(0)
                os.close(segment.fd)
                del self._segments[segment.number]
                dropped.append(segment.number)
            return dropped

    def close(self) -> None:
        """Give back all."""
        with self._lock:
            for segment in self._segments.values():
                os.close(segment.fd)
            self._segments.clear()


def _map(fd: int, size: int) -> mmap.mmap:
    """Its memory, in large pages where the system has them: copying into small ones takes twice as long."""
    mapped = mmap.mmap(fd, size)
    with contextlib.suppress(OSError):  # a kernel without them
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped


class ReceivedSegments:
    """The receiver's side. ``free(number)`` is called, in any thread, when nothing reads a message any
    more."""

    def __init__(self, free: Callable[[int], None]):
        self._free, self._maps = free, dict[int, mmap.mmap]()

    def map(self, number: int, fd: int) -> None:
        """A segment whose descriptor arrived; it is closed."""
        try:
            self._maps[number] = _map(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def memory(self, number: int, nbytes: int) -> np.ndarray:
        """uint8 [nbytes]: what lies in a segment, until the array and all views of it are gone. Raises
        KeyError for one that was never mapped, ValueError for one that is smaller."""
        array = np.frombuffer(self._maps[number], np.uint8, nbytes)
        finalize(array, self._free, number).atexit = False
        return array

    def drop(self, number: int) -> None:
        """The sender gave a segment up."""
        self._maps.pop(number, None)
