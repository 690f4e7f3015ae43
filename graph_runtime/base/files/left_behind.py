"""Folders of killed processes, and the processes that still write into them: both are removed here.

    hold(folder)           this process holds the folder until it ends or closes the descriptor
    sweep(parent)          remove the folders that no process holds

As a script, with a pipe for standard input and ``parent`` as argument, this module sweeps as soon as the
process at the pipe's other end is gone. It sweeps again while a folder is left whose process is gone: a child
of that process may hold the folder and write to it until the child ends, which takes a while on a busy
machine. Folders of processes that live are not waited for. So that it runs as
a script, this module imports the standard library alone."""

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

PREFIX = "graph_runtime."  # how the folders' names begin
_TRIES, _PAUSE = 100, 0.05  # number of looks for processes that still write, and seconds between two looks
_SWEEPS, _BETWEEN = 60, 1.0  # number of sweeps of a watcher, and seconds between two sweeps


def hold(folder: Path) -> int | None:
    """The descriptor by which this process holds a folder; None if the folder is gone, or another process
    holds it."""
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
    """Kill the processes that write into the folders in ``parent`` that no process holds, and remove these
    folders. Only folders of this user that no other user can enter are looked at."""
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
    """Kill the processes that write into a folder: for example processes of Ray, some of which outlive the
    process that started them."""
    for _ in range(_TRIES):
        found = list(_writers(os.path.realpath(folder) + os.sep))
        if not found:
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def _writers(inside: str) -> Iterator[int]:
    """Ids of the processes that have a file of a folder, perhaps a deleted one, open for writing."""
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal() and int(entry.name) != os.getpid() and _writes(entry.path, inside):
                yield int(entry.name)


def _writes(process: str, inside: str) -> bool:
    with contextlib.suppress(OSError), os.scandir(f"{process}/fd") as files:  # ended, or another user's
        for file in files:
            with contextlib.suppress(OSError):
                writable = file.stat(follow_symlinks=False).st_mode & stat.S_IWUSR
                if writable and os.readlink(file.path).startswith(inside):
                    return True
    return False


def _is_left(folder: Path) -> bool:
    """Whether the process that took a folder's lock is gone. A child may have inherited the descriptor, and
    then keeps holding the lock; /proc/locks names the process that took the lock."""
    with contextlib.suppress(OSError):
        inode = str(folder.stat().st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode:
                return not Path("/proc", words[4]).exists()
    return folder.exists()


if __name__ == "__main__":
    sys.stdin.buffer.read()
    for _ in range(_SWEEPS):
        sweep(Path(sys.argv[1]))
        if not any(map(_is_left, _own_folders(Path(sys.argv[1])))):
            break
        time.sleep(_BETWEEN)
