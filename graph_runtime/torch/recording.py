"""What a kernel of torch's does, noted while it is done for the first time, to be done again (repeats.py).

with recorded() as notes:     in this thread, until the end of the block
    ...                       store, content, direct and counters note what they do
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..run.tensors.tensor import Tensor

__all__ = ["Notes", "now", "recorded", "spoil"]


class Notes:
    """``steps``: (op, attributes, inputs, result) of each op that was launched, op None for memory of
    undefined values; ``constants``, which hang on numbers of the call alone; ``kept``: (Store, key, image) of
    each view that was kept; ``counts`` of events. ``spoiled``: what was done hangs on more than the call's
    signature says, or changed more than the steps do."""

    steps: list[tuple[str | None, tuple[Any, ...], tuple[Tensor, ...], Tensor]]
    constants: list[Tensor]
    kept: list[tuple[Any, Any, Tensor]]
    counts: Counter[str]
    spoiled: bool

    def __init__(self) -> None:
        self.steps, self.constants, self.kept = [], [], []
        self.counts, self.spoiled = Counter(), False


class _Now(threading.local):
    """``notes`` that this thread takes."""

    notes: Notes | None = None


now = _Now()


@contextmanager
def recorded() -> Iterator[Notes]:
    """Notes of what is done inside. Those of a block around it know nothing of that, and are spoiled."""
    spoil()
    outer, now.notes = now.notes, Notes()
    try:
        yield now.notes
    finally:
        now.notes = outer


def spoil() -> None:
    """What is done now hangs on values, or on what is known of them, or gives an argument another storage."""
    if now.notes is not None:
        now.notes.spoiled = True
