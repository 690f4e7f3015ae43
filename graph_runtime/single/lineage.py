"""Lineage: how the outputs of queued ops were made, kept until it is known that they were.

A kernel that fails at run time is noticed where somebody waits for its output, or for what was made of it.
Until then each output keeps its recipe, (who can make it again, the inputs), and with it the inputs alive.
``watch`` lets go of the recipes of ops that are over, and makes again what failed: so a chain of ops, however
long, keeps only what is still queued.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any, Protocol

from .. import core
from ..errors import GraphRuntimeError, HandleError
from . import policy

__all__ = ["Maker", "recover", "settle_all", "watch"]

_pending, _failure, _NULL = core.lib.gr_buffer_pending, core.lib.gr_buffer_failure, core.ffi.NULL
_MOST = 32  # outputs that are not looked at yet
_queued: deque[weakref.ref] = deque()
_recovering = threading.RLock()


class Maker(Protocol):
    """Who stands first in a recipe."""

    def make_again(self, tensor: Any, inputs: tuple[Any, ...], cause: Exception | None) -> None:
        """Give ``tensor`` the values it should have, from inputs that have theirs. ``cause`` is why it
        did not get them, None where only an input failed."""


def watch(tensor: Any) -> None:
    """Look at this tensor, which has a recipe, when a few more were queued. Any thread."""
    _queued.append(weakref.ref(tensor))
    if len(_queued) > _MOST:
        _sweep()


def _sweep() -> None:
    """From the oldest on, as far as ops are over."""
    while _queued:
        try:
            ref = _queued.popleft()
        except IndexError:  # another thread was faster
            return
        tensor = ref()
        if tensor is None or tensor._recipe is None:
            continue
        pointer = getattr(tensor.buffer, "pointer", None)
        if pointer is not None and _pending(pointer, 0):
            _queued.appendleft(ref)
            return
        if pointer is None or not _failure(pointer, _NULL):
            tensor._recipe = None
        elif not policy.is_strict():
            try:
                recover(tensor)
            except (GraphRuntimeError, ArithmeticError, LookupError, TypeError):
                pass  # raised again where somebody waits for the tensor


def settle_all() -> None:
    """Wait for everything that is queued, and let go of what it keeps alive: when memory is short."""
    for ref in list(_queued):
        tensor = ref()
        if tensor is not None and tensor._recipe is not None and tensor.buffer is not None:
            try:
                tensor.wait()
            except (GraphRuntimeError, ArithmeticError, LookupError, TypeError):
                pass  # as above
    _queued.clear()


def recover(tensor: Any) -> bool:
    """Make a tensor whose buffer failed again, after those of its inputs that failed too, oldest first; False
    where nobody knows how. One thread at a time.

    Raises what its maker raises: the host's error where the host cannot do it either.
    """
    with _recovering:
        stack, recipes = [(tensor, False)], {}
        while stack:  # no recursion: chains are long
            at, inputs_done = stack.pop()
            if inputs_done:
                _make_again(at, recipes)
            elif id(at) not in recipes and _has_failed(at) and at._recipe is not None:
                recipes[id(at)] = at._recipe
                stack.append((at, True))
                stack.extend((source, False) for source in at._recipe[1])
        return not _has_failed(tensor)


def _make_again(tensor: Any, recipes: dict[int, Any]) -> None:
    maker, inputs = recipes[id(tensor)]
    failure = tensor.buffer.failure
    cause = None if any(id(source) in recipes for source in inputs) else failure
    try:
        maker.make_again(tensor, inputs, cause)
    except HandleError as error:  # an input was deallocated meanwhile
        raise failure from error
    tensor._recipe = None


def _has_failed(tensor: Any) -> bool:
    """Whether the queued work that should have written it failed; waits for it."""
    buffer = tensor.buffer
    if buffer is None:
        return False
    try:
        buffer.wait()
    except GraphRuntimeError:
        return True
    return False
