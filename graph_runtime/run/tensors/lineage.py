"""Lineage: how the outputs of queued ops are made, kept until they are known to be there.

A kernel that fails at run time is noticed when a caller waits for its output, or for a result made from the
output. Until then each output keeps its recipe, (its Maker, the inputs), which keeps the inputs alive.
``watch`` drops the recipes of ops that are over, and makes failed results again. So a chain of ops, however
long, keeps only tensors that are still queued. After a large op a caller is at most _FEW ops ahead of the
device, even if the caller has dropped their outputs: more queued ops would hold memory and save no time."""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from typing import Any, Protocol

from ...base.errors import GraphRuntimeError, HandleError, afresh
from ...base.locks import new_rlock
from ...binding import core
from ..device_handles import DeviceHandle
from ..queues.buffer import wait_within
from . import journal

_pending, _failure, _NULL = core.lib.gr_buffer_pending, core.lib.gr_buffer_failure, core.ffi.NULL
_MOST = 32  # most outputs of a device that are not looked at yet
_FEW = 8  # the same limit after a large op
_queued: defaultdict[DeviceHandle, deque[weakref.ref[Any]]] = defaultdict(deque)
_recovering = new_rlock()
_active = False  # whether a thread is in recover()
_refused: list[weakref.ref[Any]] = []  # outputs that failed while the host was forbidden to make them again


class Maker(Protocol):
    """The first part of a recipe, which makes an output again."""

    def make_again(self, tensor: Any, inputs: tuple[Any, ...]) -> Any:
        """A tensor with the values that ``tensor`` should have, made from inputs that have their values."""


def watch(tensor: Any, large: bool = False) -> None:
    """Look at this tensor, which has a recipe, after a few more tensors were queued. ``large``: the tensor
    and its recipe keep much memory, so wait until few queued ops are left. Any thread may call this."""
    handle = tensor._handle
    queued = _queued[handle]
    queued.append(weakref.ref(tensor))
    if large:
        wait_within(handle, _FEW)
    if len(queued) > (_FEW if large else _MOST) and not _active:  # not in recover(), which launches, too
        _sweep(queued)


def _sweep(queued: deque[weakref.ref[Any]]) -> None:
    """Drop recipes of ops that are over, the oldest first, up to the first op that is still queued. Failed
    outputs are made again."""
    while queued:
        try:
            ref = queued.popleft()
        except IndexError:  # another thread has taken the last item
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
    """Wait for all queued ops, so that the memory that they keep alive can be freed; used when memory is
    short. ``tell``: whether to raise the first failure."""
    found = _unsettled()
    _refused.clear()
    for tensor, _ in found:
        if not tell:
            _settle(tensor)
            continue
        try:
            tensor.wait()
        except HandleError:  # it was given up, or its device was closed: no failure
            tensor._recipe = None


def before_write(tensor: Any) -> Any:
    """Prepare to overwrite the memory of this tensor: results made from its values are waited for, because
    they cannot be made again afterwards. A view of a constant that several modules share moves to memory of
    its own module. Returns the Buffer with the events of the memory to write."""
    leave = getattr(tensor._owner, "leave", None)
    if leave is not None:
        leave(tensor)
    owner = tensor._owner
    for reader, recipe in _unsettled():
        if reader is not tensor and any(source._owner is owner for source in recipe[1]):
            _settle(reader)
    return tensor._events


def replace(tensor: Any, old: Any) -> None:
    """Note that the handle ``tensor`` will lead to other values: from now on, recipes that read it read
    ``old`` instead."""
    for reader, (maker, inputs) in _unsettled():
        if any(source is tensor for source in inputs):
            reader._recipe = (maker, tuple([old if source is tensor else source for source in inputs]))


def _unsettled() -> list[tuple[Any, tuple[Maker, tuple[Any, ...]]]]:
    """(tensor, recipe) of the tensors whose values are not known to be there yet."""
    refs = [*_refused, *(ref for queued in list(_queued.values()) for ref in list(queued))]
    alive = [tensor for tensor in [ref() for ref in refs] if tensor is not None]
    return [(tensor, recipe) for tensor, recipe in [(t, t._recipe) for t in alive] if recipe is not None]


def _settle(tensor: Any) -> None:
    try:
        tensor.wait()
    except (GraphRuntimeError, ArithmeticError, LookupError, TypeError):
        pass  # raised again when a caller waits for the tensor


def recover(tensor: Any) -> bool:
    """Make a failed tensor again, after its failed inputs, the oldest first. Returns whether the tensor has
    its values now. Only one thread at a time does this. Raises the errors of the tensor's maker: the host's
    error if the host cannot do the op either."""
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
    while stack:  # a stack, because chains are too long for recursion
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
    except HandleError as error:  # another thread deallocated an input meanwhile
        raise afresh(failure) from error
    tensor.remade(made, recipe)


def _has_failed(tensor: Any) -> bool:
    """Whether the queued work that should have written the tensor failed. Waits for that work."""
    buffer = tensor.buffer
    if buffer is None:
        return False
    try:
        buffer.wait()
    except GraphRuntimeError:
        return True
    return False


journal.settlers.append(settle_all)
