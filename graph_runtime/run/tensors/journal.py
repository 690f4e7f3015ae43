"""What was done on the host in a device's stead: one journal for eager operations, torch's, and what compiled
programs have no kernel for on their device.

    refuse(op, device, types, reason)        before the host does an op: raises where that is forbidden
    record(op, device, types, reason, ...)   after it did

    with no_fallback(): ...                  the process: UnsupportedOpError instead
    with strict(): ...                       this thread or task: what made the device fail instead
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ...base.errors import DocumentError, GraphRuntimeError, UnsupportedOpError, afresh
from ...base.locks import new_lock

__all__ = [
    "Fallback",
    "Key",
    "fallbacks",
    "forbidden",
    "no_fallback",
    "record",
    "refuse",
    "since",
    "strict",
    "totals",
]

_MOST = 4096  # reasons that are kept apart


@dataclass(frozen=True, slots=True)
class Fallback:
    """Ops that were done on the host: ``op`` (by numpy's name, the registry's, or torch's), ``device`` the
    result was placed back on ("host" where no device holds it), ``types`` of the inputs, ``reason`` why,
    ``count`` how often."""

    op: str
    device: str
    types: tuple[str, ...]
    reason: str
    count: int

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.op}({', '.join(self.types)}) of {self.device} on the host, {times}: {self.reason}"


Key = tuple[str, str, tuple[str, ...], str]

_lock = new_lock()
_counts: dict[Key, int] = {}  # since the process began
_cleared: dict[Key, int] = {}  # as they were at the last clear
_traffic: dict[str, tuple[int, int]] = {}  # device that the inputs are on -> (ops, bytes of their inputs)
_strict: ContextVar[bool] = ContextVar("graph_runtime_strict", default=False)
_forbidden = 0  # depth of no_fallback, of the process: autograd goes backward in threads of its own
_refusals = 0  # that no_fallback() has raised
settlers: list[Callable[[bool], None]] = []  # wait for what is queued, and raise the first failure if asked


# **************** writing ****************


def refuse(
    op: str, device: object, types: tuple[str, ...], reason: str, error: BaseException | None = None
) -> None:
    """Raise where the host may not do an op: under strict() ``error``, which made the device fail, else
    UnsupportedOpError, as in no_fallback()."""
    what = f"{op}({', '.join(types)}) on {device}" if types else f"{op} on {device}"
    if _strict.get():
        if isinstance(error, GraphRuntimeError) and not isinstance(error, DocumentError):
            raise _forbidden_by_strict(error, what) from None
        text = f"{what}: {reason}; strict() forbids to do it on the host"
        raise UnsupportedOpError(text, op=op, device=str(device), got=types) from error
    if _forbidden:
        global _refusals
        _refusals += 1
        text = f"{what} would be done on the host: {reason}; no_fallback() forbids that"
        raise UnsupportedOpError(text, op=op, device=str(device), got=types) from error


def _forbidden_by_strict(error: GraphRuntimeError, what: str) -> GraphRuntimeError:
    made = afresh(error)
    made.add_note(f"{what}: strict() forbids to do it on the host")
    return made


def record(
    op: str,
    device: object,
    types: tuple[str, ...],
    reason: str,
    nbytes: int = 0,
    times: int = 1,
    back: object = None,
) -> None:
    """Count ops that the host did for ``device``; ``nbytes`` of their inputs; ``back``: where the results
    went, if elsewhere."""
    key = (op, str(device if back is None else back), types, reason)
    with _lock:
        if key not in _counts and len(_counts) >= _MOST:
            key = (op, key[1], (), "(one of more reasons than are kept)")
        _counts[key] = _counts.get(key, 0) + times
        count, before = _traffic.get(str(device), (0, 0))
        _traffic[str(device)] = (count + times, before + nbytes)


# **************** reading ****************


def fallbacks(clear: bool = False) -> list[Fallback]:
    """What was done on the host since the start, or the last ``clear``, in the order of its first time."""
    found = since(_cleared)
    if clear:
        with _lock:
            _cleared.clear()
            _cleared.update(_counts)
    return found


def since(before: dict[Key, int], until: dict[Key, int] | None = None) -> list[Fallback]:
    """What was done on the host between two totals; up to now without the second."""
    with _lock:
        now = dict(_counts if until is None else until)
        return [Fallback(*key, n - before.get(key, 0)) for key, n in now.items() if n > before.get(key, 0)]


def totals() -> tuple[dict[Key, int], dict[str, tuple[int, int]]]:
    """Of all since the process began: {what: how often}, and {device: (ops, bytes of their inputs)}."""
    with _lock:
        return dict(_counts), dict(_traffic)


# **************** forbidding ****************


@contextmanager
def strict(on: bool = True) -> Iterator[None]:
    """Inside this block (and thread, or asyncio task) an op that would be done on the host raises instead:
    what made it fail (KernelError, DeviceMemoryError, CompileError), else UnsupportedOpError."""
    token = _strict.set(on)
    try:
        yield
    finally:
        _strict.reset(token)


def _settle_all(tell: bool) -> None:
    for settle in settlers:
        settle(tell)


@contextmanager
def no_fallback() -> Iterator[None]:
    """Until this block ends, what the host would do raises UnsupportedOpError instead, in all threads.

    Both ends of the block wait for what is queued: an op whose kernel fails is told at the end at the latest,
    unless the block has told one already, and what was queued before it is still made by the host."""
    global _forbidden
    _settle_all(False)
    with _lock:
        _forbidden += 1
    before = _refusals
    try:
        yield
        _settle_all(before == _refusals)
    finally:
        with _lock:
            _forbidden -= 1


def forbidden() -> bool:
    """Whether the host may do nothing now, by strict() or no_fallback()."""
    return bool(_forbidden) or _strict.get()
