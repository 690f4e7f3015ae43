"""Buffer: a block of device memory and the queued work that uses it (native/include/gr_async.h).

    Buffer.alloc(handle, memory, extent, holder)      memory of a device, given back with its last holder
    Buffer.to_write(handle, memory, extent, holder)   the same, for the host to write now
    Buffer.borrow(handle, addr, extent, owner)        memory of another owner, which is kept alive
    buffer.writing()                                  the host's turn to write: waits for queued work

Every write of the host's own instructions goes through a ``Writing``: when there is one, queued work uses
the block no longer. In guard mode a block without one is read-only to the process.

Freeing never waits: a block goes back together with its events, and its next user waits for them. What C
still needs of an object that Python dropped waits in limbo until the work is over.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any

from ...base.errors import (
    DeviceError,
    DeviceMemoryError,
    GraphRuntimeError,
    InputError,
    KernelError,
    RunCancelledError,
    WaitTimeoutError,
    throw,
)
from ...binding import core
from ...binding.core import ffi, lib
from ..device_handles import DeviceHandle
from .limbo import keep_until, sweep

__all__ = ["Buffer", "Writing", "check_timeout", "error_of", "reserved", "wait_in_slices", "with_room"]

_SLICE_NS = 50_000_000  # C comes back after this long, so that a signal (Ctrl-C) is seen
_PATIENCE = 4096  # more than may be in flight at a time
_AGES = 1e9  # seconds; more is no limit
_OUT_OF_MEMORY, _INTERRUPTED = lib.GR_ERR_OUT_OF_MEMORY, lib.GR_INTERRUPTED
_alloc, _release, _addr = lib.gr_buffer_alloc, lib.gr_buffer_release, lib.gr_buffer_addr
_return = lib.gr_buffer_return
_pending, _gc = lib.gr_buffer_pending, ffi.gc
_write, _written = lib.gr_buffer_write, lib.gr_buffer_written


class Buffer:
    """A block of a device's memory.

    ``handle`` the opened device, ``memory`` the index of its memory, ``addr`` and ``extent`` (bytes; per bank
    on tt), ``id`` a number never used twice, ``pointer`` the ``gr_buffer *``, ``overwrites``: see
    run/tensors/donated.py, ``replaced``: whether another Buffer has the block now (``renewed``). Every holder
    keeps the block; ``free`` gives it up for all of them.

    ``pointer`` holds the reference of C's, and is itself held by every call that was given it: what another
    thread drops or frees meanwhile is released when that call is over. A caller that puts it into an array of
    C's keeps it beside the array.
    """

    __slots__ = ("__weakref__", "extent", "handle", "memory", "overwrites", "owner", "pointer", "replaced")

    extent: int
    handle: DeviceHandle
    memory: int
    owner: object
    replaced: bool
    pointer: None

    def __init__(self, handle: DeviceHandle, memory: int, extent: int, pointer: Any, owner: object = None):
        self.handle, self.memory, self.extent, self.owner = handle, memory, extent, owner
        self.overwrites: list[Any] = []
        self.replaced = False
        self.pointer = _gc(pointer, _release if owner is None else partial(_release_borrowed, owner))

    @classmethod
    def alloc(
        cls,
        handle: DeviceHandle,
        memory: int,
        extent: int,
        holder: str = "tensor",
        lasting: bool = False,
        for_host: bool = False,
    ) -> Buffer:
        """``extent`` bytes (in every bank) of memory number ``memory``; ``holder`` is the name in texts
        of out of memory. Earlier queued work may still use the block: later work waits for it, and the host
        does in ``writing``. ``for_host``: the host will write it, so a block that lets it wait comes last.
        ``lasting``: for what is held for long; when it goes, the block is not kept idle for others.

        Where memory is short, waits for queued work that will give some back. Raises DeviceMemoryError,
        DeviceError for a closed device.
        """
        device = handle.pointer
        extent = extent or 1
        pointer = _alloc(device, memory, extent, holder.encode(), for_host)
        if pointer == ffi.NULL:
            pointer = with_room(
                lambda: _alloc(device, memory, extent, holder.encode(), for_host),
                [(device, memory)],
                str(handle.device),
            )
        made = cls(handle, memory, extent, pointer)
        if lasting:
            _gc(made.pointer, None)
            made.pointer = _gc(pointer, _return)
        return made

    @classmethod
    def to_write(cls, handle: DeviceHandle, memory: int, extent: int, holder: str) -> Writing:
        """A new block, ``.buffer`` of the Writing, that no queued work uses. Raises as alloc."""
        return cls.alloc(handle, memory, extent, holder, for_host=True).writing()

    @classmethod
    def borrow(cls, handle: DeviceHandle, addr: int, extent: int, owner: object, memory: int = 0) -> Buffer:
        """Memory of ``owner``'s, which is kept alive until the last queued use is over."""
        pointer = lib.gr_buffer_borrow(handle.pointer, memory, addr, extent)
        if pointer == ffi.NULL:
            raise GraphRuntimeError(core.last_error())
        return cls(handle, memory, extent, pointer, owner)

    def __repr__(self) -> str:
        where = "freed" if self.pointer is None else f"{self.extent} B at {self.addr:#x}"
        return f"<Buffer on {self.handle.device}: {where}>"

    def live(self) -> Any:
        """The ``gr_buffer *``. Raises DeviceError where the buffer was freed."""
        if self.pointer is None:
            raise DeviceError(
                f"this buffer on {self.handle.device} was freed: it cannot be used any more",
                device=str(self.handle.device),
            )
        return self.pointer

    @property
    def events(self) -> Buffer:
        """Itself. Each owner of a tensor's memory has this property: the Buffer with the events of its queued
        uses."""
        return self

    @property
    def addr(self) -> int:
        """Host pointer or bank address."""
        return _addr(self.live())

    @property
    def id(self) -> int:
        """A number that no other buffer of the process ever has."""
        return lib.gr_buffer_id(self.live())

    @property
    def version(self) -> int:
        """How many submissions write it, those that are queued counted."""
        return lib.gr_buffer_version(self.live())

    @property
    def ready(self) -> bool:
        """Whether nothing that is queued will still write it. Never waits."""
        return not _pending(self.live(), 0)

    @property
    def in_use(self) -> bool:
        """Whether anything that is queued still writes or reads it. Never waits."""
        return (pointer := self.pointer) is not None and bool(_pending(pointer, 1))

    @property
    def failure(self) -> Exception | None:
        """Why what should be in it is not, None where nothing failed so far. Never waits."""
        found = ffi.new("gr_failure *")
        return error_of(found) if lib.gr_buffer_failure(self.live(), found) else None

    def wait(self, timeout: float | None = None, write: bool = False) -> None:
        """Until queued work has written it; with ``write``, has read it too, so that it may be overwritten.

        Raises the first cause where that failed (unless ``write``), WaitTimeoutError after ``timeout``
        seconds, InputError for what is no timeout.
        """
        check_timeout(timeout)
        pointer = self.live()
        if _pending(pointer, write):
            wait_in_slices(lambda budget: lib.gr_buffer_wait(pointer, write, budget), timeout, str(self))
        if not write and lib.gr_buffer_failure(pointer, ffi.NULL):
            throw(self.failure)

    def writing(self) -> Writing:
        """The host's turn to write: waits until queued work neither writes nor reads the block. The contents
        are the caller's from then on: what failed to write them is forgotten. Raises DeviceError."""
        return Writing(self)

    def renewed(self, version: int) -> Buffer | None:
        """Another Buffer of the block, whose contents count as right; this one keeps what failed. None while
        the block is in use, and where it has another version."""
        fresh = lib.gr_buffer_renew(self.live(), version)
        self.replaced = self.replaced or bool(fresh)
        return Buffer(self.handle, self.memory, self.extent, fresh, self.owner) if fresh else None

    def free(self, force: bool = False) -> None:
        """Give the memory up: once queued work is over, others may get it. Later use raises DeviceError.

        Freeing twice raises DeviceError, unless ``force``.
        """
        if self.pointer is None and force:
            return
        self.live()
        self.pointer = None


