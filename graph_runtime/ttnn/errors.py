"""What ttnn raises: RuntimeError in the form of its checks, and Unsupported for what is declined by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..base.errors import DeviceMemoryError, GraphRuntimeError, KernelError, UnsupportedOpError

_FULL = "Out of Memory:"


class Unsupported(UnsupportedOpError):
    """A function, argument or combination of types that this module declines; ``op`` is its name in ttnn.
    It is no RuntimeError: what a test expects to be refused is never taken for what is not there."""


def fatal(op: str, text: str) -> RuntimeError:
    """The error of a failed check of ``op``, as ttnn words them: the check's place, then the message."""
    return RuntimeError(f"TT_FATAL @ {op}\ninfo:\n{text}")


def check(held: object, op: str, text: str) -> None:
    """Raise ttnn's RuntimeError with ``text`` unless ``held``."""
    if not held:
        raise fatal(op, text)


@contextmanager
def guarded(op: str, held: Callable[[str], str] | None = None) -> Iterator[None]:
    """Errors of this package as ttnn's: bad input and memory that is full are RuntimeErrors; what has no
    kernel stays Unsupported, under the name of the ttnn function. ``held``: what a text about full memory
    ends with."""
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
            op, f"{_FULL} Not enough space to allocate: sizes beyond this machine: {error}"
        ) from error
    except GraphRuntimeError as error:
        raise fatal(op, str(error)) from error
