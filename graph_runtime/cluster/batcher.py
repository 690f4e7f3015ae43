"""The queue of a model: requests wait here until a worker has room, run together if the model has a program
for that, and are answered or refused before their deadlines. If a worker is lost, another worker repeats its
run: requests have no state, and their inputs are kept until they are answered. A request that kills its
workers must not kill all of them: it runs alone after its second loss of a worker, and fails after
MOST_LOSSES.

    batcher = Batcher(served, pool)        pool: the workers
    outputs = await batcher.submit(id, inputs, deadline)

A batch is made when a worker can take it, so requests gather while all workers are busy. While a worker is
free, a request waits for others no longer than ``delay``. One event loop, no threads.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..base.errors import KernelError, RequestError, WorkerLost
from .batch_rows import choose_rows, split
from .metrics import ServingMetrics
from .ports import Served

ALONE_AFTER, MOST_LOSSES = 2, 6  # numbers of lost workers after which a request runs alone, and fails
Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class RowBatch:
    """A worker's task. ``requests``: the inputs of each request, which have ``filled`` rows together.
    ``size``: number of rows of the program that runs them. If ``size`` is 0, the task is one request, for the
    program of its shapes. ``ids``: the ids of the requests. ``traced``: whether the run is traced."""

    ids: tuple[str, ...]
    size: int
    filled: int
    requests: tuple[Mapping[str, np.ndarray], ...]
    traced: bool = False


# a function that is called with the outputs of a batch or with its error: WorkerLost, KernelError or another
# GraphRuntimeError
Done = Callable[[Outputs | BaseException], None]


class Pool(Protocol):
    """Workers, which may come and go."""

    @property
    def count(self) -> int:
        """Number of workers now."""

    @property
    def places(self) -> int:
        """The number of batches that all workers together can hold at a time."""

    def start(self, batch: RowBatch, done: Done) -> None:
        """Give a batch to a worker that does not have this batch yet; ``done`` is called once."""

    def watch(self, changed: Callable[[], None], load: Callable[[], int]) -> None:
        """Have ``changed`` called when the number of places changes. ``load`` returns Batcher.load at any
        time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a queue. ``queued``: most requests that wait; further requests are refused. ``delay``:
    seconds that a request waits for others while a worker is free."""

    queued: int = 256
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that a worker may be silent before its run is also given to a second worker. ``share``:
    fraction of the time left; ``least``: the least such time in seconds. A worker that is paused, or whose
    link is cut, is not dead and reports no error. The first answer counts."""

    share: float = 0.25
    least: float = 1.0

    def seconds(self, left: float) -> float:
        """The seconds after which a second worker gets the run. ``left``: seconds until the deadline."""
        return max(self.least, self.share * left)


@dataclass(slots=True, eq=False, repr=False)
class _Item:
    """A request, or a piece of a request that has more rows than the largest program."""

    id: str
    inputs: Mapping[str, np.ndarray]
    rows: int  # number of rows; 0 if the model does not run rows of requests together
    deadline: float
    answer: asyncio.Future[Outputs]
    since: float = field(default_factory=time.monotonic)
    losses: int = 0
    alone: bool = False


@dataclass(slots=True, eq=False, repr=False)
class _Run:
    """A batch given to one worker, or to two if the first is silent. ``tries``: number of workers that have
    the batch and may still answer."""

    items: list[_Item]
    batch: RowBatch
    deadline: float
    timer: asyncio.TimerHandle | None = None
    tries: int = 0
    doubled: bool = False
    over: bool = False


