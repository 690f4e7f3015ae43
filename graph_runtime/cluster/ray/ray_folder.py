"""Ray's folder: its sockets, logs and unpacked files. Ray lets all users of the machine write to it (0777),
so the folder above it must be closed to other users.

    folder = new_folder()          for a Ray started here; deleted when this process ends
    require_closed_folder(session)    for a Ray started elsewhere; checks it on this machine
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

_LONGEST = 107  # most bytes of a Unix socket's path
# the longest text that Ray appends to the path of its folder: its session, named by time and process; its
# longest socket name; a number if there are many sockets
_APPENDED = len("/session_2026-01-31_23-59-59_999999_4194304/sockets/plasma_store.99")
_OWN = len("/graph_runtime.12345678/ray")
_SHORT = "/tmp"  # folder that is used if the path in TMPDIR is too long
_HOW = "start it with: (umask 077; mkdir -p FOLDER; ray start --temp-dir FOLDER/ray ...), on all machines"


def new_folder() -> Path:
    """The path of a folder for this machine's own Ray, closed to other users. Raises as socket_folder."""
    return socket_folder() / "ray"


def socket_folder() -> Path:
    """A new folder that is closed to other users, and in which paths of sockets are short enough. It is
    deleted when this process ends, with the files that Ray has left in it. Raises ClusterError, WriteError.
    """
    parents = [Path(tempfile.gettempdir()), Path(_SHORT)]
    fitting = [one for one in parents if len(os.fsencode(one)) + _OWN + _APPENDED <= _LONGEST]
    for parent in {parents[0], fitting[0]}:
        outlived(parent)
    folder = temporary_folder(fitting[0])
    if why := why_not_private(folder):
        raise ClusterError(f"{folder}: {why}; set TMPDIR to another folder", got=str(folder))
    return folder


@contextlib.contextmanager
def private_files(folder: Path) -> Iterator[None]:
    """A block in which a Ray is started or ended. Ray's files are in ``folder``, temporary files of its
    processes beside that folder, and only this user can read them."""
    # the variable RAY_TMPDIR is used, and no argument of Ray's, because the argument also moves the file that
    # contains Ray's address
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
    """Ensure that no other user can enter the folder of a Ray session on this machine. An open folder is
    closed if all files in it are this user's. If not, raises ClusterError, with the remedy, because others
    could change the files that Ray's processes write, and the addresses to which they connect."""
    top = session.parent
    if any(_closed(part) for part in (session, *session.parents)):
        return
    if why := why_replaceable(top) or _strangers(top, session):
        text = f"other users of {os.uname().nodename} can write to Ray's folder {session}: {why}; {_HOW}"
        raise ClusterError(text, got=str(session))
    top.chmod(0o700)
    if found := _strangers(top, session):  # another user has written a file before the folder was closed
        text = f"other users of {os.uname().nodename} have written to Ray's folder {session}: {found}; {_HOW}"
        raise ClusterError(text, got=str(session))


def _closed(part: Path) -> bool:
    """Whether only this user can enter a folder, and no other user can replace it."""
    state = part.stat()
    own = state.st_uid == os.geteuid() and not state.st_mode & 0o077
    return own and not why_not_private(part)


def _strangers(top: Path, session: Path) -> str:
    """ "PATH belongs to user N" for a path in Ray's folder that is another user's; "" if there is none."""
    user = os.geteuid()
    for path in (top, *top.glob("*"), *session.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            if (owner := path.lstat().st_uid) != user:
                return f"{path} belongs to user {owner}"
    return ""
