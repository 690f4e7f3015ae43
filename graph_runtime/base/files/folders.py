"""Folders that only their user can write to: what is found there, that user put there.

A folder is so where it is the user's and others may not write to it, and where they cannot put another one in
its place: each folder on the way belongs to the user or to root, and others may write there only where the
sticky bit keeps them from renaming what is not theirs (/tmp).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["make_private", "why_not_private", "why_replaceable"]

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def why_not_private(folder: Path) -> str:
    """Why files of a folder that is there may be another's; "" where they are the user's. Raises OSError."""
    user, state = os.geteuid(), folder.stat()
    if not stat.S_ISDIR(state.st_mode):
        return "it is no folder"
    if state.st_uid != user:
        return f"it belongs to user {state.st_uid}, not to user {user}"
    if state.st_mode & _BY_OTHERS:
        return f"it {_written_by_others(folder, state)}"
    return why_replaceable(folder)


def why_replaceable(folder: Path) -> str:
    """Why others may put another folder in the place of one that is there; "" where they may not. Raises
    OSError."""
    user = os.geteuid()
    for part in folder.resolve().parents:
        state = part.stat()
        if state.st_uid not in (user, 0):
            return f"{part}, on the way to it, belongs to user {state.st_uid}, not to user {user}"
        if state.st_mode & _BY_OTHERS and not state.st_mode & stat.S_ISVTX:
            return f"{part}, on the way to it, {_written_by_others(part, state)}"
    return ""


def _written_by_others(part: Path, state: os.stat_result) -> str:
    return f"may be written to by others (mode {stat.S_IMODE(state.st_mode):04o}: chmod go-w {part})"


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
