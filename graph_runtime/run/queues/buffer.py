"""Buffer: a block of device memory and the queued work that uses it (native/include/gr_async.h).

    Buffer.alloc(handle, memory, extent, holder)      new memory of a device, freed with its last holder
    Buffer.to_write(handle, memory, extent, holder)   new memory that the host will write now
    Buffer.borrow(handle, addr, extent, owner)        memory of another owner, which is kept alive
    buffer.writing()                                  the host's turn to write, after queued work

Every write by the host's own instructions goes through a ``Writing``: while the Writing exists, no queued
work uses the block. In guard mode a block without a Writing is read-only to the process.

Freeing never waits: a block goes back together with its events, and its next user waits for them. Objects
that Python has dropped and C still needs stay in limbo until the work is over."""

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

SLICE_NS = 50_000_000  # C returns after this long, so that Python can handle a signal (Ctrl-C)
_PATIENCE = 4096  # more than the number of runs in flight
_AGES = 1e9  # seconds; longer timeouts count as no limit
_OUT_OF_MEMORY, _INTERRUPTED = lib.GR_ERR_OUT_OF_MEMORY, lib.GR_INTERRUPTED
_alloc, _release, _addr = lib.gr_buffer_alloc, lib.gr_buffer_release, lib.gr_buffer_addr
_return = lib.gr_buffer_return
_pending, _gc = lib.gr_buffer_pending, ffi.gc
_write, _written = lib.gr_buffer_write, lib.gr_buffer_written


class Buffer:
    """A block of a device's memory.

    ``handle`` the opened device, ``memory`` the index of its memory, ``addr`` and ``extent`` (bytes; per bank
    on tt), ``id`` a number never used twice, ``pointer`` the ``gr_buffer *``, ``overwrites``: see
    run/tensors/donated.py, ``replaced``: whether another Buffer has the block now (``renewed``). Any holder
    of the Buffer keeps the block alive; ``free`` gives the block up for all holders.

    The object ``pointer`` holds C's reference, and so does each call that gets it: a buffer that another
    thread drops or frees meanwhile is released after that call. A caller that puts the pointer into a C array
    keeps the object beside the array."""

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
        """A Buffer of ``extent`` bytes (in every bank) of memory number ``memory``; ``holder`` is the name in
        out-of-memory errors. Earlier queued work may still use the block: later work waits for that, as the
        host does in ``writing``. ``for_host``: the host will write the block, so blocks that are still in use
        are taken last. ``lasting``: the block will be held for long; when freed it is not kept idle for
        others.

        If memory is short, waits for queued work that will free some. Raises DeviceMemoryError, DeviceError
        for a closed device."""
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
        """The Writing of a new block (its ``.buffer``) that no queued work uses. Raises the errors of
        alloc."""
        return cls.alloc(handle, memory, extent, holder, for_host=True).writing()

    @classmethod
    def borrow(cls, handle: DeviceHandle, addr: int, extent: int, owner: object, memory: int = 0) -> Buffer:
        """A Buffer over memory of ``owner``, which is kept alive until the last queued use of the memory is
        over."""
        pointer = lib.gr_buffer_borrow(handle.pointer, memory, addr, extent)
        if pointer == ffi.NULL:
            raise GraphRuntimeError(core.last_error())
        return cls(handle, memory, extent, pointer, owner)

    def __repr__(self) -> str:
        where = "freed" if self.pointer is None else f"{self.extent} B at {self.addr:#x}"
        return f"<Buffer on {self.handle.device}: {where}>"

    def live(self) -> Any:
        """The ``gr_buffer *``. Raises DeviceError if the buffer was freed."""
        if self.pointer is None:
            text = f"this buffer on {self.handle.device} was freed: it cannot be used any more"
            raise DeviceError(text, device=str(self.handle.device))
        return self.pointer

    @property
    def events(self) -> Buffer:
        """The Buffer with the events of the queued uses. Every owner of a tensor's memory has this attribute;
        a Buffer's is the Buffer itself."""
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
        """Number of submissions that write the buffer, queued ones included."""
        return lib.gr_buffer_version(self.live())

    @property
    def ready(self) -> bool:
        """Whether all queued writes are over. Never waits."""
        return not _pending(self.live(), 0)

    @property
    def in_use(self) -> bool:
        """Whether queued work still reads or writes the buffer. Never waits."""
        return (pointer := self.pointer) is not None and bool(_pending(pointer, 1))

    @property
    def failure(self) -> Exception | None:
        """The error that kept the buffer's values from being written, None if there is none so far. Never
        waits."""
        found = ffi.new("gr_failure *")
        return error_of(found) if lib.gr_buffer_failure(self.live(), found) else None

    def wait(self, timeout: float | None = None, write: bool = False) -> None:
        """Wait until queued work has written the buffer; with ``write``, until queued work has also read it,
        so that it may be overwritten. Raises the first cause of a failed write (not with ``write``),
        WaitTimeoutError after ``timeout`` seconds, InputError for an invalid timeout."""
        check_timeout(timeout)
        pointer = self.live()
        if _pending(pointer, write):
            wait_in_slices(lambda budget: lib.gr_buffer_wait(pointer, write, budget), timeout, str(self))
        if not write and lib.gr_buffer_failure(pointer, ffi.NULL):
            throw(self.failure)

    def writing(self) -> Writing:
        """The host's turn to write: waits until queued work neither reads nor writes the block. From then on
        the contents are the caller's, and earlier failures are forgotten. Raises DeviceError."""
        return Writing(self)

    def renewed(self, version: int) -> Buffer | None:
        """Another Buffer of the same block, whose contents count as valid; this Buffer keeps the failure.
        None while the block is in use, or if ``version`` is not the present one."""
        fresh = lib.gr_buffer_renew(self.live(), version)
        self.replaced = self.replaced or bool(fresh)
        return Buffer(self.handle, self.memory, self.extent, fresh, self.owner) if fresh else None

    def free(self, force: bool = False) -> None:
        """Give the memory up: others may get it once queued work is over. Later use of the Buffer raises
        DeviceError, as does a second free unless ``force``."""
        if self.pointer is None and force:
            return
        self.live()
        self.pointer = None


