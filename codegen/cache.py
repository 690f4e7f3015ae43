"""What was compiled once is kept: whole libraries and the objects of their units, each under the hash of all
that shapes its bytes.

    GR_CACHE_DIR/libraries/<hash>.so      a library as compile_library makes it
    GR_CACHE_DIR/objects/<hash>.o         one unit of it, shared by all libraries that have that unit
    GR_CACHE_DIR/kernels.json             times of kernels that ``compile --tune`` measured

Files appear by rename, so that other processes see a whole file or none. What was not used for longest goes
when there is more than GR_CACHE_MB.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from graph_runtime.config import get as setting
from graph_runtime.errors import CompileError

__all__ = ["cache_folder", "hash_of", "kept", "kernel_times", "objects_folder", "prune", "touch", "writing"]

_ABANDONED = 24 * 3600  # seconds after which a file that nobody finished is garbage


def _base() -> Path:
    set_by_user = str(setting("CACHE_DIR"))
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(set_by_user or Path(base) / "graph_runtime").expanduser()


def cache_folder() -> Path:
    """Where compiled libraries are kept: in GR_CACHE_DIR, else graph_runtime in the user's cache folder."""
    return _base() / "libraries"


def kernel_times() -> Path:
    """Where measured times of kernels are kept (graph_runtime/tuning.py)."""
    return _base() / "kernels.json"


def objects_folder() -> Path:
    """Where compiled units are kept."""
    return _base() / "objects"


def hash_of(parts: Iterable[str]) -> str:
    """sha256 in hex of a list of texts; no two lists have one text."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


@contextmanager
def writing(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """A name beside ``path`` to write to; it becomes ``path`` at once when the block ends well, and is gone
    otherwise.

    So readers, and other processes that build the same thing, see a whole file or none.
    """
    if path.exists() and not path.is_file():  # /dev/null would be gone
        raise CompileError(f"{path} is no regular file: it is not replaced", got=str(path))
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        part = Path(name)
        yield part
        part.chmod(mode)
        os.replace(part, path)
    except OSError as error:
        ours = path.parent in (cache_folder(), objects_folder())
        hint = "; GR_CACHE_DIR chooses another folder for the cache" if ours else ""
        raise CompileError(f"cannot write {path}: {error.strerror or error}{hint}", got=str(path)) from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def kept(key: str, make: Callable[[Path], None]) -> Path:
    """The object of that hash, made by ``make(path)`` where it is not there. A file that is empty was cut by
    a full disk and is made anew."""
    path = objects_folder() / f"{key}.o"
    try:
        whole = path.stat().st_size > 0
    except OSError:
        whole = False
    if whole:
        touch(path)
    else:
        with writing(path) as part:
            make(part)
    return path


def touch(path: Path) -> None:
    """Remember that a file was used now; a cache that may only be read works too."""
    with contextlib.suppress(OSError):
        os.utime(path)


def prune() -> None:
    """Delete what was not used for longest until the cache has four fifths of GR_CACHE_MB, if it has more
    than that, and what builds that were killed left behind. Files that others delete meanwhile are skipped.
    """
    found, total, now = [], 0, time.time()
    for folder in (cache_folder(), objects_folder()):
        for path in folder.glob("*") if folder.is_dir() else ():
            with contextlib.suppress(OSError):
                state = path.stat()
                if path.is_file() and not path.name.startswith("."):
                    found.append((state.st_mtime, state.st_size, path))
                    total += state.st_size
                elif now - state.st_mtime > _ABANDONED:
                    _remove(path)
    limit = int(setting("CACHE_MB")) << 20
    if total <= limit:
        return
    for _, size, path in sorted(found):
        if total <= limit * 4 // 5:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size


def _remove(path: Path) -> None:
    """A part of a file, or the folder of a build."""
    if path.is_dir():
        for item in path.iterdir():
            item.unlink()
        path.rmdir()
    else:
        path.unlink()
