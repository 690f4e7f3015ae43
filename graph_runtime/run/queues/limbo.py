"""Limbo: what C still needs of objects that Python dropped, kept until the work is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["keep_until", "sweep"]

_limbo: deque[tuple[Callable[[], bool], Callable[[], None], object]] = deque()


def keep_until(over: Callable[[], bool], end: Callable[[], None], *owners: object) -> None:
    """Keep ``owners`` alive until ``over()``, then call ``end()``. Looked at when others come."""
    _limbo.append((over, end, owners))
    if len(_limbo) > 64:
        sweep()


def sweep() -> bool:
    """Let go of what is over, and say whether there was any. Any thread, also while another does."""
    ended = False
    for _ in range(len(_limbo)):
        try:
            over, end, owners = _limbo.popleft()
        except IndexError:  # another thread was faster
            break
        if over():
            end()
            ended = True
        else:
            _limbo.append((over, end, owners))
    return ended
