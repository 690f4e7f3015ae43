"""The server's side of its replicas: they connect to it, and it hands batches to them.

    dispatcher = Dispatcher(memory)
    await dispatcher.open()                           replicas are told of dispatcher.door
    workers = dispatcher.workers("digits-1")          replicas that say this name are its
    outputs = await workers.run(batch)

A replica on this machine comes by a Unix socket and reads inputs from shared memory; one on another comes by
TCP, with TLS and the cluster's certificates. A replica whose connection ends, or that is silent for
``limits.QUIET`` seconds, has lost its batches: WorkerLost, and the queue runs them elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ..base.errors import GraphRuntimeError, KernelError, WorkerLost
from .batcher import Done, RowBatch
from .clocks import ClockOffset, now
from .metrics import ServingMetrics
from .ports import Served
from .transport import limits
from .transport.connections import Connection
from .transport.listening import Door, Listener
from .transport.messages import Message
from .transport.shared_memory import SharedMemory
from .transport.sockets import Tls

__all__ = ["PLACES", "Dispatcher", "Observer", "Remote", "Workers"]

PLACES = 2  # batches that a replica has: one runs, the next is there when it ends


@dataclass(eq=False)
class Remote:
    """A replica, as the server knows it. ``pending``: its batches by number. ``heard``: time.monotonic() of
    its last answer."""

    connection: Connection
    name: str
    node: str
    pid: int
    served: Served
    leaving: bool = False
    silent: bool = False
    heard: float = field(default_factory=time.monotonic)
    pending: dict[int, _Pending] = field(default_factory=dict)
    clock: ClockOffset = field(default_factory=ClockOffset)
    pinged: int | None = None  # now() of a ping without an answer

    def __str__(self) -> str:
        return f"process {self.pid} on {self.node}"

    @property
    def takes(self) -> bool:
        """Whether it gets batches."""
        return not (self.leaving or self.silent)


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    batch: RowBatch  # it keeps the inputs, and so their memory, until the replica has answered
    done: Done
    sent: int


class Observer(Protocol):
    """What is told of runs."""

    def wants_events(self) -> bool:
        """Whether the next run is to be traced."""

    def ran(self, remote: Remote, ids: Sequence[str], head: Mapping[str, Any], sent: int) -> None:
        """A run for requests was answered by a replica; ``head`` of its answer; ``sent``: now() then."""


class Workers:
    """The replicas of one version of a model: a Pool of its Batcher. ``metrics`` is told what runs took."""

    def __init__(self, name: str, observer: Observer | None = None):
        self.name, self.remotes = name, list[Remote]()
        self.metrics = ServingMetrics.unnamed()
        self.load: Callable[[], int] = lambda: 0
        self._watcher: Callable[[], None] = lambda: None
        self._observer = observer
        self._numbers = itertools.count()
        self._changed = asyncio.Event()
        self._waiting: list[tuple[RowBatch, Done]] = []

    @property
    def count(self) -> int:
        """Replicas that take batches now."""
        return sum(remote.takes for remote in self.remotes)

    @property
    def places(self) -> int:
        """Batches that they take at once."""
        return PLACES * self.count

    def watch(self, changed: Callable[[], None], load: Callable[[], int]) -> None:
        """Call ``changed`` where there are more places, or fewer; ``load`` is what replicas report."""
        self._watcher, self.load = changed, load

    async def first(self) -> Remote:
        """A replica, as soon as there is one."""
        while not self.remotes:
            await self._changed.wait()
        return self.remotes[0]

    def start(self, batch: RowBatch, done: Done) -> None:
        """Give a batch to the replica with the fewest that has not this one already, as soon as there is one.
        ``done`` is called with the outputs; WorkerLost where it ended or is silent; what the run raised."""
        remote = self._choose(batch)
        if remote is None:
            self._waiting.append((batch, done))
            return
        number = next(self._numbers)
        remote.pending[number] = _Pending(batch, done, now())
        head = {"type": "run", "number": number, "size": batch.size, "filled": batch.filled}
        head["traced"] = self._observer is not None and self._observer.wants_events()
        head |= {"ids": batch.ids, "names": list(batch.requests[0])}
        tensors = {f"{at} {name}": x for at, one in enumerate(batch.requests) for name, x in one.items()}
        remote.connection.post(head, tensors)

    def _choose(self, batch: RowBatch) -> Remote | None:
        free = [one for one in self.remotes if one.takes]
        others = [one for one in free if all(p.batch is not batch for p in one.pending.values())]
        return min(others, key=lambda one: len(one.pending), default=None)

    # **************** what replicas say ****************

    def join(self, remote: Remote) -> None:
        """A replica more."""
        self.remotes.append(remote)
        self.change()

    def change(self) -> None:
        """Replicas have come, gone, or fallen silent."""
        self._changed.set()
        self._changed = asyncio.Event()
        waiting, self._waiting = self._waiting, []
        for batch, done in waiting:
            self.start(batch, done)
        self._watcher()

    def lose(self, remote: Remote, cause: str) -> None:
        """Its batches are lost."""
        lost = list(remote.pending.values())
        remote.pending.clear()
        for one in lost:
            text = f"a replica of {self.name} was lost: {remote}: {cause}"
            one.done(WorkerLost(text, worker=str(remote), cause=cause, requests=one.batch.ids))
        self.change()

    def answered(self, remote: Remote, message: Message) -> None:
        """The answer to a batch, or to one that was given up."""
        head = message.header
        pending = remote.pending.pop(head["number"], None)
        if pending is None:
            return
        if head["error"]:
            pending.done((KernelError if head["kernel"] else GraphRuntimeError)(head["error"]))
            return
        self.metrics.run_seconds.observe(head["seconds"])
        self.metrics.fallbacks.add("", head["fallbacks"])
        if self._observer is not None:
            self._observer.ran(remote, pending.batch.ids, head, pending.sent)
        pending.done(dict(message.tensors))


class Dispatcher:
    """See the module. ``observer`` is told of each run; ``host``, ``tls``: as Listener's; one event loop."""

    def __init__(
        self,
        memory: SharedMemory | None = None,
        observer: Observer | None = None,
        host: str | None = None,
        tls: Tls | None = None,
    ):
        self._memory, self._observer, self._host, self._tls = memory, observer, host, tls
        self._workers: dict[str, Workers] = {}
        self._remotes: dict[Connection, Remote | None] = {}  # None: it has not said what it is, or is let go
        self._listener: Listener | None = None
        self._pinging: asyncio.Task[None] | None = None

    @property
    def door(self) -> Door:
        """Where replicas connect, once it is open."""
        assert self._listener is not None, "open() comes first"
        return self._listener.door

    async def open(self) -> None:
        """Listen. Raises LinkLost."""
        self._loop = asyncio.get_running_loop()
        key = secrets.token_bytes(32)
        self._listener = Listener("serve", key, self._let_in, self._host, self._tls)
        self._pinging = self._loop.create_task(self._ping())

    async def close(self) -> None:
        """Let go of all replicas."""
        if self._pinging is not None:
            self._pinging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pinging
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._remotes):
            self._end(connection, "the server ends")

    def workers(self, name: str) -> Workers:
        """The replicas that say that name."""
        return self._workers.setdefault(name, Workers(name, self._observer))

    def forget(self, name: str) -> None:
        """No replica says that name any more."""
        workers = self._workers.pop(name)
        for remote in workers.remotes[:]:
            self._remotes[remote.connection] = None
            remote.connection.end("its model is no longer served")

    # **************** connections ****************

    def _let_in(self, connection: Connection) -> None:
        """One has proved to have the key, in a thread of its own."""
        try:
            self._loop.call_soon_threadsafe(self._begin, connection)
        except RuntimeError:  # the loop has ended
            connection.close()

    def _begin(self, connection: Connection) -> None:
        self._remotes[connection] = None
        self._loop.add_reader(connection, self._read, connection)

    def _read(self, connection: Connection) -> None:
        cause = connection.serve(partial(self._on_message, connection), 0.0)
        if cause is not None:
            self._end(connection, cause)

    def _on_message(self, connection: Connection, message: Message) -> None:
        if (remote := self._remotes[connection]) is None:
            self._greet(connection, message.header)
        else:
            self._hear(remote, message)

    def _greet(self, connection: Connection, head: Mapping[str, Any]) -> None:
        if head.get("name") not in self._workers:
            connection.end("it is no replica of this server")
            return
        served = Served.from_json(head["served"])
        if self._memory is not None and connection.near:
            connection.share(self._memory)
        remote = Remote(connection, head["name"], head["node"], head["pid"], served)
        self._remotes[connection] = remote
        self._workers[remote.name].join(remote)

    def _hear(self, remote: Remote, message: Message) -> None:
        head, workers = message.header, self._workers[remote.name]
        remote.heard = time.monotonic()
        if remote.silent:
            remote.silent = False
            workers.change()
        match head["type"]:
            case "ran":
                workers.answered(remote, message)
            case "pong" if remote.pinged is not None:
                remote.clock.add(remote.pinged, head["clock"], now())
                remote.pinged = None
            case "leaving":
                remote.leaving = True
                workers.change()

    def _end(self, connection: Connection, cause: str) -> None:
        self._loop.remove_reader(connection)
        connection.close()
        remote = self._remotes.pop(connection)
        if remote is None or (workers := self._workers.get(remote.name)) is None:
            return
        if remote in workers.remotes:
            workers.remotes.remove(remote)
        workers.lose(remote, cause)

    async def _ping(self) -> None:
        """Ask all replicas now and then, and notice those that do not answer."""
        while True:
            for remote in filter(None, list(self._remotes.values())):
                workers, connection = self._workers[remote.name], remote.connection
                quiet = time.monotonic() - remote.heard
                if remote.pinged is None:
                    remote.pinged = now()
                    connection.post({"type": "ping", "load": workers.load()})
                elif quiet > limits.ABANDONED:
                    connection.end(f"silent for {quiet:.0f} s")
                elif quiet > limits.QUIET and not remote.silent:
                    remote.silent = True
                    workers.lose(remote, f"silent for {quiet:.1f} s")
            await asyncio.sleep(limits.PING)
