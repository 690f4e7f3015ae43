"""Files appear whole or not at all: they are written beside their place and renamed. Where the disk, a quota
or a limit is against that, a WriteError says what to do, and what was there before is there still."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import GraphRuntimeError, WriteError

__all__ = ["told", "write_whole", "writing"]

_ADVICE = {
    errno.ENOSPC: "free some of it, or choose another place",
    errno.EDQUOT: "delete files that count to it, or choose another place",
    errno.EFBIG: "this process may not write larger files (ulimit -f), or the file system holds none",
    errno.EACCES: "choose a place that you may write to",
    errno.EPERM: "choose a place that you may write to",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOMEM: "the host has no more memory, or this process may not have it (ulimit -v)",
}


@contextmanager
def told(path: str | os.PathLike[str], hint: str = "") -> Iterator[None]:
    """OSError of writing what will be ``path`` becomes a WriteError, which says what to do: ``hint`` too."""
    try:
        yield
    except OSError as error:
        if isinstance(error, GraphRuntimeError):
            raise
        advice = _ADVICE.get(error.errno or 0, "")
        texts = [text for text in (f"cannot write {path}: {error.strerror or error}", advice, hint) if text]
        raise WriteError("; ".join(texts), errno=error.errno, got=str(path)) from None


@contextmanager
def writing(
    path: str | os.PathLike[str],
    mode: int = 0o666,
    *,
    hint: str = "",
    through: bool = False,
    parents: bool = False,
) -> Iterator[Path]:
    """A name beside ``path`` to write to; it becomes ``path`` at once when the block ends well, and is gone
    otherwise. ``mode`` of a new file, as far as the umask lets it; an older file's stays.

    ``parents``: its folders are made. A link is followed. A device or a pipe is written to where
    ``through``, else refused, because it would be replaced by a file. Raises WriteError; OSError of the block
    becomes one.
    """
    path = Path(path)
    with told(path, hint):
        if path.exists() and not path.is_file():
            if not through or path.is_dir():
                raise WriteError(
                    f"cannot write {path}: it is no regular file and is not replaced",
                    errno=errno.EISDIR if path.is_dir() else errno.EEXIST,
                    got=str(path),
                )
            yield path
            return
        target = Path(os.path.realpath(path))
        if target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name[:200]}.{os.urandom(6).hex()}")
        try:
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode))
            yield part
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)


def write_whole(
    path: str | os.PathLike[str],
    data: bytes | bytearray | memoryview,
    mode: int = 0o666,
    *,
    hint: str = "",
    through: bool = False,
    parents: bool = False,
) -> None:
    """Write a file as ``writing`` does."""
    with writing(path, mode, hint=hint, through=through, parents=parents) as part, part.open("wb") as file:
        file.write(data)
