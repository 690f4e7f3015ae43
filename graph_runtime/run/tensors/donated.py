"""Tensors that were donated to a run, and their fate.

A donated handle leads nowhere: its memory belongs to the run. If the graph writes an output into that input,
as with a KV cache, the output's handle has the memory from then on. A run that failed before it wrote the
memory gives it back: the donated handle leads to its old values again, and the output's handle, whose values
never came, raises the run's error. Memory that a failed run had begun to write is lost.

    Overwrite    record of one run that writes a buffer whose values it was given. A buffer's ``overwrites``
                 lists the records that may still matter, oldest first. A record is made before its run is
                 queued, and no memory is given back until all handles of the run are known
    Donated      state of a donated handle: why it is gone, and what it gets back if the run fails
    Failed       state of the handle of an output whose values never came
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

_A_MOMENT = 1e-5  # seconds
WRITTEN, UNCHANGED = lib.GR_LEFT_WRITTEN, lib.GR_LEFT_UNCHANGED
UNDEFINED, PENDING = lib.GR_LEFT_UNDEFINED, lib.GR_LEFT_PENDING

donations = (
    new_rlock()
)  # held from the look at a donated tensor until the tensor is given up; an R lock, as hooks may submit
_overwrites = new_rlock()  # guards buffers' overwrites; its holder waits for nothing


class Donor(Protocol):
    """A tensor as far as this module uses it (methods: handle.py)."""

    _gone: Any
    _handle: DeviceHandle
    _origin: Any
    _owner: Any

    def come_back(self, gone: Donated, buffer: Buffer) -> None: ...

    def follow(self, old: Buffer, buffer: Buffer) -> None: ...

    def lose(self, failed: Failed) -> None: ...


class Overwrite:
    """One run that writes a buffer in place. ``donors``: weak references to the handles that led to the
    memory before; ``outputs``: weak references to the handles that the run returned. ``keeper(Buffer)`` is
    called when memory to which no handle leads gets another Buffer. ``memory``: the buffer's id; ``version``:
    the buffer's version when the run was queued. ``announcer``: the thread that is queueing the run, None
    once the run is queued and all handles are known. ``failure()``: the run's error, None if there is none so
    far."""

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
        self._buffer: Buffer | None = buffer  # None after told(), because the buffer keeps the run
        self.announcer: int | None = threading.get_ident()
        self.failure: Callable[[], Exception | None] = lambda: None
        self.donors: list[ref[Donor]] = []
        self.outputs: list[ref[Donor]] = []
        self.keeper: Callable[[Buffer], None] = lambda fresh: None
        self.version, self.memory = buffer.version, buffer.id

    def queued(self, run: Any) -> None:
        """Record the run, a ``gr_run *``, that was queued."""
        lib.gr_run_retain(run)
        self._run = ffi.gc(run, lib.gr_run_release)
        buffer = self._buffer
        assert buffer is not None  # told() comes later
        self.failure, self.version = failure_of(run), buffer.version
        with _overwrites:
            known = buffer.overwrites
            at = known.index(self)
            if at and known[at - 1].version + 1 != self.version:  # other work wrote it since, not in place
                del known[:at]

    def told(self) -> None:
        """Record that all handles are known; drop this overwrite if no run was queued."""
        buffer, self._buffer, self.announcer = self._buffer, None, None
        if self._run is None and buffer is not None:
            with _overwrites:
                buffer.overwrites.remove(self)

    @property
    def left(self) -> int:
        """The state in which the run left the memory, one of GR_LEFT_*."""
        if self.announcer is not None:
            return PENDING
        return lib.gr_run_left(self._run, self._template.pointer, self._slot)

    @property
    def failed(self) -> bool | None:
        """Whether a step of the run failed, including steps that do not write the memory. None while the run
        goes on without a failure."""
        if lib.gr_run_failure(self._run, ffi.NULL):
            return True
        return False if lib.gr_run_done(self._run) else None


def announced(buffer: Buffer, template: Template, slot: int) -> Overwrite | None:
    """An Overwrite for a run that will be queued and will write ``buffer``, which is in slot ``slot`` of the
    run's template, in place. None if another Buffer has the block by now. The caller holds ``donations``, and
    calls ``told`` in any case."""
    made = Overwrite(template, slot, buffer)
    with _overwrites:
        if buffer.replaced:
            return None
        _that_matter(buffer).append(made)
    return made


def spoiled(buffer: Buffer) -> bool:
    """Whether the last writer of a keeper's buffer is a run in place that failed and did not leave the old
    contents. The run's outputs keep the failure; the keeper gets another Buffer of the block, whose contents
    must be set anew."""
    with _overwrites:
        last = buffer.overwrites[-1] if buffer.overwrites else None
        if last is None or last.left == PENDING or buffer.version != last.version or not last.failed:
            return False  # other work wrote the memory since, or no run failed
        if unchanged(buffer) is not False:
            return False
        fresh = buffer.renewed(last.version)
        if fresh is None:
            return False
        last.keeper(fresh)
        buffer.overwrites.clear()
        return True


def _that_matter(buffer: Buffer) -> list[Overwrite]:
    """The buffer's overwrites after the last one that is known to have written it; the earlier ones are
    dropped from the list."""
    known = buffer.overwrites
    for at in reversed(range(len(known))):
        if known[at].left == WRITTEN:
            del known[: at + 1]
            break
    return known


def unchanged(buffer: Buffer, asker: Donor | None = None, wait: bool = False) -> bool | None:
    """Give a block back to its donors if no run has written it since. True if it was given back: the donors'
    handles then have another Buffer of the block, with the contents before the runs. False if the contents
    were overwritten. None if that is not known yet; ``wait``: wait for work queued behind a failed run.

    ``asker``: the handle that asks; if it is an output of these runs, the result is False."""
    while True:
        busy = buffer.in_use  # read first: work that ends after this is looked at again
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
    """Give the block to its donors. The first of the buffer's runs was given valid values; each later run was
    given outputs of a failed run."""
    runs = list(buffer.overwrites)
    failed = [handle for run in runs for handle in _handles(run)]
    for run in runs:
        for handle in _handles(run):
            handle.lose(Failed(run.failure))
    for handle in buffer.handle.tensors.alive():
        if handle._owner is buffer and not any(handle is it for it in failed):
            handle.follow(buffer, fresh)  # another handle on the donated memory
    for donor in [donor() for donor in runs[0].donors]:
        if donor is not None:
            donor.come_back(donor._gone, fresh)
    runs[0].keeper(fresh)
    buffer.overwrites.clear()


def _handles(overwrite: Overwrite) -> list[Donor]:
    """Handles that lead to a run's outputs now: those that the run returned, and aliases of them."""
    outputs = [output for output in [output() for output in overwrite.outputs] if output is not None]
    return [
        t for output in outputs for t in output._handle.tensors.alive() if t is output or t._origin is output
    ]


