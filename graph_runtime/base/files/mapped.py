"""Files that are read: regular ones only, and those that are mapped are known, so that an access to one that
was cut short can be explained (native/core/mapped.c) before it ends the process.

``GR_MAP=0`` reads into memory what else is mapped. Then no file that changes later can be noticed.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from typing import NamedTuple

import numpy as np

from .. import config

__all__ = ["Watched", "map_file", "map_opened", "name_parts", "open_file", "read_file", "tell_of"]

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_PIECE = 64 << 20
Parts = Mapping[str, tuple[int, int]]  # what lies at which bytes of a mapping: first, and first behind


class Watched(NamedTuple):
    """``size`` bytes of a file from address ``begin`` on."""

    begin: int
    size: int
    file: str
    parts: Parts


Watcher = Callable[[Watched], None]
_known: weakref.WeakKeyDictionary[mmap.mmap, Watched] = weakref.WeakKeyDictionary()
_watchers: list[tuple[Watcher, Callable[[int], None]]] = []


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[BufferedReader]:
    """A regular file, open for reading. Raises OSError for anything else, without waiting for a pipe's writer
    or reading a device, and ValueError for a path with a NUL."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") if not stat.S_ISDIR(os.fstat(handle).st_mode) else _refused(handle) as file:
        kind = stat.S_IFMT(os.fstat(file.fileno()).st_mode)
        if kind != stat.S_IFREG:
            what = _KINDS.get(kind, "no regular file")
            raise OSError(errno.EINVAL, f"it is {what}: give a regular file", os.fspath(path))
        yield file


@contextmanager
def _refused(handle: int) -> Iterator[BufferedReader]:
    os.close(handle)
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    yield


def read_file(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a regular file. Raises as open_file."""
    with open_file(path) as file:
        return file.read()


def map_file(
    path: str | os.PathLike[str],
    begin: int = 0,
    size: int | None = None,
    *,
    private: bool = False,
    parts: Parts | None = None,
    mapped: bool = True,
) -> memoryview:
    """Bytes of a regular file, ``size`` of them from ``begin`` on, all by default: mapped, or read where
    ``mapped`` is False or GR_MAP is 0. ``private``: writable, and what is written stays in this mapping.
    ``parts`` as name_parts.

    Raises OSError as open_file, and where the file has fewer bytes.
    """
    with open_file(path) as file:
        return map_opened(file, path, begin, size, private=private, parts=parts, mapped=mapped)


def map_opened(
    file: BufferedReader,
    path: str | os.PathLike[str],
    begin: int = 0,
    size: int | None = None,
    *,
    private: bool = False,
    parts: Parts | None = None,
    mapped: bool = True,
) -> memoryview:
    """map_file of the regular file at ``path``, which is open."""
    there = os.fstat(file.fileno()).st_size
    size = max(there - begin, 0) if size is None else size
    if begin + size > there:
        raise OSError(
            errno.EIO,
            f"it was cut while it was in use: it has {there} bytes, not {begin + size}",
            os.fspath(path),
        )
    if not size:
        return memoryview(b"")
    if not (mapped and config.get("MAP")):
        return _read(file, begin, size, private)
    skipped = begin % mmap.ALLOCATIONGRANULARITY
    made = mmap.mmap(
        file.fileno(),
        size + skipped,
        offset=begin - skipped,
        access=mmap.ACCESS_COPY if private else mmap.ACCESS_READ,
    )
    _watch(
        made,
        os.fspath(path),
        {name: (first + skipped, last + skipped) for name, (first, last) in (parts or {}).items()},
    )
    return memoryview(made)[skipped:]


def _read(file: BufferedReader, begin: int, size: int, private: bool) -> memoryview:
    data = memoryview(mmap.mmap(-1, size))  # at a page, as what is mapped
    file.seek(begin)
    done = 0
    while done < size:
        got = file.readinto(data[done : done + _PIECE])
        if not got:
            raise OSError(errno.EIO, f"it was cut while it was read, after {begin + done} bytes")
        done += got
    return data if private else data.toreadonly()


def name_parts(view: memoryview, parts: Parts) -> None:
    """Say what lies where in the bytes that map_file gave: {name of a tensor: (first byte, first behind)}."""
    if isinstance(view.obj, mmap.mmap) and (known := _known.get(view.obj)) is not None:
        skipped = _address(view) - known.begin
        _watch(
            view.obj,
            known.file,
            {name: (first + skipped, last + skipped) for name, (first, last) in parts.items()},
        )


def tell_of(watch: Watcher, forget: Callable[[int], None]) -> None:
    """Call ``watch`` for every mapping there is or will be, ``forget`` with its address before it goes."""
    _watchers.append((watch, forget))
    for made, known in list(_known.items()):
        watch(known)
        weakref.finalize(made, forget, known.begin).atexit = False


def _watch(made: mmap.mmap, file: str, parts: Parts) -> None:
    is_new = made not in _known
    _known[made] = known = Watched(_address(made), len(made), file, parts)
    for watch, forget in _watchers:
        watch(known)
        if is_new:
            weakref.finalize(made, forget, known.begin).atexit = False


def _address(data: mmap.mmap | memoryview) -> int:
    return np.frombuffer(data, np.uint8).ctypes.data
