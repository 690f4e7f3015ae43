"""What happens when the device cannot: strict() forbids the host, verify() asks for proof, and a journal
says what was done on the host, how often, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ..errors import InputError, did_you_mean
from ..locks import new_lock

__all__ = [
    "Fallback",
    "changed",
    "fallbacks",
    "is_strict",
    "on_change",
    "record",
    "strict",
    "verify",
    "verifying",
]

_MODES = ("off", "first")
_MOST = 4096  # reasons that are kept apart


@dataclass(frozen=True, slots=True)
class Fallback:
    """Ops that were done on the host: ``op`` (the numpy-like name), ``device`` the result was placed back
    on ("host" where no device holds it), ``types`` of the inputs, ``reason`` why, ``count`` how often."""

    op: str
    device: str
    types: tuple[str, ...]
    reason: str
    count: int

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.op}({', '.join(self.types)}) of {self.device} on the host, {times}: {self.reason}"


_lock = new_lock()
_counts: dict[tuple[str, str, tuple[str, ...], str], int] = {}
_strict: ContextVar[bool] = ContextVar("graph_runtime_strict", default=False)
_mode = "off"
_listeners: list[Callable[[], None]] = []


def record(op: str, device: str, types: tuple[str, ...], reason: str) -> None:
    """Count one op that was done on the host."""
    key = (op, device, types, reason)
    with _lock:
        if key not in _counts and len(_counts) >= _MOST:
            key = (op, device, (), "(one of more reasons than are kept)")
        _counts[key] = _counts.get(key, 0) + 1


def fallbacks(clear: bool = False) -> list[Fallback]:
    """What was done on the host since the start, or the last ``clear``, in the order of its first time."""
    with _lock:
        found = [Fallback(*key, count) for key, count in _counts.items()]
        if clear:
            _counts.clear()
    return found


@contextmanager
def strict(on: bool = True) -> Iterator[None]:
    """Inside this block (and thread, or asyncio task) an op that would be done on the host raises instead:
    what made it fail (KernelError, DeviceMemoryError, CompileError), else UnsupportedOpError."""
    token = _strict.set(on)
    try:
        yield
    finally:
        _strict.reset(token)


def is_strict() -> bool:
    """Whether this context is inside of strict()."""
    return _strict.get()


def verify(mode: str) -> None:
    """Whether new kernels are checked, in the whole process.

    "first": the first result of each kernel signature (op, attributes, types, layouts, device) is compared
    with the op's numpy reference; one that differs is done on the host from then on, with that reason. This
    costs a wait and a gather once a signature. "off", the default: no check.

    Raises InputError for another mode.
    """
    global _mode
    if mode not in _MODES:
        raise InputError(
            f"verify takes {' or '.join(map(repr, _MODES))}, got {mode!r}{did_you_mean(mode, _MODES)}",
            got=mode,
            wanted=_MODES,
        )
    _mode = mode
    changed()


def verifying() -> bool:
    """Whether new kernel signatures are compared with their reference."""
    return _mode == "first"


def on_change(listener: Callable[[], None]) -> None:
    """Call ``listener`` when what was selected does not hold any more: who keeps calls drops them then."""
    _listeners.append(listener)


def changed() -> None:
    """What was selected does not hold any more."""
    for listener in _listeners:
        listener()
