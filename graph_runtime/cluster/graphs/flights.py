"""The caller's view of runs in flight of a graph over machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError, WaitTimeoutError, afresh
from ...run.queues.buffer import check_timeout
from ..transport.messages import Message
from .remote_tensor import RemoteTensor


@dataclass(slots=True, eq=False)
class Flight:
    """A run: its inputs, which are kept until the run is answered, and its progress. ``fixed``: inputs that
    the run sets for all later runs, too; ``base``: values of such inputs that earlier runs set. ``kept``:
    inputs that are outputs of earlier runs, still on the machine that reads them. ``end``: deadline of the
    wait, by time.monotonic(). ``after``: number of the last run, perhaps this run, that sets inputs for all
    later runs. ``attempt``: number of restarts. ``losses`` and ``breaks``: numbers of lost machines and of
    broken links, which caused the restarts."""

    number: int
    given: Mapping[str, np.ndarray]
    fixed: Mapping[str, np.ndarray]
    base: Mapping[str, np.ndarray]
    kept: Mapping[str, RemoteTensor]
    end: float
    after: int = -1
    checkpoint: bool = False
    attempt: int = 0
    losses: int = 0
    breaks: int = 0
    answers: dict[str, Message] = field(default_factory=dict)
    future: Future[None] = field(default_factory=Future)

    @property
    def over(self) -> bool:
        """Whether the run was answered, or failed."""
        return self.future.done()


class RemoteRun:
    """One run over machines, like Run on this machine. ``outputs``: RemoteTensors, available at once; reading
    the values of an output waits for the run. ``name``: name of the module; ``id``: name of this run in
    errors."""

    def __init__(
        self, name: str, flight: Flight, outputs: tuple[RemoteTensor, ...], expire: Callable[[Flight], None]
    ):
        self.name, self.outputs = name, outputs
        self._flight, self._expire = flight, expire

    def __repr__(self) -> str:
        flight = self._flight
        state = "in flight" if not flight.over else "failed" if flight.future.exception() else "done"
        return f"<RemoteRun {self.id}, {state}>"

    @property
    def id(self) -> str:
        """The name of the run in errors."""
        return f"{self.name}#{self._flight.number}"

    def done(self) -> bool:
        """Whether the run is over. Never waits, never raises."""
        return self._flight.over

    def wait(self, timeout: float | None = None) -> RemoteRun:
        """Wait until the run is over, and return it. Raises the errors of its kernels; WorkerLost if a
        machine was lost and repeating the run did not help, or if a machine gave no answer before the
        module's deadline; WaitTimeoutError after ``timeout`` seconds, while the run continues."""
        self.exception(timeout)
        tell_failure(self._flight)
        return self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and return the error that ``wait`` would raise; None if nothing failed."""
        check_timeout(timeout)
        wait_for(self._flight, timeout, self._expire)
        return self._flight.future.exception()

    def __await__(self) -> Generator[Any, None, RemoteRun]:
        """Wait without blocking the event loop. Raises as wait."""
        import asyncio

        left = max(0.0, self._flight.end - time.monotonic())
        waiting = asyncio.wait({asyncio.wrap_future(self._flight.future)}, timeout=left)
        yield from waiting.__await__()
        return self.wait()


def tell_failure(flight: Flight) -> None:
    """Raise the error of a finished run, if it failed. Each call raises a new error, so that the error kept
    in the run refers to no frames of callers."""
    error = flight.future.exception()
    if isinstance(error, GraphRuntimeError):
        raise afresh(error)
    if error is not None:
        raise type(error)(*error.args)


def wait_for(flight: Flight, timeout: float | None, expire: Callable[[Flight], None]) -> None:
    """Wait until a run is over or its deadline passes; at the deadline ``expire`` ends the run. Raises
    WaitTimeoutError after ``timeout`` seconds."""
    left = flight.end - time.monotonic()
    try:
        flight.future.exception(max(0.0, left if timeout is None else min(left, timeout)))
    except FutureTimeout:
        if timeout is not None and timeout < left:
            text = f"run {flight.number} was not over after {timeout} s; it continues"
            raise WaitTimeoutError(text) from None
        expire(flight)
