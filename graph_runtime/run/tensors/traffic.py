"""Counters of movements, and control of implicit transfers.

    with stats() as s: ...; s.bytes("h2d", "tt:0")
    record("eviction", device, nbytes)       a cause, recorded where it occurs

Movements (MOVEMENTS) are counted in C, where a copy is done or queued (native/core/moved.c), so all ways of
running are included: inline and queued runs, copies inside of graphs, eager ops, evictions. Causes and
submissions are recorded here, fallbacks in run/tensors/journal.py. Bytes are those of the values (elements
times itemsize), which a user can predict from shapes; the device's own counters (MemoryStats) have the bytes
with padding and packing. Counters are for the whole process: a stats() block sees what all threads move while
it is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...base.errors import ImplicitTransferError, InputError, did_you_mean
from ...base.locks import new_lock
from ...binding import core
from . import journal

# kinds that C counts, in the order of its gr_movement
MOVEMENTS = ("h2d", "d2h", "d2d", "conversion", "copy")
# kind of event -> its meaning
KINDS = {
    "h2d": "copies from the host to a device",
    "d2h": "copies from a device to the host",
    "d2d": "copies from a device to another, counted at the one that receives",
    "conversion": "changes of memory, layout, format or shape on one device",
    "copy": "copies on one device that change nothing",
    "implicit": "those of d2h that nobody asked for by name",
    "mismatch": "those of conversion that a submission made because an input was in another layout",
    "eviction": "those of conversion that moved a tensor from L1 to DRAM",
    "rescue": "those of copy for retained inputs that a program would overwrite",
    "submit": "submissions of programs",
    "const_hit": "submissions of const programs answered from the cache",
    "const_miss": "submissions of const programs that ran",
    "fallback": "operations done on the host in a device's stead",
}

_lock = new_lock()
_recorded: dict[tuple[str, str], tuple[int, int]] = {}
_forbidden: ContextVar[bool] = ContextVar("graph_runtime_no_implicit_transfer", default=False)


def record(kind: str, device: object, nbytes: int = 0, count: int = 1) -> None:
    """Count events of ``kind``, a key of KINDS that is recorded in Python, and their bytes, for a device."""
    key = (kind, str(device))
    with _lock:
        before, bytes_before = _recorded.get(key, (0, 0))
        _recorded[key] = (before + count, bytes_before + nbytes)


def _totals() -> dict[tuple[str, str], tuple[int, int]]:
    """{(kind, device): (count, bytes)} of all events since the process began."""
    with _lock:
        totals = dict(_recorded)
    for moved in _moved():
        device = core.ffi.string(moved.device).decode()
        for kind, count, nbytes in zip(MOVEMENTS, moved.count, moved.bytes, strict=True):
            if count:
                totals[kind, device] = (count, nbytes)
    return totals | {("fallback", device): found for device, found in journal.totals()[1].items()}


def _moved() -> Any:
    """A ``gr_moved_counts`` for each device that the process has opened."""
    room = 0
    while True:
        found = core.ffi.new("gr_moved_counts[]", room)
        there = core.lib.gr_moved_read(found, room)
        if there <= room:
            return found
        room = there


class Stats:
    """Counters since this object was made, or between entering and leaving it as a context manager."""

    def __init__(self) -> None:
        self._begin: dict[tuple[str, str], tuple[int, int]] = {}
        self._end: dict[tuple[str, str], tuple[int, int]] | None = None
        self._fallbacks_begin: dict[journal.Key, int] = {}
        self._fallbacks_end: dict[journal.Key, int] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the counts so far, and count from now on."""
        self._begin, self._end = _totals(), None
        self._fallbacks_begin, self._fallbacks_end = journal.totals()[0], None

    def __enter__(self) -> Stats:
        self.reset()
        return self

    def __exit__(self, *_: object) -> None:
        self._end, self._fallbacks_end = _totals(), journal.totals()[0]

    @property
    def fallbacks(self) -> list[journal.Fallback]:
        """Ops done on the host in a device's stead, by op, device, types and reason: ops of eager calls, of
        torch and of compiled programs."""
        return journal.since(self._fallbacks_begin, self._fallbacks_end)

    def rows(self) -> list[tuple[str, str, int, int]]:
        """(kind, device, count, bytes) of all events, sorted."""
        end = _totals() if self._end is None else self._end
        changed = []
        for key, (count, nbytes) in sorted(end.items()):
            before, bytes_before = self._begin.get(key, (0, 0))
            if count != before:
                changed.append((*key, count - before, nbytes - bytes_before))
        return changed

    def count(self, kind: str, device: object = None) -> int:
        """Number of events of a kind, on one device, or by default on all. Raises InputError for an unknown
        kind."""
        return sum(row[2] for row in self._of(kind, device))

    def bytes(self, kind: str, device: object = None) -> int:
        """Bytes of the events of a kind, on one device, or by default on all. Raises InputError for an
        unknown kind."""
        return sum(row[3] for row in self._of(kind, device))

    def _of(self, kind: str, device: object) -> list[tuple[str, str, int, int]]:
        if kind not in KINDS:
            text = f"no events are called {kind!r}{did_you_mean(kind, KINDS)}"
            raise InputError(text, got=kind, wanted=list(KINDS))
        return [r for r in self.rows() if r[0] == kind and (device is None or r[1] == str(device))]

    def as_dict(self) -> dict[str, dict[str, dict[str, int]]]:
        """{device: {kind: {"count": n, "bytes": n}}}, for JSON."""
        made: dict[str, dict[str, dict[str, int]]] = {}
        for kind, device, count, nbytes in self.rows():
            made.setdefault(device, {})[kind] = {"count": count, "bytes": nbytes}
        return made

    def __str__(self) -> str:
        lines = [
            f"{device:<8}{kind:<12}{count:>8}{nbytes:>16,} B"
            for kind, device, count, nbytes in sorted(self.rows(), key=lambda row: (row[1], row[0]))
        ]
        return "\n".join([*lines, *map(str, self.fallbacks)]) or "nothing moved"


def stats() -> Stats:
    """A Stats that counts from now on; ``with stats() as s:`` counts to the end of the block."""
    return Stats()


# **************** hidden transfers ****************


@contextmanager
def no_implicit_transfer() -> Iterator[None]:
    """Inside this block, in this thread or task, an implicit transfer of a device tensor by numpy or Python
    (np.sum, bool, iteration) raises ImplicitTransferError; numpy(), to() and gather() work as always."""
    token = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(token)


def refuse_hidden(tensor: Any, what: str) -> None:
    """Raise ImplicitTransferError if ``what`` may not fetch the tensor implicitly."""
    if _forbidden.get():
        text = (
            f"{what} would fetch {tensor.type} from {tensor.device} without being asked to: call numpy() or "
            "gather() for it, or leave no_implicit_transfer()"
        )
        raise ImplicitTransferError(text, device=str(tensor.device), got=str(tensor.type))
