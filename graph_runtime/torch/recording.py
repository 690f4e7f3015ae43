"""Notes of what a kernel of torch does in its first call, from which the call is repeated (repeats.py).

with recorded() as notes:     notes are taken in this thread, until the end of the block
    ...                       store, content, direct and counters add to the notes
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..run.tensors.tensor import Tensor


class Notes:
    """What a call did.

    ``steps``: (op, attributes, inputs, result) of each launched op; the op is None for memory of undefined
    values.
    ``constants``: values that depend only on numbers in the call.
    ``kept``: (Store, key, image) of each view that was kept.
    ``counts``: numbers of events.
    ``spoiled``: whether the work depends on more than the call's signature, or has effects beyond the steps.
    """

    steps: list[tuple[str | None, tuple[Any, ...], tuple[Tensor, ...], Tensor]]
    constants: list[Tensor]
    kept: list[tuple[Any, Any, Tensor]]
    counts: Counter[str]
    spoiled: bool

    def __init__(self) -> None:
        self.steps, self.constants, self.kept = [], [], []
        self.counts, self.spoiled = Counter(), False


class _Now(threading.local):
    """``notes``: the Notes that this thread is taking; None if it takes none."""

    notes: Notes | None = None


now = _Now()


@contextmanager
def recorded() -> Iterator[Notes]:
    """Notes of the work inside of the block. If blocks are nested, the outer notes miss the inner work and
    are spoiled."""
    spoil()
    outer, now.notes = now.notes, Notes()
    try:
        yield now.notes
    finally:
        now.notes = outer


def spoil() -> None:
    """Mark this thread's notes as spoiled, because the work depends on values or on what is known of them, or
    replaces an argument's storage."""
    if now.notes is not None:
        now.notes.spoiled = True
