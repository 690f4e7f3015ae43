"""Compiler processes, each in its own session. The whole session is killed when the compiler ends, when its
time is over (GR_CC_TIMEOUT), or when the waiting caller gets an exception, such as Ctrl-C."""

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

_MOST_SAID = 1 << 18  # bytes of a compiler's output that are kept; the rest is dropped
_ROOM = 24 << 20  # bytes that are enough for a thread's stack and its start
_LAST_ROUNDS = 16  # most reads of output after a process has ended
# Seconds after which waiting for a thread starts again. A signal that arrives as a wait begins sets CPython's
# flag without ending the wait; without a timeout Ctrl-C would be noticed only when the thread ends.
_ANEW = 0.1
_TICK = 0.02  # seconds between polls of a process, on kernels that cannot report its end


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command: its exit status (negative: the signal that killed it), and its output."""

    status: int
    out: str
    err: str


class CommandPool:
    """Commands that run at the same time, each on its own thread, so that Ctrl-C, which interrupts the main
    thread, never interrupts the start of a process. If the block of a pool ends with an exception, all
    commands are killed first."""

    def __init__(self, jobs: int = 1):
        self._pool = ThreadPoolExecutor(jobs)
        self._lock = threading.Lock()
        self._alive: set[int] = set()  # processes that are not reaped yet: no other process has their pids
        self._stopped = False

    def __enter__(self) -> CommandPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is not None:
            self.stop()
        self._pool.shutdown(cancel_futures=kind is not None)

    @property
    def stopped(self) -> bool:
        """Whether an error in another step has ended the build."""
        return self._stopped

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run a function, which may call ``run``, on a thread. Raises CompileError if no thread can be
        started."""
        try:
            # if a new thread gets no memory, the thread that starts it hangs
            mmap.mmap(-1, _ROOM, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
            return self._pool.submit(function, *args)
        except (OSError, MemoryError, RuntimeError) as error:
            raise CompileError(
                f"cannot start a thread that waits for the compiler: {error or 'no memory'}; give this "
                "process more memory (ulimit -v) or threads (ulimit -u)",
                got=str(error),
            ) from None

    def finished(self, steps: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
        """Each of ``steps`` as it ends. Ctrl-C interrupts the wait."""
        left = set(steps)
        while left:
            done, left = wait(left, timeout=_ANEW, return_when=FIRST_COMPLETED)
            yield from done

    def result(self, step: Future[Any]) -> Any:
        """The result of a step, once it has ended. Raises the step's exception."""
        return next(self.finished([step])).result()

    def run(self, command: Sequence[str], folder: Path | None = None) -> Done:
        """Run a command to its end in ``folder``, where it also puts its temporary files. Raises CompileError
        if the command cannot be started or its time is over."""
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
                _kill(process.pid)  # kills also processes that the command left behind
                self._alive.discard(process.pid)
            status = process.wait()
            for pipe in _pipes(process):
                pipe.close()
        if self._stopped:
            raise CompileError("the compiler was ended, because another step ended the build")
        if not ended:
            raise CompileError(
                f"{shlex.join(command)} did not end within {seconds} s and was ended, with all that it "
                "started; if it needs longer, set GR_CC_TIMEOUT to more seconds",
                got=seconds,
            )
        return Done(status, out.decode(errors="replace"), err.decode(errors="replace"))

    def stop(self) -> None:
        """Kill the running commands; the callers that wait for them raise CompileError."""
        with self._lock:
            self._stopped = True
            for pid in self._alive:
                _kill(pid)


def run_alone(command: Sequence[str], folder: Path | None = None) -> Done:
    """Run one command to its end, as CommandPool.run does."""
    with CommandPool() as running:
        done: Done = running.result(running.submit(running.run, command, folder))
        return done


def _start(command: Sequence[str], folder: Path | None) -> subprocess.Popen[bytes]:
    # LC_ALL: messages and the output of --version do not depend on the user's language. SOURCE_DATE_EPOCH:
    # __DATE__ does not depend on the time.
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
        text = f"cannot start the C compiler {shlex.join(command)}: {error}; GR_CC names another"
        raise CompileError(text, got=list(command)) from None


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _listen(process: subprocess.Popen[bytes], seconds: int) -> tuple[bool, bytes, bytes]:
    """Read the output of a process until it ends: (whether it ended in time, stdout, stderr). Children of the
    process may keep its pipes open longer; they are not waited for."""
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
        rounds = 0  # reads since the process ended: its children may go on writing
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
    assert process.stdout is not None  # _start makes both pipes
    assert process.stderr is not None
    return process.stdout, process.stderr


def _take(pipe: int, said: bytearray) -> bool:
    """Append the available data of a pipe to ``said``; return whether more may come."""
    try:
        data = os.read(pipe, 1 << 16)
    except BlockingIOError:
        return True
    said += data[: max(0, _MOST_SAID - len(said))]
    return bool(data)
