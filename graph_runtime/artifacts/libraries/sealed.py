"""Bytes of a library that came with a bundle. They are copied to memory that nothing can change, and then
hashed, judged and opened from there. So the opened bytes are the hashed ones, even if the file is written or
replaced meanwhile, and overwriting or truncating a bundle changes no running code.

    Member --seal--> Sealed: fd of a sealed memfd, sha256

A process holds equal bytes only once, and so the dynamic linker, which identifies files by inode, maps them
only once. The descriptor is open as long as the Sealed exists: debuggers read symbols by ``path``, and memory
maps show ``name``.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import stat
import weakref
from pathlib import Path

from ...base.errors import LibraryError
from ...base.locks import new_lock

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_MOST_BYTES = 2 << 30
_LONGEST_NAME = 200  # most bytes of a name; Linux allows 249


class Sealed:
    """Sealed bytes: ``size`` bytes in memory that cannot change, and their ``sha256`` in hex."""

    name: str
    size: int
    sha256: str

    def __init__(self, name: str, fd: int, size: int):
        self._fd, self.name, self.size = fd, name, size
        weakref.finalize(self, os.close, fd)
        self.sha256 = hashlib.sha256(self.view()).hexdigest()

    @property
    def path(self) -> str:
        """A path at which this process, and debuggers of the same user, can open the bytes."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def view(self) -> memoryview:
        """The bytes, mapped for reading."""
        if not self.size:
            return memoryview(b"")
        # a private mapping, because the system refuses a shared mapping of a sealed file, even for reading
        flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
        return memoryview(mmap.mmap(self._fd, self.size, flags=flags, prot=mmap.PROT_READ))


_held: weakref.WeakValueDictionary[str, Sealed] = weakref.WeakValueDictionary()
_held_lock = new_lock()


def seal(name: str, file: Path, begin: int, size: int) -> Sealed:
    """``size`` bytes of a file, from byte ``begin`` on, sealed in memory. ``name``: the name of the bytes in
    errors and memory maps.

    Raises LibraryError if the file cannot be read or is shorter, or if there is not enough memory.
    """
    if size > _MOST_BYTES:
        text = (
            f"library {name} has {size} bytes, in a bundle at most {_MOST_BYTES} are "
            "allowed: give a larger library by its path"
        )
        raise LibraryError(text, got=size, wanted=_MOST_BYTES)
    fd = -1
    try:
        fd = os.memfd_create(
            os.fsencode(name)[:_LONGEST_NAME].decode(errors="ignore"), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        )
        _copy(name, file, begin, size, fd)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except (OSError, LibraryError) as error:
        if fd >= 0:
            os.close(fd)
        if isinstance(error, LibraryError):
            raise
        raise LibraryError(f"cannot read library {name}: {error.strerror or error}", got=name) from None
    made = Sealed(name, fd, size)
    with _held_lock:
        return _held.setdefault(made.sha256, made)


def _copy(name: str, file: Path, begin: int, size: int, target: int) -> None:
    source = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            raise LibraryError(f"cannot read library {name}: it is no regular file", got=name)
        at = begin
        while at < begin + size:
            moved = os.sendfile(target, source, at, begin + size - at)
            if not moved:
                text = f"library {name} is cut off: it ends at byte {at - begin} of {size}"
                raise LibraryError(text, got=at - begin, wanted=size)
            at += moved
    finally:
        os.close(source)
