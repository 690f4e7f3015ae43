"""The folder of this process for all its temporary files: private to its user, removed with the process.

    temporary_folder()        the folder, as /tmp/graph_runtime.k3q9x1_a, made at the first call
    outlived(parent)          starts a watcher, which removes the folder if this process is killed

Folders of killed processes without a watcher are removed by the next process that starts a watcher."""

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

_TRIES = 8
_folders: dict[tuple[int, Path], Path] = {}  # by process id: a fork's child keeps its parent's
_watched: set[tuple[int, Path]] = set()


def temporary_folder(parent: Path | None = None) -> Path:
    """This process's temporary folder, in ``parent`` or by default in TMPDIR. Raises WriteError."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    key = os.getpid(), parent
    if key not in _folders:
        with told(parent, "TMPDIR chooses another folder for temporary files"):
            _folders[key] = _made(parent)
    return _folders[key]


def _made(parent: Path) -> Path:
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=left_behind.PREFIX, dir=parent))
        if left_behind.hold(folder) is not None:  # held until this process ends
            return folder
        if folder.exists():  # its file system has no locks, so no process sweeps it
            return folder
    raise WriteError(
        f"cannot write {parent}: other processes remove new folders there at once", got=str(parent)
    )


def outlived(parent: Path) -> None:
    """Sweep ``parent`` now, and from a watcher process after this process has ended, however it ends."""
    key = os.getpid(), parent
    if key in _watched:
        return
    _watched.add(key)
    left_behind.sweep(parent)
    reading, writing = os.pipe()  # the pipe's other end is open as long as this process lives
    os.set_inheritable(reading, True)
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    command = [sys.executable, "-I", "-S", left_behind.__file__, str(parent)]
    try:
        os.posix_spawn(
            sys.executable,
            command,
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
