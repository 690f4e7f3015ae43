"""Runs of a graph over machines that are under way, as their caller has them."""

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

__all__ = ["Flight", "RemoteRun"]


@dataclass(slots=True, eq=False)
class Flight:
    """A run: its inputs, which are kept until it is answered, and what is known of it. ``fixed`` are inputs
    that it sets for all later runs, too, ``base`` those that were set by then; ``kept`` those that are
    outputs that stayed on the machine that reads them; ``end``: of the wait, by time.monotonic(); ``after``:
    the last run, it may be this one, that sets inputs for all later ones.
    ``attempt`` counts how often it was begun anew, ``losses`` and ``breaks`` why: machines, and links."""

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
        """Whether it was answered, or failed."""
        return self.future.done()


class RemoteRun:
    """One run over machines, as Run is one of this machine. ``outputs`` the RemoteTensors that it makes,
    there at once: reading one waits for it. ``name`` is the module's, ``id`` the request's."""

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
        """The request's name in errors."""
        return f"{self.name}#{self._flight.number}"

    def done(self) -> bool:
        """Whether nothing of it is still to come. Never waits, never raises."""
        return self._flight.over

    def wait(self, timeout: float | None = None) -> RemoteRun:
        """Until it is over; the run itself. Raises what its kernels raised, WorkerLost where a machine was
        lost and running it again did not help, or where none answered before the module's deadline, and
        WaitTimeoutError after ``timeout`` seconds: the run goes on."""
        self.exception(timeout)
        tell_failure(self._flight)
        return self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and return what ``wait`` would raise, None where nothing failed."""
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
    """Raise what failed in a run that is over, if anything did; the run keeps no frames of callers."""
    error = flight.future.exception()
    if isinstance(error, GraphRuntimeError):
        raise afresh(error)
    if error is not None:
        raise type(error)(*error.args)


def wait_for(flight: Flight, timeout: float | None, expire: Callable[[Flight], None]) -> None:
    """Until a run is over, at most until its deadline, when ``expire`` ends it. Raises WaitTimeoutError after
    ``timeout`` seconds."""
    left = flight.end - time.monotonic()
    try:
        flight.future.exception(max(0.0, left if timeout is None else min(left, timeout)))
    except FutureTimeout:
        if timeout is not None and timeout < left:
            raise WaitTimeoutError(
                f"run {flight.number} was not over after {timeout} s; it goes on"
            ) from None
        expire(flight)
