"""What was compiled once is kept: whole libraries and the objects of their units, each under the hash of all
that shapes its bytes, and beside it the sha256 of the bytes themselves.

    GR_CACHE_DIR/libraries/<key>.so         a library as compile_library makes it
    GR_CACHE_DIR/objects/<key>.o            one unit of it, shared by all libraries that have that unit
    .../<file>.sha256                       "<sha256>  <file>", as sha256sum writes it
    GR_CACHE_DIR/locks/<few files>          held while a unit compiles, so that one process does it
    GR_CACHE_DIR/kernels.json               times of kernels that ``compile --tune`` measured

``find`` reads a file once, and what it hashed is what it returns: callers link and copy those bytes, never
the file. A file that is damaged, was swapped for another or belongs to another user is not found, so it is
compiled anew and replaced. Folders are the user's alone (base/files/folders.py); where they are not,
a warning says so and the process has a temporary cache of its own.

Files appear by rename; a file and its sha256 that are of two writers do not fit and are not found. What was
not used for longest goes when there is more than GR_CACHE_MB, or when it was not used for GR_CACHE_DAYS.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.config import get as setting
from ..base.errors import WriteError
from ..base.files.folders import make_private, why_not_private
from ..base.files.temporary import temporary_folder
from ..base.files.writing import told, write_whole

__all__ = ["HINT", "KINDS", "Cache", "Entry", "hash_of", "open_cache"]

KINDS = {"libraries": ".so", "objects": ".o"}  # folder, and how its files end
HINT = "GR_CACHE_DIR chooses another folder for the cache"
_SUM, _TIMES = ".sha256", "kernels.json"
_TICK = 0.02  # seconds between looks at a lock
_ABANDONED = 24 * 3600  # seconds after which a file that no build finished is garbage
_warned: set[str] = set()


def hash_of(parts: Iterable[str]) -> str:
    """sha256 in hex of a list of texts; no two lists have one text."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def _wait_for(lock: int, stopped: Callable[[], bool]) -> None:
    end = time.monotonic() + int(setting("CC_TIMEOUT"))
    while time.monotonic() < end and not stopped():
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(_TICK)
        except OSError:  # a file system without locks
            return


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the cache: ``kind`` "libraries", "objects", "times", or "unfinished" (of a build that goes
    on, or that was killed), its ``bytes``, and ``used``, the time of its last use."""

    kind: str
    path: Path
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Cache:
    """The cache in a folder that only the user can write to, or that is not there yet. ``also``: one that is
    looked into after it, and never written."""

    folder: Path
    also: Path | None = None

    @property
    def times(self) -> Path:
        """Where measured times of kernels are kept (graph_runtime/run/tuning.py)."""
        return self.folder / _TIMES

    def find(self, kind: str, key: str) -> bytes | None:
        """The bytes that were kept, None where there are none that are whole and the user's."""
        for folder in filter(None, (self.folder, self.also)):
            path = self._path(kind, key, folder)
            wanted, data = _read(_sum_of(path)), _read(path)
            if wanted is None or data is None or wanted != _line(path.name, data):
                continue
            with contextlib.suppress(OSError):  # a cache that may only be read works too
                os.utime(path)
            return data
        return None

    def keep(self, kind: str, key: str, data: bytes) -> None:
        """Keep bytes under a key. Raises WriteError."""
        path = self._path(kind, key)
        write_whole(path, data, 0o600, hint=HINT)
        write_whole(_sum_of(path), _line(path.name, data), 0o600, hint=HINT)

    @contextlib.contextmanager
    def alone(self, kind: str, key: str, stopped: Callable[[], bool]) -> Iterator[None]:
        """A block that one thread of all processes is in at a time for a key: what several want is made by
        one. Where no lock can be had, or its holder keeps it for longer than a compiler may take, and once
        ``stopped`` says so, it begins all the same."""
        path = self.folder / "locks" / f"{kind}-{key[:3]}"  # few files; two keys of one name take turns
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            yield
            return
        try:
            _wait_for(lock, stopped)
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # a child of fork has the file, too
            os.close(lock)

    def build_folder(self) -> tempfile.TemporaryDirectory[Any]:
        """A folder to build in, which goes when its block ends."""
        return tempfile.TemporaryDirectory(
            dir=self.folder / "libraries", prefix=".build-", ignore_cleanup_errors=True
        )

    def entries(self) -> Iterator[Entry]:
        """All that is there; the bytes of a file are with its sha256's. Files that others delete meanwhile
        are skipped."""
        for kind, ends in KINDS.items():
            folder = self.folder / kind
            for path in folder.glob("*") if folder.is_dir() else ():
                with contextlib.suppress(OSError):
                    state = path.lstat()
                    if path.name.startswith(".") or path.suffix not in (ends, _SUM):
                        yield Entry("unfinished", path, _size(path), state.st_mtime)
                    elif path.suffix == ends:
                        yield Entry(kind, path, state.st_size + _size(_sum_of(path)), state.st_mtime)
                    elif not path.with_suffix("").exists():
                        yield Entry("unfinished", path, state.st_size, state.st_mtime)
        with contextlib.suppress(OSError):
            state = self.times.stat()
            yield Entry("times", self.times, state.st_size, state.st_mtime)

    def prune(self, megabytes: float | None = None, days: float | None = None) -> list[Entry]:
        """Delete what was not used for ``days`` (default GR_CACHE_DAYS; 0: as long as it likes), what builds
        that were killed left behind, and, where there are more than ``megabytes`` (GR_CACHE_MB), what was
        not used for longest, until there are four fifths. What was deleted."""
        limit = int(float(setting("CACHE_MB") if megabytes is None else megabytes) * (1 << 20))
        days = float(setting("CACHE_DAYS") if days is None else days)
        now = time.time()
        gone: list[Entry] = []
        left: list[Entry] = []
        for entry in self.entries():
            if entry.kind == "unfinished":
                gone += [entry] if now - entry.used > _ABANDONED else []
            elif entry.kind in KINDS:
                (gone if days > 0 and now - entry.used > days * 86400 else left).append(entry)
        total = sum(entry.bytes for entry in left)
        if total > limit:
            for entry in sorted(left, key=lambda item: item.used):
                if total <= limit * 4 // 5:
                    break
                gone.append(entry)
                total -= entry.bytes
        return _deleted(gone)

    def clear(self) -> list[Entry]:
        """Delete all but what a build may be writing now. What was deleted."""
        now = time.time()
        return _deleted(
            [entry for entry in self.entries() if entry.kind != "unfinished" or now - entry.used > _ABANDONED]
        )

    def _path(self, kind: str, key: str, folder: Path | None = None) -> Path:
        return (folder or self.folder) / kind / f"{key}{KINDS[kind]}"


