"""Run: the handle of queued work.

run = session.submit({0: x})
y = run.outputs[0]          # at once; its values come later
run.wait()                  # or: await run
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...base.locks import new_lock
from ...base.showable import Showable
from ...binding.core import ffi, lib
from .buffer import SLICE_NS, check_timeout, error_of, wait_in_slices
from .limbo import keep_until

if TYPE_CHECKING:
    import asyncio


class Run(Showable):
    """One submission.

    ``outputs``: the tensors that the run makes, available at once; reading a tensor waits for its values.
    ``name``: the session's name. A failed run gives a warning if it is dropped before a caller has asked for
    its error. ``left()``: function that returns a text for the error, on the state of the run's inputs.
    ``pointer``: the ``gr_run *``."""

    __slots__ = ("__weakref__", "_asked", "_left", "name", "outputs", "pointer")

    name: str
    outputs: tuple[Any, ...]
    pointer: Any

    def __init__(
        self, pointer: Any, outputs: tuple[Any, ...] = (), name: str = "run", left: Callable[[], str] = str
    ):
        self.pointer, self.outputs, self.name, self._left = pointer, outputs, name, left
        self._asked = False

    def __repr__(self) -> str:
        state = "in flight" if not self.done() else "failed" if self._failed() else "done"
        return f"<Run of {self.name}, {state}>"

    def __del__(self) -> None:
        pointer, name = self.pointer, self.name
        if self._asked:
            lib.gr_run_release(pointer)
        elif lib.gr_run_done(pointer):
            _drop(pointer, name)
        else:
            keep_until(lambda: lib.gr_run_done(pointer), lambda: _drop(pointer, name))

    def done(self) -> bool:
        """Whether the whole run is over. Never waits or raises."""
        return bool(lib.gr_run_done(self.pointer))

    def wait(self, timeout: float | None = None) -> Run:
        """Wait until the run is over. Returns the run, so that ``submit().wait().outputs`` works. Raises
        KernelError with the first cause if a step failed, in this run or in another one that it reads from;
        RunCancelledError; WaitTimeoutError after ``timeout`` seconds; InputError for an invalid timeout. The
        run goes on after WaitTimeoutError and KeyboardInterrupt."""
        self._wait(timeout)
        if self._failed():
            self._asked = True
            raise _failure(self.pointer, self._left())
        return self

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait until the run is over, and return the error that ``wait`` would raise, None for success.
        Raises WaitTimeoutError."""
        self._wait(timeout)
        self._asked = True
        return _failure(self.pointer, self._left()) if self._failed() else None

    def forget(self) -> tuple[Any, ...]:
        """The outputs, for a caller that keeps them and drops the run. Reading an output raises the run's
        failure, so the run gives no warning."""
        self._asked = True
        return self.outputs

    def cancel(self) -> bool:
        """Skip the steps that have not begun; False if the run was over. Runs that read its outputs are
        cancelled, too. Does not wait."""
        if self.done():
            return False
        lib.gr_run_cancel(self.pointer)
        self._asked = True
        return True

    def __await__(self) -> Generator[Any, None, Run]:
        """Wait without blocking the event loop. Cancelling the task does not cancel the run. Raises the
        errors of wait."""
        if not self.done():
            yield from when_over(self.done).__await__()
        return self.wait()

    def _wait(self, timeout: float | None) -> None:
        check_timeout(timeout)
        if not lib.gr_run_done(self.pointer):
            wait_in_slices(
                lambda budget: lib.gr_run_wait(self.pointer, budget), timeout, f"a run of {self.name}"
            )

    def _failed(self) -> bool:
        return bool(lib.gr_run_failure(self.pointer, ffi.NULL))


def _failure(pointer: Any, left: str = "") -> Exception:
    found = ffi.new("gr_failure *")
    lib.gr_run_failure(pointer, found)
    return error_of(found, left)


def failure_of(pointer: Any) -> Callable[[], Exception | None]:
    """A function that returns the error of a C run, None while nothing has failed. The function keeps only
    the ``gr_run`` alive, and calling it does not count as asking for the error (Run.__del__)."""
    lib.gr_run_retain(pointer)
    held = ffi.gc(pointer, lib.gr_run_release)
    return lambda: _failure(held) if lib.gr_run_failure(held, ffi.NULL) else None


def _drop(pointer: Any, name: str) -> None:
    """Release a run, with a warning if it failed and its error was never asked for."""
    if lib.gr_run_failure(pointer, ffi.NULL) not in (0, lib.GR_ERR_CANCELLED):
        text = f"a run of {name} failed, and its error was never asked for: {_failure(pointer)}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    lib.gr_run_release(pointer)


# **************** asyncio ****************

_waiting: list[tuple[Callable[[], bool], asyncio.Future[Any]]] = []
_lock = new_lock()
_thread: threading.Thread | None = None


async def when_over(over: Callable[[], bool]) -> None:
    """Return when ``over()`` is true; it must become true at the end of some run. One thread watches for all
    event loops."""
    import asyncio  # takes longer to import than this package

    global _thread
    if lib.gr_async_usable():  # in a child of fork no run ends: waiting raises the error
        return
    future = asyncio.get_running_loop().create_future()
    with _lock:
        _waiting.append((over, future))
        if _thread is None:
            _thread = threading.Thread(target=_watch, name="gr-await", daemon=True)
            _thread.start()
    await future


def _watch() -> None:
    global _thread
    seen = lib.gr_runs_ended(0, 0)
    while True:
        with _lock:
            ended = [item for item in _waiting if item[1].cancelled() or _is_over(item[0])]
            _waiting[:] = [item for item in _waiting if item not in ended]
            if not _waiting:
                _thread = None
        for _, future in ended:
            with suppress(RuntimeError):  # the event loop is closed
                future.get_loop().call_soon_threadsafe(_set, future)
        if _thread is not threading.current_thread():
            return
        seen = lib.gr_runs_ended(seen, SLICE_NS)


def _is_over(over: Callable[[], bool]) -> bool:
    """Whether ``over()`` is true. An exception of ``over`` means that the handle is gone. This counts as
    true, because the owner gets the error by waiting."""
    try:
        return over()
    except Exception:
        return True


def _set(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
