"""Ray's folder: its sockets, logs and what it unpacks. Ray lets all users of the machine write to it (0777),
so it has to lie where none of them gets in.

    folder = new_folder()          for a Ray that is started here; it goes with this process
    require_closed_folder(session)    of a Ray that others started, on the machine where it is called
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...base.errors import ClusterError
from ...base.files.folders import why_not_private, why_replaceable
from ...base.files.temporary import outlived, temporary_folder

__all__ = ["new_folder", "private_files", "require_closed_folder", "socket_folder"]

_LONGEST = 107  # bytes of a Unix socket's path
# what Ray appends: its session by time and process, its longest socket, a number where there are many
_APPENDED = len("/session_2026-01-31_23-59-59_999999_4194304/sockets/plasma_store.99")
_OWN = len("/graph_runtime.12345678/ray")
_SHORT = "/tmp"  # where TMPDIR is long
_HOW = "start it with: (umask 077; mkdir -p FOLDER; ray start --temp-dir FOLDER/ray ...), on all machines"


def new_folder() -> Path:
    """A folder for a Ray of this machine's own, which no other user enters. Raises as socket_folder."""
    return socket_folder() / "ray"


def socket_folder() -> Path:
    """A folder that no other user enters, in which paths of sockets are short enough; it is gone when this
    process is, with what its Ray has left. Raises ClusterError, WriteError."""
    parents = [Path(tempfile.gettempdir()), Path(_SHORT)]
    fitting = [one for one in parents if len(os.fsencode(one)) + _OWN + _APPENDED <= _LONGEST]
    for parent in {parents[0], fitting[0]}:
        outlived(parent)
    folder = temporary_folder(fitting[0])
    if why := why_not_private(folder):
        raise ClusterError(f"{folder}: {why}; TMPDIR chooses another place", got=str(folder))
    return folder


@contextlib.contextmanager
def private_files(folder: Path) -> Iterator[None]:
    """A block in which a Ray is started, or ended, whose files lie in ``folder``, and the temporary ones of
    its processes beside it; all are this user's alone."""
    # Ray's own RAY_TMPDIR, and not an argument: it has a file with its address there, too
    own = {"RAY_TMPDIR": str(folder.parent), "TMPDIR": str(folder.parent)}
    before, umask = {name: os.environ.get(name) for name in own}, os.umask(0o077)
    os.environ.update(own)
    try:
        yield
    finally:
        os.umask(umask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def require_closed_folder(session: Path) -> None:
    """See to it that no other user enters the folder of a Ray's session on this machine: where all in it is
    this user's, it is closed. Raises ClusterError, with what to do, where it is not: others could change what
    its processes write, and where they connect."""
    top = session.parent
    if any(_closed(part) for part in (session, *session.parents)):
        return
    if why := why_replaceable(top) or _strangers(top, session):
        text = f"other users of {os.uname().nodename} can write to Ray's folder {session}: {why}; {_HOW}"
        raise ClusterError(text, got=str(session))
    top.chmod(0o700)
    if found := _strangers(top, session):  # another user was faster
        text = f"other users of {os.uname().nodename} have written to Ray's folder {session}: {found}; {_HOW}"
        raise ClusterError(text, got=str(session))


def _closed(part: Path) -> bool:
    """Whether only this user enters a folder, and no other can put one in its place."""
    state = part.stat()
    own = state.st_uid == os.geteuid() and not state.st_mode & 0o077
    return own and not why_not_private(part)


def _strangers(top: Path, session: Path) -> str:
    """What in Ray's folder belongs to another user, "" where nothing does."""
    user = os.geteuid()
    for path in (top, *top.glob("*"), *session.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            if (owner := path.lstat().st_uid) != user:
                return f"{path} belongs to user {owner}"
    return ""
