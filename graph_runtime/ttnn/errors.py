"""Errors of ttnn: RuntimeError with the text form of ttnn's checks, and Unsupported, which names what this
package declines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import DeviceMemoryError, GraphRuntimeError, KernelError, UnsupportedOpError

_FULL = "Out of Memory:"


class Unsupported(UnsupportedOpError):
    """A function, argument or combination of types that this package declines; ``op`` is the function's name
    in ttnn. The class is no RuntimeError, so that a test which expects ttnn to refuse a call does not pass
    because a function is missing.
    """

    def __init__(self, text: str, op: str = "", **fields: Any):
        super().__init__(text, op=op or called(), **fields)


def fatal(op: str, text: str) -> RuntimeError:
    """The error of a failed check of ``op``, in ttnn's form: the place of the check, then the message."""
    return RuntimeError(f"TT_FATAL @ {op}\ninfo:\n{text}")


def check(held: object, op: str, text: str) -> None:
    """Raise ttnn's RuntimeError with ``text`` unless ``held``."""
    if not held:
        raise fatal(op, text)


class _Call(threading.local):
    name = "ttnn"
    queue = 0


_call = _Call()


def called() -> str:
    """The name of the ttnn function that this thread is running."""
    return _call.name


def called_queue() -> int:
    """The command queue to which this thread sends its work."""
    return _call.queue


@contextmanager
def on_queue(number: int) -> Iterator[None]:
    """Send this thread's work to a command queue."""
    outer, _call.queue = _call.queue, number
    try:
        yield
    finally:
        _call.queue = outer


def failed(text: str) -> RuntimeError:
    """The error of a failed check (``fatal``) of the function that this thread is running."""
    return fatal(_call.name, text)


def mistaken(text: str) -> TypeError:
    """The TypeError of the function that this thread is running, for arguments that it does not take."""
    return TypeError(f"{_call.name}(): incompatible function arguments: {text}")


def expect(held: object, text: str) -> None:
    """Raise ttnn's RuntimeError (``check``), for the function that this thread is running, unless
    ``held``."""
    if not held:
        raise fatal(_call.name, text)


@contextmanager
def guarded(op: str, held: Callable[[str], str] | None = None) -> Iterator[None]:
    """Turn errors of this package into ttnn's: bad input and full memory become RuntimeErrors; a missing
    kernel becomes Unsupported, with the name of the ttnn function. ``held(text)`` gives words to add to the
    text of an error about full memory. Inside of the block, called() is ``op``."""
    outer, _call.name = _call.name, op
    try:
        yield
    except Unsupported:
        raise
    except UnsupportedOpError as error:
        raise Unsupported(f"{op} is not supported: {error}", op=op) from error
    except DeviceMemoryError as error:
        text = str(error)
        if not text.startswith(_FULL):
            text = f"{_FULL} Not enough space to allocate: {text}"
        raise fatal(op, text if held is None else text + held(text)) from error
    except KernelError:
        raise
    except (OverflowError, MemoryError) as error:
        raise fatal(
            op, f"{_FULL} Not enough space to allocate: this machine has no room for the size: {error}"
        ) from error
    except GraphRuntimeError as error:
        raise fatal(op, str(error)) from error
    finally:
        _call.name = outer
