"""A stand-in for ``loguru`` if that is not installed: ttnn's own wheel requires loguru, and tutorials and
tests of ttnn begin with ``from loguru import logger``. Lines go to stderr in loguru's default form."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

# loguru's levels and their numbers
_LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "SUCCESS": 25, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}


class Logger:
    """loguru's methods; a sink is stderr or a callable. ``opt``, ``bind`` and ``patch`` return the same
    logger."""

    def __init__(self) -> None:
        self._sinks: dict[int, tuple[Any, int]] = {0: (None, _LEVELS["DEBUG"])}
        self._silent: set[str] = set()

    def log(self, level: Any, message: Any, *args: Any, **kwargs: Any) -> None:
        """Write a line of a level; the message is formatted if there are arguments."""
        self._write(level, message, args, kwargs)

    def _write(self, level: Any, message: Any, args: Any, kwargs: Any) -> None:
        number = _LEVELS.get(str(level).upper(), level if isinstance(level, int) else _LEVELS["INFO"])
        frame = inspect.currentframe()
        while frame is not None and frame.f_globals.get("__name__") == __name__:
            frame = frame.f_back
        module = "" if frame is None else str(frame.f_globals.get("__name__"))
        if any(module == name or module.startswith(f"{name}.") for name in self._silent):
            return
        text = str(message).format(*args, **kwargs) if args or kwargs else str(message)
        place = module if frame is None else f"{module}:{frame.f_code.co_name}:{frame.f_lineno}"
        line = f"{datetime.now():%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" | {level!s:<8} | {place} - {text}\n"
        for sink, least in list(self._sinks.values()):
            if number >= least:
                (sys.stderr.write if sink is None else sink)(line)

    def exception(self, message: Any, *args: Any, **kwargs: Any) -> None:
        """Write a line of the level ERROR, and the exception that is being handled."""
        self._write("ERROR", message, args, kwargs)
        sys.stderr.write(traceback.format_exc())

    # **************** sinks ****************

    def add(self, sink: Any = None, *_: Any, level: Any = "DEBUG", **__: Any) -> int:
        """Also write lines of ``level`` and higher levels to a stream or a callable; return the number of
        this sink. Raises ValueError for a file's name."""
        write = getattr(sink, "write", sink)
        if write is not None and not callable(write):
            raise ValueError(
                f"writing to a file needs loguru: pip install loguru, or give a stream, not {sink!r}"
            )
        number = max(self._sinks, default=-1) + 1
        self._sinks[number] = (write, _LEVELS.get(str(level).upper(), level if isinstance(level, int) else 0))
        return number

    def remove(self, number: int | None = None) -> None:
        """Remove the sink ``number``, or all sinks if ``number`` is None."""
        if number is None:
            self._sinks.clear()
        else:
            del self._sinks[number]

    def disable(self, name: str) -> None:
        self._silent.add(name)

    def enable(self, name: str) -> None:
        self._silent.discard(name)

    def opt(self, *_: Any, **__: Any) -> Logger:
        return self

    bind = patch = opt

    @contextmanager
    def contextualize(self, **_: Any) -> Iterator[None]:
        yield

    def catch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that logs the exceptions of ``function`` and does not raise them."""

        @functools.wraps(function)
        def caught(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception:
                self.exception(f"An error has been caught in function {function.__name__!r}")

        return caught

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.upper() not in _LEVELS or name != name.lower():
            raise AttributeError(name)
        return functools.partial(self.log, name.upper())


logger = Logger()
