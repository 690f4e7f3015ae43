"""A replica's side of the connection to its server: it connects, and runs the received batches one by one.

    replica = Replica(runner, door, "digits-1")        its threads answer from now on
    replica.leave(seconds)                             answers its remaining batches, and ends

If the connection ends, it connects again; the server's queue runs the lost batches elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from functools import partial
from queue import SimpleQueue

from ..base.errors import ClusterError
from .batcher import RowBatch
from .clocks import now
from .runner import Reply, Runner
from .transport import limits
from .transport.connections import Connection, connect
from .transport.listening import Door
from .transport.messages import Header, Message, Tensors
from .transport.sockets import Tls

_END = 2.0  # seconds in which the thread must end


class Replica:
    """The replica. ``load``: the server's Batcher.load, as its last ping gave it. ``tls``: paths of this
    machine's certificate files, which may differ from the server's."""

    def __init__(self, runner: Runner, door: Door, name: str, tls: Tls | None = None):
        self.load = 0
        self._runner, self._door, self._name, self._tls = runner, door, name, tls
        self._connection: Connection | None = None
        self._over = threading.Event()
        self._came, self._ran = 0, 0  # numbers of batches received and run; each is counted by one thread
        self._batches: SimpleQueue[tuple[Connection, int, RowBatch] | None] = SimpleQueue()  # None: no more
        self._thread = threading.Thread(target=self._live, name="gr-replica", daemon=True)
        self._thread.start()
        threading.Thread(target=self._run_batches, name="gr-replica-run", daemon=True).start()

    def leave(self, seconds: float) -> None:
        """Tell the server to send no more batches, answer the present batches for at most ``seconds``, and
        end."""
        if self._connection is not None:
            self._send(self._connection, {"type": "leaving"})
        end = time.monotonic() + seconds
        time.sleep(limits.AGAIN / 2)  # for batches sent before the server learned that this replica leaves
        while self._came > self._ran and time.monotonic() < end:
            time.sleep(0.01)
        self.end()

    def end(self) -> None:
        """End its threads."""
        self._over.set()
        if self._connection is not None:
            self._connection.end()
        self._thread.join(_END)

    def _live(self) -> None:
        """Connect, and connect again whenever the connection ends. If the server has stopped sending pings,
        the link was cut."""
        while not self._over.is_set():
            with contextlib.suppress(OSError, EOFError, ClusterError):
                self._connection = connection = connect(self._door.address, self._door.key, self._tls)
                self._greet(connection)
                connection.serve(partial(self._hear, connection), limits.FORGOTTEN)
                connection.close()
            self._over.wait(limits.AGAIN)
        self._batches.put(None)

    # **************** messages ****************

    def _greet(self, connection: Connection) -> None:
        own = {"node": platform.node(), "pid": os.getpid(), "served": self._runner.served}
        self._send(connection, {"type": "hello", "name": self._name, **own})
        if self._over.is_set():
            connection.end()

    def _send(self, connection: Connection, head: Header, tensors: Tensors | None = None) -> None:
        """Send a message. Does nothing if the connection has ended, which its reader and the server
        notice."""
        with contextlib.suppress(OSError):
            connection.send(head, tensors)

    def _hear(self, connection: Connection, message: Message) -> None:
        head = message.header
        match head["type"]:
            case "ping":
                self.load = head["load"]
                self._send(connection, {"type": "pong", "clock": now()})
            case "run":
                batch = _batch(message)
                self._came += 1
                self._batches.put((connection, head["number"], batch))

    # **************** the thread of runs ****************

    def _run_batches(self) -> None:
        """Run batches one at a time, in order."""
        while (found := self._batches.get()) is not None:
            self._run(*found)
            self._ran += 1
            del found

    def _run(self, connection: Connection, number: int, batch: RowBatch) -> None:
        """Run a batch, and send an answer in any case."""
        begin = now()
        try:
            reply = self._runner.run(batch)
        except Exception as error:  # a bug of this package, reported in the answer
            reply = Reply({}, f"a replica failed: {error!r}")
        head = {"type": "ran", "number": number, "error": reply.error, "kernel": reply.kernel}
        head |= {"seconds": reply.seconds, "fallbacks": reply.fallbacks, "began": begin, "ended": now()}
        head |= {"events": reply.events, "zero": reply.zero}
        self._send(connection, head, reply.outputs)


def _batch(message: Message) -> RowBatch:
    head, arrays = message.header, message.tensors
    requests = tuple(
        {name: arrays[f"{at} {name}"] for name in head["names"]} for at in range(len(head["ids"]))
    )
    return RowBatch(tuple(head["ids"]), head["size"], head["filled"], requests, head["traced"])