class Donated:
    """State of a handle that was donated to a run. ``why``: text that says where the handle went.
    ``failure()``: the run's error, None if there is none so far. ``overwrite``: the run's Overwrite, if it
    writes an output into the memory; then ``kept`` is (owner, address, layout, origin) of the handle, or None
    once it is known that the values do not come back."""

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
        """Record that the handle was given up, and keep its memory until it is known whether the values come
        back."""
        if self.overwrite is None or not isinstance(kept[0], Buffer):
            return
        self.kept = kept
        if self._was_written():
            self.overwrite.donors.append(ref(tensor))
        gone, handle = ref(self), ref(tensor)
        keep_until(lambda: (it := gone()) is None or it._is_over(), lambda: _look(gone(), handle()))

    def _was_written(self) -> bool:
        """Whether the run writes the handle's own memory, not a copy of it in another layout."""
        if self.kept is None or self.overwrite is None:
            return False
        return self.kept[0].pointer is not None and self.kept[0].id == self.overwrite.memory

    def _is_over(self) -> bool:
        kept, overwrite = self.kept, self.overwrite
        return kept is None or overwrite is None or (overwrite.failed is not None and not kept[0].in_use)

    def comes_back(self, tensor: Donor, wait: bool = False) -> bool:
        """Whether the handle leads to its values again, because the run failed and left the values unchanged.
        ``wait``: wait for work queued behind the run."""
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
            self.kept = None  # other work wrote there, or the handle had no values of its own
        return False


def _look(gone: Donated | None, tensor: Donor | None) -> None:
    if gone is not None and tensor is not None:
        gone.comes_back(tensor)


class Failed:
    """State of a handle whose values never came: using the handle raises ``failure()``."""

    __slots__ = ("failure",)

    failure: Callable[[], Exception | None]

    def __init__(self, failure: Callable[[], Exception | None]):
        self.failure = failure

    def __str__(self) -> str:
        return f"failed: {self.failure()}"
