"""Which cores the pool's threads stay on."""

from __future__ import annotations

import os

from ..errors import GraphRuntimeError

__all__ = ["pinned_cores"]


def pinned_cores(text: str) -> list[int]:
    """The cores that GR_PIN lists: "0,2,4-7", "all" for those that this process may use, "" for none. Raises
    GraphRuntimeError for another text."""
    if text == "all":
        return sorted(os.sched_getaffinity(0))
    cores: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and max(len(first), len(last)) < 5):
            raise GraphRuntimeError(
                f"GR_PIN={text!r} is no list of cores: {part!r}; give them as 0,2,4-7, or all", got=text
            )
        cores += range(int(first), int(last or first) + 1)
    return cores