# ------------------------------------------------------------------------------------------------ where it is
def open_cache(make: bool = True) -> Cache:
    """The cache in GR_CACHE_DIR, else in graph_runtime of the user's cache folder; a temporary one, with a
    warning, where others could put files there, or the user's folder cannot be written. ``make``: its
    folders, too. Raises WriteError for a GR_CACHE_DIR that cannot be written."""
    asked = str(setting("CACHE_DIR"))
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = Path(asked or Path(base) / "graph_runtime").expanduser().absolute()
    folder = Path(os.path.realpath(named))  # what is checked is what is used, wherever a link leads later
    also = None
    try:
        with told(named, HINT):
            reason = _unsafe(folder, make)
        if not reason and (asked or not make or os.access(folder / "libraries", os.W_OK)):
            return Cache(folder)
        also = None if reason else folder
        text = f"the cache {named} is not used, because {reason}: other users could put code there"
        if also is not None:
            text = f"the cache {named} can only be read; {HINT}"
    except WriteError as error:
        if asked:
            raise
        text = str(error)
    _warn_once(f"{text}. What is compiled is kept until this process ends")
    own = Cache(temporary_folder() / "cache", also)
    with told(own.folder):
        _unsafe(own.folder, make)
    return own


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=4)


def _unsafe(folder: Path, make: bool) -> str:
    """Why a folder cannot be the cache, "" where it can; its folders are made. Raises OSError."""
    for part in (folder, *(folder / kind for kind in KINDS)):
        if make:
            reason = make_private(part)
        else:
            reason = why_not_private(part) if os.path.lexists(part) else ""
        if reason:
            return reason if part == folder else f"its folder {part.name} {reason.removeprefix('it ')}"
        if make and part != folder and stat.S_IMODE(part.stat().st_mode) != 0o700:
            part.chmod(0o700)  # of an earlier version, which others may read
    return ""


# ------------------------------------------------------------------------------------------------ its files
def _sum_of(path: Path) -> Path:
    return path.with_name(path.name + _SUM)


def _line(name: str, data: bytes) -> bytes:
    """The name is in it: a file and its sha256 that were both put in the place of others do not fit."""
    return f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode()


def _read(path: Path) -> bytes | None:
    """The bytes of a file that only the user can have written; None where there is none. A link is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            state = os.fstat(handle)
            own = state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            return file.read() if own and stat.S_ISREG(state.st_mode) else None
    except OSError:
        return None


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_dir() and not path.is_symlink():
        return sum(_size(item) for item in path.iterdir())
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _deleted(entries: Iterable[Entry]) -> list[Entry]:
    """Delete files with their sha256, and folders of builds; those that are gone now."""
    gone = []
    for entry in entries:
        with contextlib.suppress(OSError):  # another process was first, or it is a cache to read only
            if entry.path.is_dir() and not entry.path.is_symlink():
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                entry.path.unlink()
                if entry.kind in KINDS:
                    _sum_of(entry.path).unlink(missing_ok=True)
            gone.append(entry)
    return gone