class Batcher:
    """The queue of one model. Not thread-safe."""

    def __init__(
        self,
        served: Served,
        pool: Pool,
        limits: Limits | None = None,
        metrics: ServingMetrics | None = None,
        patience: Patience | None = None,
    ):
        self.served, self.pool, self.limits = served, pool, limits or Limits()
        self.metrics, self.patience = metrics or ServingMetrics(), patience or Patience()
        self._queue: deque[_Item] = deque()
        self._running: set[_Run] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._open = True
        pool.watch(self._advance, lambda: self.load)

    @property
    def queued(self) -> int:
        """Number of requests that wait for a worker."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """The number of batches that workers run or hold ready."""
        return len(self._running)

    @property
    def load(self) -> int:
        """The number of batches that workers have, plus the number that the waiting requests would make."""
        rows = self.served.rows
        waiting = sum(item.rows for item in self._queue) if rows else len(self._queue)
        return len(self._running) + -(-waiting // (rows[-1] if rows else 1))

    async def submit(self, id: str, inputs: Mapping[str, np.ndarray], deadline: float) -> Outputs:
        """The outputs of a request, by name. ``deadline``: on the clock of time.monotonic().

        Raises RequestError: 400 for shapes without a program, 413 for too many rows, 429 if the queue is
        full, 503 while the queue closes, 504 at the deadline; WorkerLost; and any error of the run."""
        parts = self._parts(inputs)
        if not self._open:
            raise RequestError("the model is being stopped", status=503, retry_after=1)
        if self._queue and len(self._queue) + len(parts) > self.limits.queued:
            text = f"{len(self._queue)} requests are waiting already: send it again later"
            raise RequestError(text, status=429, retry_after=1, got=len(self._queue))
        loop = asyncio.get_running_loop()
        items = [_Item(id, part, rows, deadline, loop.create_future()) for part, rows in parts]
        self._queue.extend(items)
        left = max(0.0, deadline - time.monotonic())
        text = "no answer before the deadline"
        late = loop.call_later(left, lambda: _fail(items, RequestError(text, status=504)))
        self._advance()
        try:
            if len(items) == 1:
                return await items[0].answer
            found = await asyncio.gather(*(item.answer for item in items))
        finally:
            late.cancel()
            self._drop(items)
            self.metrics.queue.set(len(self._queue))
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}

    def _drop(self, items: list[_Item]) -> None:
        """Cancel the items of a request whose caller has gone, and remove those that still wait."""
        for item in items:
            item.answer.cancel()
            if item in self._queue:  # else a worker already has the item
                self._queue.remove(item)

    async def close(self, seconds: float) -> None:
        """Refuse new requests and answer those that are here; after ``seconds``, refuse the remaining
        requests."""
        self._open = False
        end = time.monotonic() + seconds
        while (self._queue or self._running) and time.monotonic() < end:
            await asyncio.sleep(0.01)
        error = RequestError("the server stops", status=503, retry_after=1)
        _fail(self._queue, error)
        self._queue.clear()
        for run in list(self._running):
            self._end(run, error)

    # **************** making batches ****************

    def _parts(self, inputs: Mapping[str, np.ndarray]) -> list[tuple[Mapping[str, np.ndarray], int]]:
        """One pair (inputs, number of rows) for the request; several pairs, one per piece, if the request has
        more rows than the largest program."""
        served = self.served
        if not served.rows:
            shapes = tuple(inputs[port.name].shape for port in served.inputs)
            if shapes not in served.shapes:
                has = " or ".join(str([list(shape) for shape in one]) for one in served.shapes[:4])
                text = f"there is no program for shapes {[list(s) for s in shapes]}, only for {has}"
                raise RequestError(text, got=shapes, wanted=served.shapes)
            return [(inputs, 0)]
        counts = {name: len(array) for name, array in inputs.items()}
        rows = next(iter(counts.values()))
        if len(set(counts.values())) > 1 or not rows:
            text = f"the inputs have {counts} rows: give all the same number, at least 1"
            raise RequestError(text, got=counts)
        most = served.rows[-1]
        if rows > most * self.limits.queued:
            wanted = most * self.limits.queued
            text = f"the request has {rows} rows, at most {wanted} are accepted: send it in parts"
            raise RequestError(text, status=413, got=rows, wanted=wanted)
        if rows <= most:
            return [(inputs, rows)]
        return [
            ({name: array[at : at + most] for name, array in inputs.items()}, min(most, rows - at))
            for at in range(0, rows, most)
        ]

    def _advance(self) -> None:
        """Begin batches while workers have places and a request has waited long enough."""
        while self._queue and len(self._running) < self.pool.places:
            if wait := self._delay_left():
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait, self._on_timer)
                break
            if items := self._take():
                self._begin(items)
        self.metrics.queue.set(len(self._queue))

    def _on_timer(self) -> None:
        self._timer = None
        self._advance()

    def _delay_left(self) -> float:
        """Seconds that the oldest request may still wait for others; 0 if it must not wait."""
        rows = self.served.rows
        waits = sum(item.rows for item in self._queue)
        if not rows or waits >= rows[-1] or self._queue[0].losses:
            return 0.0
        return max(0.0, self._queue[0].since + self.limits.delay - time.monotonic())

    def _take(self) -> list[_Item]:
        """The requests of the next batch, oldest first; requests that are already answered or cancelled are
        dropped."""
        while self._queue and self._queue[0].answer.done():
            self._queue.popleft()
        if not self._queue:
            return []
        first = self._queue.popleft()
        if not self.served.rows or first.alone:
            return [first]
        others = itertools.takewhile(lambda item: not item.alone, self._queue)
        most = self._size(first.rows, first.rows + sum(item.rows for item in others))
        taken, rows = [first], first.rows
        while self._queue and not self._queue[0].alone and rows + self._queue[0].rows <= most:
            item = self._queue.popleft()
            if not item.answer.done():
                taken.append(item)
                rows += item.rows
        return taken

    def _size(self, together: int, waiting: int) -> int:
        """The rows of the program for a queue of ``waiting`` rows, of which the first ``together`` belong to
        one request."""
        best = choose_rows(waiting, self.served.rows, self.served.seconds)
        return best if best >= together else next(size for size in self.served.rows if size >= together)

    # **************** running them ****************

    def _begin(self, items: list[_Item]) -> None:
        """Give a batch of requests to a worker."""
        rows = sum(item.rows for item in items)
        size = self._size(rows, rows) if self.served.rows else 0
        batch = RowBatch(tuple(item.id for item in items), size, rows, tuple(item.inputs for item in items))
        run = _Run(items, batch, max(item.deadline for item in items))
        self._running.add(run)
        left = max(0.0, run.deadline - time.monotonic())
        wait = min(left, self.patience.seconds(left))
        run.timer = asyncio.get_running_loop().call_later(wait, self._overdue, run)
        self._try(run)

    def _try(self, run: _Run) -> None:
        run.tries += 1
        self.pool.start(run.batch, lambda found: self._done(run, found))

    def _overdue(self, run: _Run) -> None:
        """Give a run to a second worker, too, if time is left: the first worker has been silent for long."""
        left = run.deadline - time.monotonic()
        if left <= 0 or run.doubled:
            self._end(run, RequestError("no worker answered before the deadline", status=504))
            return
        run.doubled = True
        run.timer = asyncio.get_running_loop().call_later(left, self._overdue, run)
        self.metrics.replays.add("silent")
        self._try(run)

    def _done(self, run: _Run, found: Outputs | BaseException) -> None:
        run.tries -= 1
        if not run.over and not (isinstance(found, BaseException) and run.tries):
            self._end(run, found)

    def _end(self, run: _Run, found: Outputs | BaseException) -> None:
        """Answer the requests of a run, or put them back if the worker was lost."""
        run.over = True
        if run.timer is not None:
            run.timer.cancel()
        self._running.discard(run)
        match found:
            case WorkerLost():
                self._replay(run.items, found)
            case KernelError():
                self._isolate(run.items, found)
            case BaseException():
                _fail(run.items, found)
            case _:
                self.metrics.ran(len(run.items), run.batch.filled, run.batch.size)
                self._answer(run.items, found)
        self._advance()

    def _answer(self, items: list[_Item], outputs: Outputs) -> None:
        if len(items) == 1:  # workers have dropped the padding
            _set(items[0], outputs)
            return
        counts = [item.rows for item in items]
        parts = {name: split(array, counts) for name, array in outputs.items()}
        for at, item in enumerate(items):
            _set(item, {name: part[at] for name, part in parts.items()})

    def _replay(self, items: list[_Item], error: WorkerLost) -> None:
        """Put requests back at the front of the queue, in their order; requests that have lost too many
        workers fail."""
        self.metrics.replays.add("lost", len(items))
        for item in reversed(items):
            item.losses += 1
            item.alone = item.losses >= ALONE_AFTER
            if item.losses >= MOST_LOSSES:
                text = f"request {item.id} lost {item.losses} workers; the last: {error.cause}"
                _fail([item], WorkerLost(text, worker=error.worker, cause=error.cause, requests=(item.id,)))
            else:
                self._queue.appendleft(item)

    def _isolate(self, items: list[_Item], error: KernelError) -> None:
        """Run each request of a batch alone from now on, because a kernel refused the values of one of
        them."""
        if len(items) == 1:
            _fail(items, error)
            return
        for item in reversed(items):
            item.alone = True
            self._queue.appendleft(item)


def _set(item: _Item, outputs: Outputs) -> None:
    if not item.answer.done():
        item.answer.set_result(outputs)


def _fail(items: Iterable[_Item], error: BaseException) -> None:
    for item in items:
        if not item.answer.done():
            item.answer.set_exception(error)
