"""The folder of this process, for all its temporary files: its user's alone, and gone with the process.

    temporary_folder()        /tmp/graph_runtime.k3q9x1_a, made when it is first asked for
    outlived(parent)          a watcher removes it, too, where this process is killed

What a killed process without a watcher leaves is removed by the next one that starts a watcher.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ..errors import WriteError
from . import left_behind
from .writing import told

__all__ = ["outlived", "temporary_folder"]

_TRIES = 8
_folders: dict[tuple[int, Path], Path] = {}  # by process: a child of fork must not remove its parent's
_watched: set[tuple[int, Path]] = set()


def temporary_folder(parent: Path | None = None) -> Path:
    """The folder, in TMPDIR or in ``parent``. Raises WriteError."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    key = os.getpid(), parent
    if key not in _folders:
        with told(parent, "TMPDIR chooses another folder for temporary files"):
            _folders[key] = _made(parent)
    return _folders[key]


def _made(parent: Path) -> Path:
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=left_behind.PREFIX, dir=parent))
        if left_behind.hold(folder) is not None:  # until this process ends
            return folder
        if folder.exists():  # a file system without locks: then nothing is swept there
            return folder
    raise WriteError(f"cannot write {parent}: other processes remove what is new there", got=str(parent))


def outlived(parent: Path) -> None:
    """Sweep ``parent`` now, and by a process of its own once this one has ended, however it ends."""
    key = os.getpid(), parent
    if key in _watched:
        return
    _watched.add(key)
    left_behind.sweep(parent)
    reading, writing = os.pipe()  # whose other end is open as long as this process
    os.set_inheritable(reading, True)
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    program = [sys.executable, "-I", "-S", left_behind.__file__, str(parent)]
    try:
        os.posix_spawn(
            sys.executable,
            program,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_CLOSE, reading), *quiet],
            setsid=True,
        )
    except OSError:
        os.close(writing)
        raise
    finally:
        os.close(reading)


@atexit.register
def _remove() -> None:
    own = [key for key in _folders if key[0] == os.getpid()]
    for key in own:
        shutil.rmtree(_folders.pop(key), ignore_errors=True)
