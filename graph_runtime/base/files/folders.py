"""Folders that only their user can write to, so that all files there are that user's.

Such a folder belongs to the user, others may not write to it, and they cannot put another one in its place:
each parent belongs to the user or to root, and others may write there only if the sticky bit keeps them from
renaming files of other users (/tmp)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def why_not_private(folder: Path) -> str:
    """Text: why an existing folder may have files of another user; "" if all files in the folder are the
    user's. Raises OSError."""
    user, state = os.geteuid(), folder.stat()
    if not stat.S_ISDIR(state.st_mode):
        return "it is no folder"
    if state.st_uid != user:
        return f"it belongs to user {state.st_uid}, not to user {user}"
    if state.st_mode & _BY_OTHERS:
        return f"it {_written_by_others(folder, state)}"
    return why_replaceable(folder)


def why_replaceable(folder: Path) -> str:
    """Text: how other users could put another folder in the place of an existing folder; "" if they cannot.
    Raises OSError."""
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
    """Make a folder for the user alone, with missing parents. Returns why_not_private of the folder,
    whichever process made it. Raises OSError."""
    for part in reversed((folder, *folder.parents)):
        if not part.exists():
            try:
                part.mkdir(0o700)
            except FileExistsError:  # another process was first
                continue
    return why_not_private(folder)
