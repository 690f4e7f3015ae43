"""Lineage: how the outputs of queued ops were made, kept until it is known that they were.

A kernel that fails at run time is noticed when a caller waits for its output, or for what was made of it.
Until then each output keeps its recipe, (its Maker, the inputs), and with it the inputs alive.
``watch`` lets go of the recipes of ops that are over, and makes again what failed: so a chain of ops, however
long, keeps only what is still queued. After a large op a caller is at most _FEW ops ahead of the device,
also where he dropped their outputs: what more would be queued would hold memory, and hide no time.
"""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from typing import Any, Protocol

from ...base.errors import GraphRuntimeError, HandleError, afresh
from ...base.locks import new_rlock
from ...binding import core
from ..device_handles import DeviceHandle
from ..queues.marks import wait_within
from . import journal

__all__ = ["Maker", "before_write", "recover", "replace", "settle_all", "watch"]

_pending, _failure, _NULL = core.lib.gr_buffer_pending, core.lib.gr_buffer_failure, core.ffi.NULL
_MOST = 32  # outputs of a device that are not looked at yet
_FEW = 8  # of them, when one more that is large is queued
_queued: defaultdict[DeviceHandle, deque[weakref.ref[Any]]] = defaultdict(deque)
_recovering = new_rlock()
_active = False  # a thread is in recover()
_refused: list[weakref.ref[Any]] = []  # outputs that failed while the host was forbidden to make them again


class Maker(Protocol):
    """The first part of a recipe: it can make the output again."""

    def make_again(self, tensor: Any, inputs: tuple[Any, ...]) -> Any:
        """A tensor with the values that ``tensor`` should have, from inputs that have theirs."""


def watch(tensor: Any, large: bool = False) -> None:
    """Look at this tensor, which has a recipe, when a few more were queued. ``large``: it and its recipe keep
    much memory, so wait for ops before it until few are left. Any thread."""
    handle = tensor._handle
    queued = _queued[handle]
    queued.append(weakref.ref(tensor))
    if large:
        wait_within(handle, _FEW)
    if len(queued) > (_FEW if large else _MOST) and not _active:  # recover() launches, too
        _sweep(queued)


def _sweep(queued: deque[weakref.ref[Any]]) -> None:
    """From the oldest on, as far as ops are over."""
    while queued:
        try:
            ref = queued.popleft()
        except IndexError:  # another thread was faster
            return
        tensor = ref()
        if tensor is None or tensor._recipe is None:
            continue
        pointer = getattr(tensor.buffer, "pointer", None)
        if pointer is not None and _pending(pointer, 0):
            queued.appendleft(ref)
            return
        if pointer is None or not _failure(pointer, _NULL):
            tensor._recipe = None
        elif journal.forbidden():
            _refused.append(ref)
        else:
            try:
                recover(tensor)
            except (GraphRuntimeError, ArithmeticError, LookupError, TypeError):
                pass  # raised again when a caller waits for the tensor


def settle_all(tell: bool = False) -> None:
    """Wait for everything that is queued, and let go of what it keeps alive: when memory is short. ``tell``:
    and raise the first failure."""
    found = _unsettled()
    _refused.clear()
    for tensor, _ in found:
        if not tell:
            _settle(tensor)
            continue
        try:
            tensor.wait()
        except HandleError:  # it was given up, or ended with its device: nothing failed
            tensor._recipe = None


def before_write(tensor: Any) -> Any:
    """The memory of this tensor will be overwritten: what is made of it cannot be made again afterwards. A
    view of a constant that several modules share leads to memory of its own module from now on. Returns the
    Buffer with the events of what is written."""
    leave = getattr(tensor._owner, "leave", None)
    if leave is not None:
        leave(tensor)
    owner = tensor._owner
    for reader, recipe in _unsettled():
        if reader is not tensor and any(source._owner is owner for source in recipe[1]):
            _settle(reader)
    return tensor._events


def replace(tensor: Any, old: Any) -> None:
    """The handle will lead to other values: what was made of its values is made of those of ``old``."""
    for reader, (maker, inputs) in _unsettled():
        if any(source is tensor for source in inputs):
            reader._recipe = (maker, tuple([old if source is tensor else source for source in inputs]))


def _unsettled() -> list[tuple[Any, tuple[Maker, tuple[Any, ...]]]]:
    """Tensors of which it is not known yet that they were made, and their recipes."""
    refs = [*_refused, *(ref for queued in list(_queued.values()) for ref in list(queued))]
    alive = [tensor for tensor in [ref() for ref in refs] if tensor is not None]
    return [(tensor, recipe) for tensor, recipe in [(t, t._recipe) for t in alive] if recipe is not None]


def _settle(tensor: Any) -> None:
    try:
        tensor.wait()
    except (GraphRuntimeError, ArithmeticError, LookupError, TypeError):
        pass  # raised again when a caller waits for the tensor


def recover(tensor: Any) -> bool:
    """Make a tensor whose buffer failed again, after those of its inputs that failed too, oldest first; False
    where it has no recipe. One thread at a time.

    Raises what its maker raises: the host's error where the host cannot do it either.
    """
    global _active
    if tensor._recipe is None:
        return not _has_failed(tensor)
    with _recovering:
        before, _active = _active, True
        try:
            _recover(tensor)
            return not _has_failed(tensor)
        finally:
            _active = before


def _recover(tensor: Any) -> None:
    stack: list[tuple[Any, bool]] = [(tensor, False)]
    recipes: dict[Any, Any] = {}
    while stack:  # no recursion: chains are long
        at, inputs_done = stack.pop()
        if inputs_done:
            _make_again(at, recipes)
        elif id(at) not in recipes and _has_failed(at) and at._recipe is not None:
            recipes[id(at)] = at._recipe
            stack.append((at, True))
            stack.extend((source, False) for source in at._recipe[1])


def _make_again(tensor: Any, recipes: dict[int, Any]) -> None:
    recipe = maker, inputs = recipes[id(tensor)]
    failure = tensor.buffer.failure
    try:
        made = maker.make_again(tensor, inputs)
    except HandleError as error:  # an input was deallocated meanwhile
        raise afresh(failure) from error
    tensor.remade(made, recipe)


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


journal.settlers.append(settle_all)
