"""Locks that are unlocked in a child of fork: the parent's threads that may hold them do not exist in the
child.

Use these locks only for tables in which a child of fork sees each entry whole or not at all."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A threading.Lock that is unlocked in a child of fork."""
    return _known(threading.Lock())


def new_rlock() -> threading.RLock:
    """A threading.RLock that is unlocked in a child of fork."""
    return _known(threading.RLock())


def _known(lock: Any) -> Any:
    _locks.add(lock)
    return lock


def _open_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # threading and logging reset their own locks in the same way


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
