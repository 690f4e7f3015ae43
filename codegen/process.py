"""Compilers that run: each in a session of its own, which ends as a whole: when the compiler ends, when its
time is over (GR_CC_TIMEOUT), or when what waits for it ends by an exception, as Ctrl-C is one."""

from __future__ import annotations

import mmap
import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ..base.config import get as setting
from ..base.errors import CompileError

__all__ = ["CommandPool", "Done", "run_alone"]

_MOST_SAID = 1 << 18  # bytes kept of what a compiler says; the rest is read and dropped
_ROOM = 24 << 20  # bytes that a thread's stack, and what it does first, fit into
_LAST_ROUNDS = 16  # reads of what a process said last
# Seconds after which a wait for a thread begins anew: a signal that comes as it begins sets CPython's flag
# and does not end it, so that Ctrl-C would be lost until the thread ends.
_ANEW = 0.1
_TICK = 0.02  # seconds between looks at a process, where the kernel cannot tell of its end


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended: its status (negative: the signal), and what it said."""

    status: int
    out: str
    err: str


class CommandPool:
    """Commands that run at the same time, on threads of their own: Ctrl-C interrupts the main thread, and
    none of those in the midst of starting a process. Left by an exception, it kills them all first."""

    def __init__(self, jobs: int = 1):
        self._pool = ThreadPoolExecutor(jobs)
        self._lock = threading.Lock()
        self._alive: set[int] = set()  # not reaped yet, so their numbers are theirs
        self._stopped = False

    def __enter__(self) -> CommandPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is not None:
            self.stop()
        self._pool.shutdown(cancel_futures=kind is not None)

    @property
    def stopped(self) -> bool:
        """Whether another step ended the build."""
        return self._stopped

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Call a function, which may use ``run``, on a thread. Raises CompileError where there is none."""
        try:
            # a thread that gets no memory as it begins hangs its starter
            mmap.mmap(-1, _ROOM, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
            return self._pool.submit(function, *args)
        except (OSError, MemoryError, RuntimeError) as error:
            raise CompileError(
                f"cannot start a thread that waits for the compiler: {error or 'no memory'}; give this "
                "process more memory (ulimit -v) or threads (ulimit -u)",
                got=str(error),
            ) from None

    def finished(self, steps: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
        """Each of ``steps`` when it has ended; Ctrl-C ends the wait."""
        left = set(steps)
        while left:
            done, left = wait(left, timeout=_ANEW, return_when=FIRST_COMPLETED)
            yield from done

    def result(self, step: Future[Any]) -> Any:
        """What a step returned or raised, once it has ended."""
        return next(self.finished([step])).result()

    def run(self, command: Sequence[str], folder: Path | None = None) -> Done:
        """Run a command to its end, in ``folder``, which has its temporary files too. Raises CompileError
        where it cannot be started or its time is over."""
        with self._lock:
            if self._stopped:
                raise CompileError("the compiler was not started, because another step ended the build")
            process = _start(command, folder)
            self._alive.add(process.pid)
        seconds = int(setting("CC_TIMEOUT"))
        out, err = b"", b""
        try:
            ended, out, err = _listen(process, seconds)
        finally:
            with self._lock:
                _kill(process.pid)  # what it started and left behind, too
                self._alive.discard(process.pid)
            status = process.wait()
            for pipe in _pipes(process):
                pipe.close()
        if self._stopped:
            raise CompileError("the compiler was ended, because another step ended the build")
        if not ended:
            raise CompileError(
                f"{shlex.join(command)} did not end within {seconds} s and was ended, with all that it "
                "started; where it needs longer, GR_CC_TIMEOUT gives it more seconds",
                got=seconds,
            )
        return Done(status, out.decode(errors="replace"), err.decode(errors="replace"))

    def stop(self) -> None:
        """Kill what runs; what waits for it raises."""
        with self._lock:
            self._stopped = True
            for pid in self._alive:
                _kill(pid)


def run_alone(command: Sequence[str], folder: Path | None = None) -> Done:
    """Run one command, as CommandPool.run."""
    with CommandPool() as running:
        done: Done = running.result(running.submit(running.run, command, folder))
        return done


def _start(command: Sequence[str], folder: Path | None) -> subprocess.Popen[bytes]:
    # LC_ALL: messages and --version must not depend on the user's language; SOURCE_DATE_EPOCH: nor __DATE__
    # on the time
    env = {**os.environ, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}
    if folder is not None:
        env["TMPDIR"] = str(folder)
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise CompileError(
            f"cannot start the C compiler {shlex.join(command)}: {error}; GR_CC names another",
            got=list(command),
        ) from None


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _listen(process: subprocess.Popen[bytes], seconds: int) -> tuple[bool, bytes, bytes]:
    """Read what a process says until it ends: (whether it did in time, stdout, stderr). Its pipes may stay
    open beyond its end, in what it started: nothing waits for those."""
    said = {pipe.fileno(): bytearray() for pipe in _pipes(process)}
    deadline = time.monotonic() + seconds if seconds > 0 else float("inf")
    with selectors.DefaultSelector() as selector, ExitStack() as stack:
        tick = None
        try:
            end = os.pidfd_open(process.pid)
            stack.callback(os.close, end)
            selector.register(end, selectors.EVENT_READ)
        except OSError:
            end, tick = -1, _TICK
        for pipe in said:
            os.set_blocking(pipe, False)
            selector.register(pipe, selectors.EVENT_READ)
        rounds = 0  # since its end: what it left behind may go on writing
        while True:
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            left = deadline - time.monotonic()
            rounds += ended
            waits = 0 if ended else min(max(left, 0), 3600 if tick is None else tick)
            ready = [key.fd for key, _ in selector.select(waits) if key.fd != end]
            for pipe in ready:
                if not _take(pipe, said[pipe]):
                    selector.unregister(pipe)
            if (ended and (not ready or rounds > _LAST_ROUNDS)) or (left <= 0 and not ended):
                out, err = (bytes(text) for text in said.values())
                return ended, out, err


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdout is not None  # _start asks for both
    assert process.stderr is not None
    return process.stdout, process.stderr


def _take(pipe: int, said: bytearray) -> bool:
    """Read what a pipe has; whether there may be more."""
    try:
        data = os.read(pipe, 1 << 16)
    except BlockingIOError:
        return True
    said += data[: max(0, _MOST_SAID - len(said))]
    return bool(data)