class Writing:
    """The host's right to write ``buffer``, until this object is closed or dropped. Work queued meanwhile
    must not use the block."""

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
        """Say that the last write is done. Closing twice does nothing."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            _written(pointer)

    __del__ = close

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _release_borrowed(owner: object, pointer: Any) -> None:
    """Release a ``gr_buffer *``; the owner of its memory stays until no queued work uses it."""
    if _pending(pointer, 1):
        keep_until(lambda: not _pending(pointer, 1), lambda: _release(pointer), owner)
    else:
        _release(pointer)


# **************** waiting and errors ****************


def check_timeout(timeout: Any) -> None:
    """Raise InputError for a timeout that is neither None nor a number of seconds from 0."""
    if timeout is not None and not (isinstance(timeout, Real) and float(timeout) >= 0):
        text = f"timeout must be a number of seconds from 0, or None for no limit, got {timeout!r}"
        raise InputError(text, got=timeout)


def wait_in_slices(wait: Callable[[int], int], timeout: float | None, what: str) -> None:
    """Call ``wait(budget in ns)``, which returns a gr_status, until it is not GR_INTERRUPTED; Python handles
    signals between two calls. Raises WaitTimeoutError after ``timeout`` seconds, and the error that the
    status means."""
    seconds = 0.0 if timeout is None else float(timeout)
    deadline = None if timeout is None else time.monotonic_ns() + int(min(timeout, _AGES) * 1e9)
    while True:
        budget = SLICE_NS if deadline is None else max(0, min(SLICE_NS, deadline - time.monotonic_ns()))
        status = wait(budget)
        if status != _INTERRUPTED:
            core.check(status)
            return
        if deadline is not None and time.monotonic_ns() >= deadline:
            raise WaitTimeoutError(f"{what} was not over after {seconds:g} s; it goes on", wanted=timeout)


def error_of(failure: Any, left: str = "") -> GraphRuntimeError:
    """The exception of a ``gr_failure *``: KernelError or RunCancelledError. ``left``: text on the state
    after the failure."""
    node, op, device, text = (
        ffi.string(getattr(failure, key)).decode(errors="replace") for key in ("node", "op", "device", "text")
    )
    kind = RunCancelledError if failure.status == lib.GR_ERR_CANCELLED else KernelError
    where = f"node {node!r} ({op} on {device})" if node else f"{op or 'queued work'} on {device}"
    said = f"{where} was cancelled" if kind is RunCancelledError else f"{where} failed: {text}"
    return kind(said + left, node=node or None, op=op or None, device=device or None, status=failure.status)


def reserved(handle: DeviceHandle, memory: int, extent: int, holder: str) -> int:
    """Address of a block without events, which handle.free gives back. Waits, and raises errors, as
    Buffer.alloc does."""
    device, out = handle.pointer, ffi.new("uint64_t *")

    def attempt() -> bool:
        return not lib.gr_device_alloc(device, memory, extent, holder.encode(), out)

    if not attempt():
        with_room(attempt, [(device, memory)], str(handle.device))
    return int(out[0])


def with_room(attempt: Callable[[], Any], memories: Sequence[tuple[Any, int]], device: str) -> Any:
    """The C pointer that ``attempt()`` returns. Called after C refused memory, or room for circular buffers,
    in one of ``memories`` (gr_device *, memory); ``attempt`` is called again while queued work gives memory
    back. Raises DeviceMemoryError when no memory will come back, GraphRuntimeError for C's other errors. Room
    held for other circular buffers is waited for a limited time only, because runs with circular buffers may
    be queued all the time."""
    begun, hopeless = _dropped(memories), False
    while True:
        status, text = lib.gr_last_status(), core.last_error()
        if status not in (_INTERRUPTED, _OUT_OF_MEMORY):  # interrupted: C has waited, as too much is queued
            raise GraphRuntimeError(text, device=device)
        # blocks that were kept for queued work that is over come back first
        if status == _OUT_OF_MEMORY and not sweep():
            hope = any([lib.gr_reclaim(at, memory, SLICE_NS) for at, memory in memories])
            # work that ended after the refusal is no longer queued and may have given memory back, so only a
            # second refusal is final
            if (hopeless and not hope) or _dropped(memories) - begun > _PATIENCE:
                raise DeviceMemoryError(text, device=device)
            hopeless = not hope
        made = attempt()
        if made:
            return made


def _dropped(memories: Sequence[tuple[Any, int]]) -> int:
    """Number of times that runs have given back room for circular buffers in these memories."""
    out, dropped = ffi.new("uint64_t[3]"), 0
    for at, memory in memories:
        lib.gr_circular_stats(at, memory, out)
        dropped += out[2]
    return dropped


def _shut_down() -> None:
    """End the queues at exit, while Python's objects still exist: no new work begins, and running work
    ends."""
    while lib.gr_async_shutdown(SLICE_NS) == _INTERRUPTED:
        pass


atexit.register(_shut_down)


class Mark:
    """A mark in a device's queues, which stands for all work queued when the mark was made."""

    __slots__ = ("_handle", "_marks")

    def __init__(self, handle: DeviceHandle):
        self._handle, self._marks = handle, ffi.new("uint64_t[3]")
        lib.gr_async_marks(handle.pointer, self._marks)

    @property
    def reached(self) -> bool:
        """Whether the marked work is over. Never waits."""
        return not lib.gr_async_reached(self._handle.pointer, self._marks, 0)

    def wait(self) -> None:
        """Wait until the marked work is over. Does not raise failures: waiting for values does."""
        if not self.reached:
            device, marks = self._handle.pointer, self._marks
            what = f"what is queued on {self._handle.device}"
            wait_in_slices(lambda budget: lib.gr_async_reached(device, marks, budget), None, what)


def wait_within(handle: DeviceHandle, most: int) -> None:
    """Wait until at most ``most`` items of the work queued now are left in each queue of a device."""
    if lib.gr_async_within(handle.pointer, most, 0):
        wait_in_slices(partial(lib.gr_async_within, handle.pointer, most), None, str(handle.device))
