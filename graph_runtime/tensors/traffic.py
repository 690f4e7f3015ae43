"""What moved, counted; and what may move unasked.

    record("h2d", device, nbytes)       whoever moves a tensor says so here
    with stats() as s: ...; s.bytes("h2d", "tt:0")

Bytes are those of the values (elements times itemsize), whatever a device pads or packs: what a user can
predict from shapes. What a device's memory really took and gave is in its own counters (core.MemoryStats).
Counters are the process's: a scope sees what all threads move while it is open.
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import ImplicitTransferError, InputError, did_you_mean
from ..layout import HOST
from ..locks import new_lock

__all__ = ["KINDS", "Stats", "no_implicit_transfer", "record", "record_copy", "refuse_hidden", "stats"]

# kind of event -> what it counts
KINDS = {
    "h2d": "copies from the host to a device",
    "d2h": "copies from a device to the host",
    "d2d": "copies from a device to another",
    "implicit": "those of d2h that nobody asked for by name",
    "conversion": "changes of memory, layout or format on one device",
    "copy": "copies on one device that change nothing",
    "mismatch": "those of conversion that a submission made because an input was in another layout",
    "eviction": "those of conversion that moved a tensor from L1 to DRAM",
    "rescue": "those of copy for retained inputs that a program would overwrite",
    "submit": "submissions of programs",
    "const_hit": "submissions of const programs answered from the cache",
    "const_miss": "submissions of const programs that ran",
    "fallback": "eager operations done on the host",
}

_lock = new_lock()
_totals: dict[tuple[str, str], tuple[int, int]] = {}
_forbidden: ContextVar[bool] = ContextVar("graph_runtime_no_implicit_transfer", default=False)


def record(kind: str, device: object, nbytes: int = 0, count: int = 1) -> None:
    """Count events of ``kind`` (a key of KINDS) and their bytes for a device."""
    key = (kind, str(device))
    with _lock:
        before, bytes_before = _totals.get(key, (0, 0))
        _totals[key] = (before + count, bytes_before + nbytes)


def record_copy(source: Any, target: Any) -> None:
    """Count a copy between two Tensors; one between two places of host memory is none."""
    from_host, to_host = source.layout.memory == HOST, target.layout.memory == HOST
    if from_host and to_host:
        return
    if from_host or to_host:
        kind, device = ("h2d", target.device) if from_host else ("d2h", source.device)
    elif source.device != target.device:
        kind, device = "d2d", target.device
    else:
        kind, device = "copy" if source.layout == target.layout else "conversion", target.device
    record(kind, device, target.nbytes)


class Stats:
    """Counters since this object was made, or between entering and leaving it as a context manager."""

    def __init__(self) -> None:
        self._begin: dict[tuple[str, str], tuple[int, int]] = {}
        self._end: dict[tuple[str, str], tuple[int, int]] | None = None
        self.reset()

    def reset(self) -> None:
        """Count from now on."""
        with _lock:
            self._begin, self._end = dict(_totals), None

    def __enter__(self) -> Stats:
        self.reset()
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            self._end = dict(_totals)

    def rows(self) -> list[tuple[str, str, int, int]]:
        """(kind, device, count, bytes) of everything that happened, sorted."""
        with _lock:
            end = dict(_totals) if self._end is None else self._end
        changed = []
        for key, (count, nbytes) in sorted(end.items()):
            before, bytes_before = self._begin.get(key, (0, 0))
            if count != before:
                changed.append((*key, count - before, nbytes - bytes_before))
        return changed

    def count(self, kind: str, device: object = None) -> int:
        """How many events of a kind there were, on one device or on all. Raises InputError for a kind that
        is none."""
        return sum(row[2] for row in self._of(kind, device))

    def bytes(self, kind: str, device: object = None) -> int:
        """Bytes of the events of a kind. Raises InputError for a kind that is none."""
        return sum(row[3] for row in self._of(kind, device))

    def _of(self, kind: str, device: object) -> list[tuple[str, str, int, int]]:
        if kind not in KINDS:
            raise InputError(f"no events are called {kind!r}{did_you_mean(kind, KINDS)}", got=kind,
                             wanted=list(KINDS))
        return [r for r in self.rows() if r[0] == kind and (device is None or r[1] == str(device))]

    def as_dict(self) -> dict[str, dict[str, dict[str, int]]]:
        """{device: {kind: {"count": n, "bytes": n}}}, for JSON."""
        made: dict[str, dict[str, dict[str, int]]] = {}
        for kind, device, count, nbytes in self.rows():
            made.setdefault(device, {})[kind] = {"count": count, "bytes": nbytes}
        return made

    def __str__(self) -> str:
        lines = [f"{device:<8}{kind:<12}{count:>8}{nbytes:>16,} B"
                 for kind, device, count, nbytes in sorted(self.rows(), key=lambda row: (row[1], row[0]))]
        return "\n".join(lines) or "nothing moved"


def stats() -> Stats:
    """A Stats that counts from now on; ``with stats() as s:`` counts to the end of the block."""
    return Stats()


# **************** hidden transfers ****************

@contextmanager
def no_implicit_transfer() -> Iterator[None]:
    """Within the block, in this thread or task, a device tensor that numpy or Python would fetch unasked
    (np.sum, bool, iteration) raises ImplicitTransferError; numpy(), to() and gather() work as ever."""
    token = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(token)


def refuse_hidden(tensor: Any, what: str) -> None:
    """Raise ImplicitTransferError, naming ``what`` would fetch the tensor, where that is forbidden here."""
    if _forbidden.get():
        raise ImplicitTransferError(
            f"{what} would fetch {tensor.type} from {tensor.device} without being asked to: call numpy() or "
            "gather() for it, or leave no_implicit_transfer()", device=str(tensor.device),
            got=str(tensor.type))
