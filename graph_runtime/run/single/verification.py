"""verify() asks new kernels for proof; on_change tells caches of calls when they do not hold any more."""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import InputError, did_you_mean

__all__ = ["changed", "on_change", "verify", "verifying"]

_MODES = ("off", "first")
_mode = "off"
_listeners: list[Callable[[], None]] = []


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
    """Call ``listener`` when what was selected does not hold any more: a cache of calls is emptied then."""
    _listeners.append(listener)


def changed() -> None:
    """What was selected does not hold any more."""
    for listener in _listeners:
        listener()
