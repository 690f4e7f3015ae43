"""Bytes of a library that came with a file: copied to memory that nothing can change, then hashed, judged
and opened from there. So what is opened is what was hashed, whatever is written to the file or put into its
place meanwhile, and a bundle that is overwritten or cut changes no code that runs.

    Member --seal--> Sealed: fd of a sealed memfd, sha256

Equal bytes are held once in a process, and the dynamic linker, which knows files by their inode, maps them
once too. The descriptor stays open with the object: debuggers read symbols by ``path``, and memory maps name
it as ``name`` says.
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

__all__ = ["Sealed", "seal"]

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_MOST_BYTES = 2 << 30
_LONGEST_NAME = 200  # bytes; Linux takes 249


class Sealed:
    """``size`` bytes in memory that cannot change, and their ``sha256`` in hex."""

    name: str
    size: int
    sha256: str

    def __init__(self, name: str, fd: int, size: int):
        self._fd, self.name, self.size = fd, name, size
        weakref.finalize(self, os.close, fd)
        self.sha256 = hashlib.sha256(self.view()).hexdigest()

    @property
    def path(self) -> str:
        """A path by which this process, and debuggers of the same user, open the bytes."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def view(self) -> memoryview:
        """The bytes, mapped for reading."""
        if not self.size:
            return memoryview(b"")
        # private: of a sealed file the system refuses a shared mapping, even one for reading
        flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
        return memoryview(mmap.mmap(self._fd, self.size, flags=flags, prot=mmap.PROT_READ))


_held: weakref.WeakValueDictionary[str, Sealed] = weakref.WeakValueDictionary()
_held_lock = new_lock()


def seal(name: str, file: Path, begin: int, size: int) -> Sealed:
    """``size`` bytes of a file, from ``begin``. ``name`` is what errors and memory maps call them.

    Raises LibraryError where the file cannot be read or is shorter, or there is no memory for them.
    """
    if size > _MOST_BYTES:
        raise LibraryError(
            f"library {name} has {size} bytes, at most {_MOST_BYTES} come with a bundle; a "
            "larger one is named by its path",
            got=size,
            wanted=_MOST_BYTES,
        )
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
                raise LibraryError(
                    f"library {name} is cut off: it ends at byte {at - begin} of {size}",
                    got=at - begin,
                    wanted=size,
                )
            at += moved
    finally:
        os.close(source)
