"""Folders that only their user can write to: what is found there, that user put there.

A folder is so where it is the user's and others may not write to it, and where they cannot put another one in
its place: each folder on the way belongs to the user or to root, and others may write there only where the
sticky bit keeps them from renaming what is not theirs (/tmp).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["make_private", "why_not_private"]

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def why_not_private(folder: Path) -> str:
    """Why files of a folder that is there may be another's; "" where they are the user's. Raises OSError."""
    user = os.geteuid()
    for part in (folder, *folder.resolve().parents):
        state = part.stat()
        at = "" if part == folder else f"{part}, on the way to it, "
        if part == folder and not stat.S_ISDIR(state.st_mode):
            return "it is no folder"
        if state.st_uid != user and (part == folder or state.st_uid != 0):
            return f"{at or 'it '}belongs to user {state.st_uid}, not to user {user}"
        sticky = part != folder and state.st_mode & stat.S_ISVTX
        if state.st_mode & _BY_OTHERS and not sticky:
            return (
                f"{at or 'it '}may be written to by others (mode {stat.S_IMODE(state.st_mode):04o}: "
                f"chmod go-w {part})"
            )
    return ""


def make_private(folder: Path) -> str:
    """Make a folder for the user alone, and those on the way that are not there; why_not_private of it then,
    by whatever process it was made. Raises OSError."""
    for part in reversed((folder, *folder.parents)):
        if not part.exists():
            try:
                part.mkdir(0o700)
            except FileExistsError:  # another process was first
                continue
    return why_not_private(folder)
