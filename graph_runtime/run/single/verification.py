"""verify() lets the first results of kernels be checked; on_change() lets caches of calls be emptied when
calls become invalid."""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import InputError, did_you_mean

_MODES = ("off", "first")
_mode = "off"
_listeners: list[Callable[[], None]] = []


def verify(mode: str) -> None:
    """Set whether new kernels are checked, in the whole process. "first": the first result of each kernel
    signature (op, attributes, types, layouts, device) is compared with the op's numpy reference; if the
    result differs, the op is done on the host from then on, with that as the reason. The check costs a wait
    and a gather once for each signature. "off", the default: no check. Raises InputError for another mode."""
    global _mode
    if mode not in _MODES:
        text = f"verify takes {' or '.join(map(repr, _MODES))}, got {mode!r}{did_you_mean(mode, _MODES)}"
        raise InputError(text, got=mode, wanted=_MODES)
    _mode = mode
    changed()


def verifying() -> bool:
    """Whether the first results of new kernel signatures are compared with their reference."""
    return _mode == "first"


def on_change(listener: Callable[[], None]) -> None:
    """Call ``listener``, which empties a cache of calls, whenever earlier selections become invalid."""
    _listeners.append(listener)


def changed() -> None:
    """Tell all listeners that earlier selections are invalid."""
    for listener in _listeners:
        listener()
