"""Limbo: objects that Python has dropped and C still needs, kept until the work is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_limbo: deque[tuple[Callable[[], bool], Callable[[], None], object]] = deque()


def keep_until(over: Callable[[], bool], end: Callable[[], None], *owners: object) -> None:
    """Keep ``owners`` alive until ``over()`` is true, then call ``end()``. ``over`` is called each time that
    further objects are added."""
    _limbo.append((over, end, owners))
    if len(_limbo) > 64:
        sweep()


def sweep() -> bool:
    """Drop the objects whose work is over. Returns whether there were any. Several threads may call this at
    once."""
    ended = False
    for _ in range(len(_limbo)):
        try:
            over, end, owners = _limbo.popleft()
        except IndexError:  # another thread has taken the last item
            break
        if over():
            end()
            ended = True
        else:
            _limbo.append((over, end, owners))
    return ended
