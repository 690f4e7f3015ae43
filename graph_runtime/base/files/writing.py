"""Files appear whole or not at all: they are written under another name and renamed. If the disk, a quota or
a limit prevents the writing, a WriteError says what to do, and the earlier file is unchanged."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import GraphRuntimeError, WriteError

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
    """Turn an OSError raised while writing ``path`` into a WriteError with advice and ``hint``."""
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
    """A temporary name beside ``path`` to write to; it becomes ``path`` when the block succeeds and is
    removed otherwise. ``mode``: permissions of a new file, within the umask; an existing file keeps its own.
    ``parents``: make missing folders of ``path``. A link is followed. A device or a pipe is written to
    directly if ``through``, and refused otherwise, because the renamed file would replace it. Raises
    WriteError, also in place of an OSError of the block."""
    path = Path(path)
    with told(path, hint):
        if path.exists() and not path.is_file():
            if not through or path.is_dir():
                text = f"cannot write {path}: it is no regular file and is not replaced"
                raise WriteError(text, errno=errno.EISDIR if path.is_dir() else errno.EEXIST, got=str(path))
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
    """Write ``data`` to a file as ``writing`` does."""
    with writing(path, mode, hint=hint, through=through, parents=parents) as part, part.open("wb") as file:
        file.write(data)
