"""Progress of long steps, and a pause of garbage collection during them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[str, int, int], None]  # (name of the step, parts done, all parts: 0 if unknown)
Count = Callable[[int, int], None]  # (number of parts done, number of all parts) of one step


def silent(what: str, done: int, total: int) -> None:
    """A Tell that does nothing."""


def uncounted(done: int, total: int) -> None:
    """A Count that does nothing."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Switch off garbage collection inside the block: loading and rewriting make many objects and no garbage,
    so collections would only cost time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