class Writing:
    """The right of the host's instructions to write ``buffer``, until it is closed or gone. What is queued
    meanwhile must not use the block."""

    __slots__ = ("_pointer", "buffer")

    buffer: Buffer

    def __init__(self, buffer: Buffer):
        self._pointer = None
        pointer = buffer.live()
        status = _write(pointer, 0)
        if status:
            wait_in_slices(lambda budget: _write(pointer, budget), None, str(buffer))
        self.buffer, self._pointer = buffer, pointer

    def close(self) -> None:
        """The last write is over. Closing twice does nothing."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            _written(pointer)

    __del__ = close

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _release_borrowed(owner: object, pointer: Any) -> None:
    """Release a ``gr_buffer *``; the owner of its memory stays until nothing that is queued uses it."""
    if _pending(pointer, 1):
        keep_until(lambda: not _pending(pointer, 1), lambda: _release(pointer), owner)
    else:
        _release(pointer)


# **************** waiting and errors ****************


def check_timeout(timeout: Any) -> None:
    """Raises InputError for what is neither None nor a number of seconds, 0 or more."""
    if timeout is not None and not (isinstance(timeout, Real) and float(timeout) >= 0):
        raise InputError(
            f"timeout is the seconds to wait at most, 0 or more, or None for no limit, got {timeout!r}",
            got=timeout,
        )


def wait_in_slices(wait: Callable[[int], int], timeout: float | None, what: str) -> None:
    """Call ``wait(budget in ns)``, which gives a gr_status, until it is not GR_INTERRUPTED. Between two calls
    Python handles signals. Raises WaitTimeoutError after ``timeout`` seconds, and what the status means."""
    seconds = 0.0 if timeout is None else float(timeout)
    deadline = None if timeout is None else time.monotonic_ns() + int(min(timeout, _AGES) * 1e9)
    while True:
        budget = _SLICE_NS if deadline is None else max(0, min(_SLICE_NS, deadline - time.monotonic_ns()))
        status = wait(budget)
        if status != _INTERRUPTED:
            core.check(status)
            return
        if deadline is not None and time.monotonic_ns() >= deadline:
            raise WaitTimeoutError(f"{what} was not over after {seconds:g} s; it goes on", wanted=timeout)


def error_of(failure: Any, left: str = "") -> GraphRuntimeError:
    """The exception that a ``gr_failure *`` says: KernelError, or RunCancelledError; ``left``: and what the
    failure left."""
    node, op, device, text = (
        ffi.string(getattr(failure, key)).decode(errors="replace") for key in ("node", "op", "device", "text")
    )
    kind = RunCancelledError if failure.status == lib.GR_ERR_CANCELLED else KernelError
    where = f"node {node!r} ({op} on {device})" if node else f"{op or 'queued work'} on {device}"
    said = f"{where} was cancelled" if kind is RunCancelledError else f"{where} failed: {text}"
    return kind(said + left, node=node or None, op=op or None, device=device or None, status=failure.status)


def reserved(handle: DeviceHandle, memory: int, extent: int, holder: str) -> int:
    """Address of a block without events, which handle.free gives back. Waits and raises as Buffer.alloc."""
    device, out = handle.pointer, ffi.new("uint64_t *")

    def attempt() -> bool:
        return not lib.gr_device_alloc(device, memory, extent, holder.encode(), out)

    if not attempt():
        with_room(attempt, [(device, memory)], str(handle.device))
    return int(out[0])


def with_room(attempt: Callable[[], Any], memories: Sequence[tuple[Any, int]], device: str) -> Any:
    """What ``attempt()`` gives, a pointer of C's, after C refused to take memory, or room for circular
    buffers, at any of ``memories`` (gr_device *, memory): again and again, while queued work gives some back.

    Raises DeviceMemoryError where none will come, GraphRuntimeError for what else C said. Room that is kept
    for circular buffers of others, which may queue more and more, is waited for so long only.
    """
    begun, hopeless = _dropped(memories), False
    while True:
        status, text = lib.gr_last_status(), core.last_error()
        if status not in (_INTERRUPTED, _OUT_OF_MEMORY):  # the former: too much is queued, and C has waited
            raise GraphRuntimeError(text, device=device)
        # what was kept for work that is over comes back first
        if status == _OUT_OF_MEMORY and not sweep():
            hope = any([lib.gr_reclaim(at, memory, _SLICE_NS) for at, memory in memories])
            # what work that ended since the refusal gave back is no longer queued: only a new refusal says
            # that there is none
            if (hopeless and not hope) or _dropped(memories) - begun > _PATIENCE:
                raise DeviceMemoryError(text, device=device)
            hopeless = not hope
        made = attempt()
        if made:
            return made


def _dropped(memories: Sequence[tuple[Any, int]]) -> int:
    """How often room for circular buffers was given back."""
    out, dropped = ffi.new("uint64_t[3]"), 0
    for at, memory in memories:
        lib.gr_circular_stats(at, memory, out)
        dropped += out[2]
    return dropped


def _shut_down() -> None:
    """At exit, while Python's objects are still there: nothing new begins, what runs ends."""
    while lib.gr_async_shutdown(_SLICE_NS) == _INTERRUPTED:
        pass


atexit.register(_shut_down)
