"""Tensors that were given to a run, and what comes of them.

A donated handle leads nowhere: its memory is the run's. Where the graph writes an output into that input, a
KV cache say, the output's handle has the memory from then on. A run that failed before it wrote there gives
it back: the donated handle leads to its old values again, and the output's, which never came, raise what the
run raises. What a run had begun to write is lost.

    Overwrite    one run that writes a buffer whose values it was given; those of a buffer that may still
                 matter are its ``overwrites``, oldest first. It is announced before it is queued, and nothing
                 is given back until all handles on it are known
    Donated      why a handle is gone, with what it gets back if that run fails
    Failed       the same of an output whose values never came
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol
from weakref import ref

from ...base.locks import new_rlock
from ...binding.core import ffi, lib
from ..device_handles import DeviceHandle
from ..queues.buffer import Buffer
from ..queues.limbo import keep_until
from ..queues.run import failure_of
from ..queues.template import Template

__all__ = ["Donated", "Failed", "Overwrite", "announced", "donations", "spoiled", "unchanged"]

_A_MOMENT = 1e-5  # seconds
WRITTEN, UNCHANGED = lib.GR_LEFT_WRITTEN, lib.GR_LEFT_UNCHANGED
UNDEFINED, PENDING = lib.GR_LEFT_UNDEFINED, lib.GR_LEFT_PENDING

donations = new_rlock()  # from the look at what is donated until it is given up; a hook may submit
_overwrites = new_rlock()  # of buffers' overwrites; what holds it waits for nothing


def _no_keeper(fresh: Buffer) -> None:
    """Handles had the memory."""


def _nothing_failed() -> None:
    """The run is not queued yet."""


class Donor(Protocol):
    """A tensor, as far as it is needed here (handle.py has the methods)."""

    _gone: Any
    _handle: DeviceHandle
    _origin: Any
    _owner: Any

    def come_back(self, gone: Donated, buffer: Buffer) -> None: ...

    def follow(self, old: Buffer, buffer: Buffer) -> None: ...

    def lose(self, failed: Failed) -> None: ...


class Overwrite:
    """``donors``: weak references to the handles that led to the memory before; ``outputs``: to those that
    the run gave. ``keeper(Buffer)`` is told of another Buffer of memory that is no handle's. ``memory``: the
    buffer's id, ``version``: the buffer's when the run was queued. ``announcer``: the thread that is queueing
    the run, None once it has and all handles are known.
    ``failure()``: what went wrong in the run, None where nothing did so far."""

    __slots__ = (
        "_buffer",
        "_run",
        "_slot",
        "_template",
        "announcer",
        "donors",
        "failure",
        "keeper",
        "memory",
        "outputs",
        "version",
    )

    memory: int
    version: int

    def __init__(self, template: Template, slot: int, buffer: Buffer):
        self._run, self._template, self._slot = None, template, slot
        self._buffer: Buffer | None = buffer  # until all is known: the buffer keeps the run
        self.announcer: int | None = threading.get_ident()
        self.failure: Callable[[], Exception | None] = _nothing_failed
        self.donors: list[ref[Donor]] = []
        self.outputs: list[ref[Donor]] = []
        self.keeper: Callable[[Buffer], None] = _no_keeper
        self.version, self.memory = buffer.version, buffer.id

    def queued(self, run: Any) -> None:
        """The ``gr_run *`` is in the queues."""
        lib.gr_run_retain(run)
        self._run = ffi.gc(run, lib.gr_run_release)
        buffer = self._buffer
        assert buffer is not None  # told() comes later
        self.failure, self.version = failure_of(run), buffer.version
        with _overwrites:
            known = buffer.overwrites
            at = known.index(self)
            if at and known[at - 1].version + 1 != self.version:  # others wrote it since, and not in place
                del known[:at]

    def told(self) -> None:
        """All handles are known. Where nothing was queued it is forgotten."""
        buffer, self._buffer, self.announcer = self._buffer, None, None
        if self._run is None and buffer is not None:
            with _overwrites:
                buffer.overwrites.remove(self)

    @property
    def left(self) -> int:
        """What the run left in the memory: GR_LEFT_*."""
        if self.announcer is not None:
            return PENDING
        return lib.gr_run_left(self._run, self._template.pointer, self._slot)

    @property
    def failed(self) -> bool | None:
        """Whether a step of the run failed, also one that does not write there; None while all goes well."""
        if lib.gr_run_failure(self._run, ffi.NULL):
            return True
        return False if lib.gr_run_done(self._run) else None


def announced(buffer: Buffer, template: Template, slot: int) -> Overwrite | None:
    """A run that is about to be queued, and will write the buffer, slot ``slot`` of its template, in place.
    None where another Buffer has the block by now. The caller holds ``donations``, and calls ``told`` in any
    case."""
    made = Overwrite(template, slot, buffer)
    with _overwrites:
        if buffer.replaced:
            return None
        _that_matter(buffer).append(made)
    return made


def spoiled(buffer: Buffer) -> bool:
    """Whether the last that wrote a keeper's buffer is a run in place that failed and left something else
    than what was there. Its outputs stay with what failed; the keeper goes on with the block, and asks for
    new contents."""
    with _overwrites:
        last = buffer.overwrites[-1] if buffer.overwrites else None
        if last is None or last.left == PENDING or buffer.version != last.version or not last.failed:
            return False  # others wrote it since, or nothing went wrong
        if unchanged(buffer) is not False:
            return False
        fresh = buffer.renewed(last.version)
        if fresh is None:
            return False
        last.keeper(fresh)
        buffer.overwrites.clear()
        return True


def _that_matter(buffer: Buffer) -> list[Overwrite]:
    """The buffer's overwrites without those before and up to the last that is known to have written it."""
    known = buffer.overwrites
    for at in reversed(range(len(known))):
        if known[at].left == WRITTEN:
            del known[: at + 1]
            break
    return known


