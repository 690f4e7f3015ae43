"""Run: the handle of work that is queued.

run = session.submit({0: x})
y = run.outputs[0]          # at once; its values come later
run.wait()                  # or: await run
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ...base.locks import new_lock
from ...base.showable import Showable
from ...binding.core import ffi, lib
from .buffer import check_timeout, error_of, wait_in_slices
from .limbo import keep_until

if TYPE_CHECKING:
    import asyncio

__all__ = ["Run", "failure_of", "when_over"]

_SLICE_NS = 50_000_000


class Run(Showable):
    """One submission.

    ``outputs`` the tensors it makes, there at once: reading one waits for it. ``name`` is the session's. A
    run that failed and was never asked is warned about when it is dropped. ``left()``: what its error says
    besides, of what the run left in its inputs. ``pointer`` the ``gr_run *``.
    """

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
        """Whether nothing of it is still to come. Never waits, never raises."""
        return bool(lib.gr_run_done(self.pointer))

    def wait(self, timeout: float | None = None) -> Run:
        """Until it is over; the run itself, so that ``submit().wait().outputs`` reads.

        Raises KernelError with the first cause where a step failed, or one of another run that it reads from;
        RunCancelledError; WaitTimeoutError after ``timeout`` seconds: the run goes on, as it does after
        KeyboardInterrupt; InputError for what is no timeout.
        """
        self._wait(timeout)
        if self._failed():
            self._asked = True
            raise _failure(self.pointer, self._left())
        return self

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait, and return what ``wait`` would raise, None where nothing failed. Raises WaitTimeoutError."""
        self._wait(timeout)
        self._asked = True
        return _failure(self.pointer, self._left()) if self._failed() else None

    def forget(self) -> tuple[Any, ...]:
        """The outputs, for a caller that keeps them instead of the run. Reading one tells of a failure, so
        dropping the run does not warn."""
        self._asked = True
        return self.outputs

    def cancel(self) -> bool:
        """Leave out what has not begun; False where it was over already. What reads its outputs is cancelled
        too. Does not wait."""
        if self.done():
            return False
        lib.gr_run_cancel(self.pointer)
        self._asked = True
        return True

    def __await__(self) -> Generator[Any, None, Run]:
        """Wait without blocking the event loop. Cancelling the task leaves the run alone. Raises as wait."""
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
    """What tells how a run of C's went: None while nothing of it failed, and where it went well. Keeps
    nothing but the ``gr_run``, and does not count as asking (Run.__del__)."""
    lib.gr_run_retain(pointer)
    held = ffi.gc(pointer, lib.gr_run_release)
    return lambda: _failure(held) if lib.gr_run_failure(held, ffi.NULL) else None


def _drop(pointer: Any, name: str) -> None:
    """Warn of a run that failed and was never asked."""
    if lib.gr_run_failure(pointer, ffi.NULL) not in (0, lib.GR_ERR_CANCELLED):
        warnings.warn(
            f"a run of {name} failed and nobody asked: {_failure(pointer)}", RuntimeWarning, stacklevel=3
        )
    lib.gr_run_release(pointer)


# **************** asyncio ****************

_waiting: list[tuple[Callable[[], bool], asyncio.Future[Any]]] = []
_lock = new_lock()
_thread: threading.Thread | None = None


async def when_over(over: Callable[[], bool]) -> None:
    """Come back when ``over()``, which the end of some run makes true. One thread watches for all loops."""
    import asyncio  # takes longer to import than all of us

    global _thread
    if lib.gr_async_usable():  # in a child of fork no run ends: the waiter gets an error
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
            _wake(future)
        if _thread is not threading.current_thread():
            return
        seen = lib.gr_runs_ended(seen, _SLICE_NS)


def _is_over(over: Callable[[], bool]) -> bool:
    """What raises is over, too: the handle is gone, and its owner hears of it where he waits."""
    try:
        return over()
    except Exception:
        return True


def _set(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)


def _wake(future: asyncio.Future[Any]) -> None:
    try:
        future.get_loop().call_soon_threadsafe(_set, future)
    except RuntimeError:  # that loop is closed
        pass
