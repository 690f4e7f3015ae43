"""Cache of compiled files: whole libraries and the objects of their units, each under the hash of all inputs
that determine its bytes, with the sha256 of the bytes next to it.

    GR_CACHE_DIR/libraries/<key>.so         a library as compile_library makes it
    GR_CACHE_DIR/objects/<key>.o            one unit, shared by all libraries that contain it
    .../<file>.sha256                       "<sha256>  <file>", as sha256sum writes it
    GR_CACHE_DIR/locks/<few files>          locked while a unit compiles, so that one process does it
    GR_CACHE_DIR/kernels.json               times of kernels that ``compile --tune`` measured

``find`` reads a file once and returns the bytes that it hashed: callers link and copy these bytes, never the
file. A file that is damaged, was exchanged or belongs to another user counts as missing, so it is compiled
again and replaced. The folders must belong to the user alone (base/files/folders.py); otherwise the process
warns and uses a temporary cache.

Files appear by rename; a file and a sha256 from different writers do not match, so the file counts as
missing. Files unused for GR_CACHE_DAYS are deleted, and above GR_CACHE_MB the least recently used ones.
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

KINDS = {"libraries": ".so", "objects": ".o"}  # {folder: extension of its files}
HINT = "GR_CACHE_DIR chooses another folder for the cache"
_SUM, _TIMES = ".sha256", "kernels.json"
_TICK = 0.02  # seconds between attempts to take a lock
_ABANDONED = 24 * 3600  # seconds after which an unfinished file is garbage
_warned: set[str] = set()


def hash_of(parts: Iterable[str]) -> str:
    """sha256 in hex of a list of texts, encoded so that different lists differ."""
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
        except OSError:  # the file system has no locks
            return


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the cache. ``kind``: "libraries", "objects", "times", or "unfinished" (of a running or killed
    build); ``bytes``: its size; ``used``: the time of its last use."""

    kind: str
    path: Path
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache in a folder that only the user can write to, or that does not exist yet. ``also``: a second
    cache, searched if this one lacks a file and never written."""

    folder: Path
    also: Path | None = None

    @property
    def times(self) -> Path:
        """The file of measured kernel times (graph_runtime/run/tuning.py)."""
        return self.folder / _TIMES

    def find(self, kind: str, key: str) -> bytes | None:
        """The cached bytes; None if the file is missing, damaged, or not the user's."""
        for folder in filter(None, (self.folder, self.also)):
            path = self._path(kind, key, folder)
            wanted, data = _read(_sum_of(path)), _read(path)
            if wanted is None or data is None or wanted != _line(path.name, data):
                continue
            with contextlib.suppress(OSError):  # finding works in a read-only cache, too
                os.utime(path)
            return data
        return None

    def keep(self, kind: str, key: str, data: bytes) -> None:
        """Keep bytes under a key. Raises WriteError."""
        path = self._path(kind, key)
        write_whole(path, data, 0o600, hint=HINT)
        write_whole(_sum_of(path), _line(path.name, data), 0o600, hint=HINT)

    def made(self, key: str, build: Callable[[Path], bytes]) -> bytes:
        """The library with this key, from the cache or else made by ``build`` in a temporary folder. Raises
        WriteError, and what ``build`` raises."""
        data = self.find("libraries", key)
        if data is None:
            with told(self.folder, HINT), self._build_folder() as folder:
                data = build(Path(folder))
            self.keep("libraries", key, data)
        return data

    @contextlib.contextmanager
    def alone(self, kind: str, key: str, stopped: Callable[[], bool]) -> Iterator[None]:
        """A block that only one thread of all processes runs at a time for a key, so that a file is made
        once. The block begins even without the lock if no lock can be had, if the holder keeps the lock
        longer than a compiler may run, or once ``stopped`` returns True."""
        path = self.folder / "locks" / f"{kind}-{key[:3]}"  # few lock files: keys with one file take turns
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
                fcntl.flock(lock, fcntl.LOCK_UN)  # unlocked here, as a child made by fork holds the file, too
            os.close(lock)

    def _build_folder(self) -> tempfile.TemporaryDirectory[Any]:
        return tempfile.TemporaryDirectory(
            dir=self.folder / "libraries", prefix=".build-", ignore_cleanup_errors=True
        )

    def entries(self) -> Iterator[Entry]:
        """All entries; the size of a file includes that of its .sha256. Files that other processes delete
        meanwhile are skipped."""
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
        """Delete entries not used for ``days`` (default GR_CACHE_DAYS; 0: no limit), files left by killed
        builds, and, above ``megabytes`` (GR_CACHE_MB), the least recently used entries until four fifths
        remain. Returns the deleted entries."""
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
        """Delete all entries but those that a build may be writing now. Returns the deleted entries."""
        now = time.time()
        return _deleted(
            [entry for entry in self.entries() if entry.kind != "unfinished" or now - entry.used > _ABANDONED]
        )

    def _path(self, kind: str, key: str, folder: Path | None = None) -> Path:
        return (folder or self.folder) / kind / f"{key}{KINDS[kind]}"


# ------------------------------------------------------------------------------------------------ folder
def open_cache(make: bool = True) -> Cache:
    """The cache in GR_CACHE_DIR, else in ``graph_runtime`` of the user's cache folder. If other users could
    put files there, or the user's folder cannot be written, the result is a temporary cache, and the process
    warns. ``make``: create the folders. Raises WriteError for a GR_CACHE_DIR that cannot be written."""
    asked = str(setting("CACHE_DIR"))
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = Path(asked or Path(base) / "graph_runtime").expanduser().absolute()
    folder = Path(os.path.realpath(named))  # the real path, so that no link is exchanged later
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
    """The reason why a folder cannot be the cache, "" if it can. ``make``: create it. Raises OSError."""
    for part in (folder, *(folder / kind for kind in KINDS)):
        if make:
            reason = make_private(part)
        else:
            reason = why_not_private(part) if os.path.lexists(part) else ""
        if reason:
            return reason if part == folder else f"its folder {part.name} {reason.removeprefix('it ')}"
        if make and part != folder and stat.S_IMODE(part.stat().st_mode) != 0o700:
            part.chmod(0o700)  # made by an earlier version, which let others read it
    return ""


# ------------------------------------------------------------------------------------------------ files
def _sum_of(path: Path) -> Path:
    return path.with_name(path.name + _SUM)


def _line(name: str, data: bytes) -> bytes:
    """The line of a .sha256 file. The line contains the name, so that another file put in this place with its
    .sha256 does not match."""
    return f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode()


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file that only the user can have written; None for any other file, and for a
    link."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            state = os.fstat(handle)
            own = state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            return file.read() if own and stat.S_ISREG(state.st_mode) else None
    except OSError:
        return None


def _size(path: Path) -> int:
    """Size in bytes of a file, or of all files in a folder."""
    if path.is_dir() and not path.is_symlink():
        return sum(_size(item) for item in path.iterdir())
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _deleted(entries: Iterable[Entry]) -> list[Entry]:
    """Delete files with their .sha256, and the folders of builds; return the entries deleted."""
    gone = []
    for entry in entries:
        with contextlib.suppress(OSError):  # deleted by another process, or the cache is read-only
            if entry.path.is_dir() and not entry.path.is_symlink():
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                entry.path.unlink()
                if entry.kind in KINDS:
                    _sum_of(entry.path).unlink(missing_ok=True)
            gone.append(entry)
    return gone
