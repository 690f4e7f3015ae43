"""Reading of regular files. Mapped files are registered: an access to a file that was truncated meanwhile
ends the process, and native/core/mapped.c explains it first.

``GR_MAP=0`` reads files into memory instead. Then later changes of a file have no effect."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import config
from ..errors import InputError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_PIECE = 64 << 20
Parts = Mapping[str, tuple[int, int]]  # {name: (first byte, byte after the last)} of the parts of a mapping


class Watched(NamedTuple):
    """A mapping: ``size`` bytes of a file, from address ``begin`` on."""

    begin: int
    size: int
    file: str
    parts: Parts


Watcher = Callable[[int, int, bytes, int, list[int], int], None]  # C function gr_mapped_watch of gr_core.h
_known: weakref.WeakKeyDictionary[mmap.mmap, Watched] = weakref.WeakKeyDictionary()
_watchers: list[tuple[Watcher, Callable[[int], None]]] = []


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[BufferedReader]:
    """A regular file, open for reading. Raises OSError for a file of another kind, without waiting for a
    pipe's writer or reading a device, and ValueError for a path with a NUL."""
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
    """All bytes of a regular file. Raises the errors of open_file."""
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
    """``size`` bytes of a regular file from ``begin`` on, by default all bytes. The bytes are mapped, or read
    into memory if ``mapped`` is False or GR_MAP is 0. ``private``: whether the bytes are writable, with
    writes that stay in this mapping. ``parts`` as in name_parts. Raises the errors of open_file, and OSError
    if the file has fewer bytes."""
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
    """As map_file, of the regular file at ``path`` that is already open as ``file``."""
    there = os.fstat(file.fileno()).st_size
    size = max(there - begin, 0) if size is None else size
    if begin + size > there:
        raise OSError(
            errno.EIO,
            f"the file was truncated while it was in use: it has {there} bytes, not {begin + size}",
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
    data = memoryview(mmap.mmap(-1, size))  # a new anonymous mapping, so that the data begin at a page
    file.seek(begin)
    done = 0
    while done < size:
        got = file.readinto(data[done : done + _PIECE])
        if not got:
            raise OSError(errno.EIO, f"the file was truncated while it was read, after {begin + done} bytes")
        done += got
    return data if private else data.toreadonly()


def name_parts(view: memoryview, parts: Parts) -> None:
    """Name the parts of a mapping, for error texts. ``view``: bytes from map_file; ``parts`` {name of a
    tensor: (first byte, byte after the last)}."""
    if isinstance(view.obj, mmap.mmap) and (known := _known.get(view.obj)) is not None:
        skipped = _address(view) - known.begin
        _watch(
            view.obj,
            known.file,
            {name: (first + skipped, last + skipped) for name, (first, last) in parts.items()},
        )


def tell_of(watch: Watcher, forget: Callable[[int], None]) -> None:
    """Call ``watch`` for every present and future mapping, and ``forget`` with a mapping's address before the
    mapping ends."""
    _watchers.append((watch, forget))
    for made, known in list(_known.items()):
        watch(*_as_in_c(known))
        weakref.finalize(made, forget, known.begin).atexit = False


def _watch(made: mmap.mmap, file: str, parts: Parts) -> None:
    is_new = made not in _known
    _known[made] = known = Watched(_address(made), len(made), file, parts)
    for watch, forget in _watchers:
        watch(*_as_in_c(known))
        if is_new:
            weakref.finalize(made, forget, known.begin).atexit = False


def _as_in_c(known: Watched) -> tuple[int, int, bytes, int, list[int], int]:
    """Arguments of gr_mapped_watch for a mapping: its address and size, the names of the file and of its
    parts, each ended by a 0 byte, and the begin and end of each part."""
    names = (known.file, *known.parts)
    texts = b"\0".join(name.encode("utf-8", "replace").replace(b"\0", b"?") for name in names)
    spans = [at for part in known.parts.values() for at in part]
    return known.begin, known.size, texts, len(texts), spans, len(known.parts)


def _address(data: mmap.mmap | memoryview) -> int:
    return np.frombuffer(data, np.uint8).ctypes.data


def as_path(value: object, what: str) -> Path:
    """A caller's path as a Path. Raises InputError for a value that is no path; ``what``: use of the path,
    for error texts."""
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(f"{what} is given by a path, got {type(value).__name__}", got=type(value).__name__)
    return Path(value)


def data_folder(package: str) -> Path:
    """The folder of a package."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    # a package without an __init__, as native/, has no folder but only a name in an editable install
    return next(folder for folder in map(Path, spec.submodule_search_locations) if folder.is_dir())