def unchanged(buffer: Buffer, asker: Donor | None = None, wait: bool = False) -> bool | None:
    """Give a block back to its donors, if no run since wrote there: True, and then those handles have
    another Buffer of it, which reads as before those runs. None where it cannot be told yet; ``wait``: waits
    for what is queued behind a run that failed.

    ``asker``, if it is an output of these runs, gets nothing of it: False.
    """
    while True:
        busy = buffer.in_use  # before the look: what ends meanwhile is looked at again
        with _overwrites:
            known = _that_matter(buffer)
            left = [overwrite.left for overwrite in known]
            if not known or buffer.pointer is None:
                return False
            if asker is not None and any(asker is it for overwrite in known for it in _handles(overwrite)):
                return False
            announcer = known[-1].announcer
            others = announcer is None and buffer.version != known[-1].version
            if others or WRITTEN in left or UNDEFINED in left:
                return False
            fresh = None if PENDING in left else buffer.renewed(known[-1].version)
            if fresh is not None:
                _give_back(buffer, fresh)
                return True
        if not wait or announcer == threading.get_ident() or not (busy or announcer):
            return None
        if announcer:  # another thread is queueing a run, which takes microseconds
            time.sleep(_A_MOMENT)
        else:
            buffer.wait(write=True)


def _give_back(buffer: Buffer, fresh: Buffer) -> None:
    """The first of the buffer's runs was given the right values, the others outputs of one that failed."""
    runs = list(buffer.overwrites)
    failed = [handle for run in runs for handle in _handles(run)]
    for run in runs:
        for handle in _handles(run):
            handle.lose(Failed(run.failure))
    for handle in buffer.handle.tensors.alive():
        if handle._owner is buffer and not any(handle is it for it in failed):
            handle.follow(buffer, fresh)  # another handle on what was donated
    for donor in [donor() for donor in runs[0].donors]:
        if donor is not None:
            donor.come_back(donor._gone, fresh)
    runs[0].keeper(fresh)
    buffer.overwrites.clear()


def _handles(overwrite: Overwrite) -> list[Donor]:
    """What leads to a run's output now: the handles that it gave, and aliases of them."""
    outputs = [output for output in [output() for output in overwrite.outputs] if output is not None]
    return [
        t for output in outputs for t in output._handle.tensors.alive() if t is output or t._origin is output
    ]


class Donated:
    """``why`` says where the handle went. ``failure()``: what went wrong in that run, None where nothing did
    so far. ``overwrite``: of the run, where an output is written into what it was given, and then ``kept`` is
    what the handle led to (owner, address, layout, origin), None once it is known not to come back."""

    __slots__ = ("__weakref__", "failure", "kept", "overwrite", "why")

    overwrite: Overwrite | None
    why: str
    failure: Callable[[], Exception | None]

    def __init__(self, why: str, failure: Callable[[], Exception | None], overwrite: Overwrite | None = None):
        self.why, self.failure, self.overwrite = why, failure, overwrite
        self.kept: tuple[Any, ...] | None = None

    def __str__(self) -> str:
        failed = self.failure()
        if failed is None:
            return self.why
        lost = ": its contents are lost" if self.kept is None else ""
        return f"{self.why}, to a run that failed ({failed}){lost}"

    def keep(self, tensor: Donor, kept: tuple[Any, ...]) -> None:
        """The handle was given up, and is looked at when others come. What it led to stays meanwhile."""
        if self.overwrite is None or not isinstance(kept[0], Buffer):
            return
        self.kept = kept
        if self._was_written():
            self.overwrite.donors.append(ref(tensor))
        gone, handle = ref(self), ref(tensor)
        keep_until(lambda: (it := gone()) is None or it._is_over(), lambda: _look(gone(), handle()))

    def _was_written(self) -> bool:
        """Whether the run writes the handle's own memory, and not a copy in another layout."""
        if self.kept is None or self.overwrite is None:
            return False
        return self.kept[0].pointer is not None and self.kept[0].id == self.overwrite.memory

    def _is_over(self) -> bool:
        kept, overwrite = self.kept, self.overwrite
        return kept is None or overwrite is None or (overwrite.failed is not None and not kept[0].in_use)

    def comes_back(self, tensor: Donor, wait: bool = False) -> bool:
        """Whether the handle leads to its values again, because the run failed and left them. ``wait``: for
        what is queued behind that run."""
        kept = self.kept
        if kept is None or self.overwrite is None:
            return False
        found = self.overwrite.failed
        if found and self._was_written():
            found = unchanged(kept[0], wait=wait)
        elif found:
            with _overwrites:
                tensor.come_back(self, kept[0])
        if tensor._gone is not self:
            return True
        if found is not None:
            self.kept = None  # others wrote there, or it had no values of its own
        return False


def _look(gone: Donated | None, tensor: Donor | None) -> None:
    if gone is not None and tensor is not None:
        gone.comes_back(tensor)


class Failed:
    """The values never came: ``failure()`` is why. Using the handle raises that."""

    __slots__ = ("failure",)

    failure: Callable[[], Exception | None]

    def __init__(self, failure: Callable[[], Exception | None]):
        self.failure = failure

    def __str__(self) -> str:
        return f"failed: {self.failure()}"
