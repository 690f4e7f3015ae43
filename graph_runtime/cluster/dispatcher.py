"""The server's side of its replicas: they connect to it and receive batches.

    dispatcher = Dispatcher(memory)
    await dispatcher.open()                           replicas connect to dispatcher.door
    workers = dispatcher.workers("digits-1")          the replicas that announce this name
    outputs = await workers.run(batch)

A replica on this machine connects by a Unix socket and reads inputs from shared memory; a replica on another
machine connects by TCP with TLS and the cluster's certificates. If a replica's connection ends, or the
replica is silent for ``limits.QUIET`` seconds, its batches are lost (WorkerLost) and the queue gives them to
other replicas.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ..base.errors import GraphRuntimeError, KernelError, WorkerLost
from .batcher import Done, RowBatch
from .clocks import ClockOffset, now
from .metrics import ServingMetrics
from .ports import Served
from .transport import limits
from .transport.connections import Connection
from .transport.listening import Door, Listener
from .transport.messages import Header, Message
from .transport.records import read_record
from .transport.shared_memory import SharedMemory
from .transport.sockets import Tls

PLACES = 2  # number of batches that a replica holds: one runs, the next starts when the first ends


@dataclass(eq=False)
class Remote:
    """The server's view of a replica. ``pending``: the batches that the replica has, by number. ``heard``:
    time of its last answer, by time.monotonic()."""

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
    pinged: int | None = None  # time by now() at which the unanswered ping was sent

    def __str__(self) -> str:
        return f"process {self.pid} on {self.node}"

    @property
    def takes(self) -> bool:
        """Whether the replica accepts batches."""
        return not (self.leaving or self.silent)


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    batch: RowBatch  # keeps the inputs, and so the inputs' memory, until the replica has answered
    done: Done
    sent: int


class Observer(Protocol):
    """A listener that is informed of runs."""

    def wants_events(self) -> bool:
        """Whether the next run should be traced."""

    def ran(self, remote: Remote, ids: Sequence[str], head: Header, sent: int) -> None:
        """Take note that a replica has answered a run for the requests ``ids``. ``head``: header of the
        answer; ``sent``: time at which the batch was sent, by now()."""


class Workers:
    """The replicas of one version of a model: the Pool of its Batcher. ``metrics`` receives run times."""

    def __init__(self, name: str, observer: Observer | None = None):
        self.name, self.remotes = name, list[Remote]()
        self.metrics = ServingMetrics()
        self.load: Callable[[], int] = lambda: 0
        self._watcher: Callable[[], None] = lambda: None
        self._observer = observer
        self._numbers = itertools.count()
        self._changed = asyncio.Event()
        self._waiting: list[tuple[RowBatch, Done]] = []

    @property
    def count(self) -> int:
        """Number of replicas that accept batches now."""
        return sum(remote.takes for remote in self.remotes)

    @property
    def places(self) -> int:
        """The number of batches that these replicas can hold at a time."""
        return PLACES * self.count

    def watch(self, changed: Callable[[], None], load: Callable[[], int]) -> None:
        """Have ``changed`` called when the number of places changes; the result of ``load`` is sent to
        replicas, which report it to Ray Serve."""
        self._watcher, self.load = changed, load

    async def first(self) -> Remote:
        """The replica that joined first. Waits until a replica has joined."""
        while not self.remotes:
            await self._changed.wait()
        return self.remotes[0]

    def start(self, batch: RowBatch, done: Done) -> None:
        """Give a batch to a replica that does not have the batch yet: of several such replicas, to the one
        with the fewest batches. If there is no such replica, the batch waits for one. ``done`` is called with
        the outputs, WorkerLost if the replica ended or is silent, or the error of the run."""
        free = [one for one in self.remotes if one.takes]
        others = [one for one in free if all(p.batch is not batch for p in one.pending.values())]
        remote = min(others, key=lambda one: len(one.pending), default=None)
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

    # **************** what replicas say ****************

    def join(self, remote: Remote) -> None:
        """Add a replica."""
        self.remotes.append(remote)
        self.change()

    def change(self) -> None:
        """Handle a change of the replicas: some have come, gone or fallen silent."""
        self._changed.set()
        self._changed = asyncio.Event()
        waiting, self._waiting = self._waiting, []
        for batch, done in waiting:
            self.start(batch, done)
        self._watcher()

    def lose(self, remote: Remote, cause: str) -> None:
        """Report the batches of a replica as lost."""
        lost = list(remote.pending.values())
        remote.pending.clear()
        for one in lost:
            text = f"a replica of {self.name} was lost: {remote}: {cause}"
            one.done(WorkerLost(text, worker=str(remote), cause=cause, requests=one.batch.ids))
        self.change()

    def answered(self, remote: Remote, message: Message) -> None:
        """Handle the answer to a batch; an answer to a batch that was given up is ignored."""
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
    """The server's end of the connections to all replicas. ``observer``: listener that is informed of each
    run; ``host`` and ``tls``: address and certificates, as in Listener. Used by one event loop."""

    def __init__(
        self,
        memory: SharedMemory | None = None,
        observer: Observer | None = None,
        host: str | None = None,
        tls: Tls | None = None,
    ):
        self._memory, self._observer, self._host, self._tls = memory, observer, host, tls
        self._workers: dict[str, Workers] = {}
        self._remotes: dict[Connection, Remote | None] = {}  # None: not yet announced, or being released
        self._listener: Listener | None = None
        self._pinging: asyncio.Task[None] | None = None

    @property
    def door(self) -> Door:
        """The address for replicas, known after open()."""
        assert self._listener is not None, "call open() first"
        return self._listener.door

    async def open(self) -> None:
        """Start listening. Raises LinkLost."""
        self._loop = asyncio.get_running_loop()
        key = secrets.token_bytes(32)
        self._listener = Listener("serve", key, self._let_in, self._host, self._tls)
        self._pinging = self._loop.create_task(self._ping())

    async def close(self) -> None:
        """Close all connections."""
        if self._pinging is not None:
            self._pinging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pinging
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._remotes):
            self._end(connection, "the server ends")

    def workers(self, name: str) -> Workers:
        """The replicas that announce the name ``name``."""
        return self._workers.setdefault(name, Workers(name, self._observer))

    def forget(self, name: str) -> None:
        """Stop serving a name: close the connections of the replicas that announce it."""
        workers = self._workers.pop(name)
        for remote in workers.remotes[:]:
            self._remotes[remote.connection] = None
            remote.connection.end("its model is no longer served")

    # **************** connections ****************

    def _let_in(self, connection: Connection) -> None:
        """Accept a connection whose other end has proved to have the key. Runs in that connection's
        thread."""
        try:
            self._loop.call_soon_threadsafe(self._begin, connection)
        except RuntimeError:  # the event loop has ended
            connection.close()

    def _begin(self, connection: Connection) -> None:
        self._remotes[connection] = None
        self._loop.add_reader(connection, self._read, connection)

    def _read(self, connection: Connection) -> None:
        cause = connection.serve(partial(self._hear, connection), 0.0)
        if cause is not None:
            self._end(connection, cause)

    def _greet(self, connection: Connection, head: Header) -> None:
        if head.get("name") not in self._workers:
            connection.end("this server has no model for it")
            return
        served = read_record(Served, head["served"])
        if self._memory is not None and connection.near:
            connection.share(self._memory)
        remote = Remote(connection, head["name"], head["node"], head["pid"], served)
        self._remotes[connection] = remote
        self._workers[remote.name].join(remote)

    def _hear(self, connection: Connection, message: Message) -> None:
        head, remote = message.header, self._remotes[connection]
        if remote is None:
            return self._greet(connection, head)
        workers = self._workers[remote.name]
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
        """Ping all replicas repeatedly, and mark those that do not answer."""
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
