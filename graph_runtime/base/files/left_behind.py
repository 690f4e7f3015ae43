"""Folders of processes that were killed, and what still writes into them: both end here.

    hold(folder)           this process has the folder, until it ends or closes what it gets
    sweep(parent)          those folders go that no process has

As a program, with a pipe for standard input and ``parent`` as argument, it sweeps as soon as the process at
the pipe's other end is gone. So it imports the standard library alone, and nothing of this package.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PREFIX", "hold", "sweep"]

PREFIX = "graph_runtime."  # of the folders' names
_TRIES, _PAUSE = 100, 0.05  # looks at what still runs, seconds between two


def hold(folder: Path) -> int | None:
    """The descriptor by which this process has a folder; None where it is gone, or another process has it."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(held), os.lstat(folder)):
            return held
    except OSError:
        pass
    os.close(held)
    return None


def sweep(parent: Path) -> None:
    """End what writes into the folders in ``parent`` that no process has, and remove them: those alone that
    are this user's and that no other enters."""
    for folder in _own_folders(parent):
        held = hold(folder)
        if held is not None:
            try:
                _end_writers(folder)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(held)


def _own_folders(parent: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    private = stat.S_ISDIR(state.st_mode) and not state.st_mode & 0o077
                    if private and state.st_uid == os.geteuid():
                        yield Path(entry.path)


def _end_writers(folder: Path) -> None:
    """Kill the processes that write into a folder: some of Ray's outlive the one that started them."""
    for _ in range(_TRIES):
        found = list(_writers(os.path.realpath(folder) + os.sep))
        if not found:
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def _writers(inside: str) -> Iterator[int]:
    """Processes that have a file in a folder, or one that was there, open to write."""
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal() and int(entry.name) != os.getpid() and _writes(entry.path, inside):
                yield int(entry.name)


def _writes(process: str, inside: str) -> bool:
    with contextlib.suppress(OSError), os.scandir(f"{process}/fd") as files:  # it has ended, or is another's
        for file in files:
            with contextlib.suppress(OSError):
                writable = file.stat(follow_symlinks=False).st_mode & stat.S_IWUSR
                if writable and os.readlink(file.path).startswith(inside):
                    return True
    return False


if __name__ == "__main__":
    sys.stdin.buffer.read()
    sweep(Path(sys.argv[1]))
