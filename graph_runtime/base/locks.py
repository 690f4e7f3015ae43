"""Locks that a child of fork finds open: its parent's threads, which may hold them, are not there to let go.

What they guard are tables of which a child sees each entry whole or not at all.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["new_lock", "new_rlock"]

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A threading.Lock."""
    return _known(threading.Lock())


def new_rlock() -> threading.RLock:
    """A threading.RLock."""
    return _known(threading.RLock())


def _known(lock: Any) -> Any:
    _locks.add(lock)
    return lock


def _open_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # as threading's and logging's own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
