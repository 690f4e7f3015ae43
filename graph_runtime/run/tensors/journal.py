"""Ops that the host did in a device's stead: one journal for eager operations, torch's, and ops of compiled
programs without a kernel on their device.

    refuse(op, device, types, reason)        called before the host does an op; raises if forbidden
    record(op, device, types, reason, ...)   called after the host did an op

    with no_fallback(): ...                  an op for the host raises UnsupportedOpError (all threads)
    with strict(): ...                       it raises the device's error (this thread or task)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ...base.errors import DocumentError, GraphRuntimeError, UnsupportedOpError, afresh
from ...base.locks import new_lock

_MOST = 4096  # number of different reasons that are kept


@dataclass(frozen=True, slots=True)
class Fallback:
    """Ops that were done on the host. ``op``: numpy's, the registry's or torch's name; ``device``: where the
    result was placed back ("host" if no device holds it); ``types``: types of the inputs; ``reason``: text
    that says why; ``count``: number of these ops.
    """

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
_counts: dict[Key, int] = {}  # counts since the process began
_cleared: dict[Key, int] = {}  # copy of _counts at the last clear
_traffic: dict[str, tuple[int, int]] = {}  # device of the inputs -> (ops, bytes of their inputs)
_strict: ContextVar[bool] = ContextVar("graph_runtime_strict", default=False)
_forbidden = 0  # nesting depth of no_fallback, in all threads: autograd goes backward in threads of its own
_refusals = 0  # number of errors raised by no_fallback()
settlers: list[Callable[[bool], None]] = []  # they wait for queued work; True: raise its failure


# **************** writing ****************


def refuse(
    op: str, device: object, types: tuple[str, ...], reason: str, error: BaseException | None = None
) -> None:
    """Raise an error if the host may not do an op. Under strict() the error is ``error``, the exception that
    made the device fail. If ``error`` is None, and in no_fallback(), an UnsupportedOpError is raised."""
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
    """Count ops that the host did for ``device``, with ``nbytes`` of inputs. ``back``: name of the place
    where the results went, if not to ``device``."""
    key = (op, str(device if back is None else back), types, reason)
    with _lock:
        if key not in _counts and len(_counts) >= _MOST:
            key = (op, key[1], (), "(one of more reasons than are kept)")
        _counts[key] = _counts.get(key, 0) + times
        count, before = _traffic.get(str(device), (0, 0))
        _traffic[str(device)] = (count + times, before + nbytes)


# **************** reading ****************


def fallbacks(clear: bool = False) -> list[Fallback]:
    """Ops done on the host since the start, or since the last ``clear``, in the order of their first
    occurrence."""
    found = since(_cleared)
    if clear:
        with _lock:
            _cleared.clear()
            _cleared.update(_counts)
    return found


def since(before: dict[Key, int], until: dict[Key, int] | None = None) -> list[Fallback]:
    """Ops done on the host between two results of totals(), ``before`` and ``until``; ``until`` None: up to
    now."""
    with _lock:
        now = dict(_counts if until is None else until)
        return [Fallback(*key, n - before.get(key, 0)) for key, n in now.items() if n > before.get(key, 0)]


def totals() -> tuple[dict[Key, int], dict[str, tuple[int, int]]]:
    """({(op, device, types, reason): count}, {device: (ops, bytes of their inputs)}) since the process
    began."""
    with _lock:
        return dict(_counts), dict(_traffic)


# **************** forbidding ****************


@contextmanager
def strict(on: bool = True) -> Iterator[None]:
    """Inside this block, in this thread or asyncio task, an op that would be done on the host raises an error
    instead: the error that made the device fail (KernelError, DeviceMemoryError, CompileError), or else
    UnsupportedOpError."""
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
    """Until this block ends, ops that the host would do raise UnsupportedOpError, in all threads. Queued work
    is waited for when the block begins and when it ends. So results queued before the block may still be made
    by the host, and the error of a kernel that fails inside is raised at the end at the latest, unless the
    block has raised such an error already."""
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
    """Whether the host may not do ops now, because of strict() or no_fallback()."""
    return bool(_forbidden) or _strict.get()
