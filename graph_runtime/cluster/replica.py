"""A replica's side of its server: it connects, and runs the batches that come, one after the other.

    replica = Replica(runner, door, "digits-1")        its own thread answers from here on
    replica.leave(seconds)                             it answers what it has, and ends

Where the connection ends it connects again: the server's queue has run elsewhere what was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..base.errors import ClusterError
from .batcher import RowBatch
from .channel import Channel
from .clocks import now
from .doors import Door
from .event_loops import new_event_loop
from .messages import Message
from .runner import Reply, Runner
from .shared_memory import AttachedMemory

__all__ = ["Replica"]

_END = 2.0  # seconds in which the thread ends
_AGAIN = 0.5  # seconds between two tries to connect
_FORGOTTEN = 8.0  # seconds without a ping, after which a replica connects anew


class Replica:
    """See the module. ``load``: what the server has told of its queue: requests that wait or run."""

    def __init__(self, runner: Runner, door: Door, name: str):
        self.load = 0
        self._runner, self._door, self._name = runner, door, name
        self._channel: Channel | None = None
        self._ended = asyncio.Event()
        self._running, self._over = 0, False
        self._asked = time.monotonic()
        self._batches: SimpleQueue[tuple[Channel, int, RowBatch] | None] = SimpleQueue()  # None: the end
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._live, name="gr-replica", daemon=True)
        self._thread.start()
        threading.Thread(target=self._run_batches, name="gr-replica-run", daemon=True).start()

    def leave(self, seconds: float) -> None:
        """Ask for no more batches, answer those that are here, for ``seconds`` at most, and end."""
        self._loop.call_soon_threadsafe(self._send, {"type": "leaving"})
        end = time.monotonic() + seconds
        time.sleep(_AGAIN / 2)  # what the server sent before it heard of it
        while self._running and time.monotonic() < end:
            time.sleep(0.01)
        self.end()

    def end(self) -> None:
        """End its thread."""
        self._over = True
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_END)

    def _live(self) -> None:
        try:
            self._loop.run_until_complete(self._connect_again_and_again())
        finally:
            self._batches.put(None)
            self._loop.close()

    async def _connect_again_and_again(self) -> None:
        while not self._over:
            self._ended = asyncio.Event()
            with contextlib.suppress(OSError):
                await self._door.connect(lambda: Channel(self._on_message, self._on_end, self._on_begin))
                await self._watch()
            if not self._over:
                await asyncio.sleep(_AGAIN)
        if self._channel is not None:
            self._channel.abort("the replica ends")
            await asyncio.sleep(0)  # in which its socket is closed

    async def _watch(self) -> None:
        """Until the connection ends; a server that has stopped asking is one whose link is cut."""
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN):
                    await self._ended.wait()
            if time.monotonic() - self._asked > _FORGOTTEN and self._channel is not None:
                self._channel.abort("the server is silent")

    # **************** messages ****************

    def _on_begin(self, channel: Channel) -> None:
        self._channel, self._asked = channel, time.monotonic()
        own = {"node": platform.node(), "pid": os.getpid(), "served": self._runner.served.as_json()}
        self._send({"type": "hello", "token": self._door.token, "name": self._name, **own})

    def _on_end(self, channel: Channel, cause: str) -> None:
        self._channel = None
        self._ended.set()

    def _send(self, head: Mapping[str, Any]) -> None:
        if self._channel is not None:
            self._channel.send(head)

    def _on_message(self, channel: Channel, message: Message) -> None:
        head = message.header
        match head["type"]:
            case "welcome":
                self._send({"type": "shares", "memory": _attach(channel, head["memory"])})
            case "ping":
                self._asked, self.load = time.monotonic(), head["load"]
                self._send({"type": "pong", "clock": now()})
            case "run":
                batch = _batch(message)
                self._running += 1
                self._batches.put((channel, head["number"], batch))

    # **************** the thread of runs ****************

    def _run_batches(self) -> None:
        """One at a time, in their order."""
        while (found := self._batches.get()) is not None:
            self._run(*found)

    def _run(self, channel: Channel, number: int, batch: RowBatch) -> None:
        """An answer, whatever comes of it."""
        begin = now()
        try:
            reply = self._runner.run(batch)
        except Exception as error:  # a mistake of this package's, which the request is told of
            reply = Reply({}, f"a replica failed: {error!r}")
        head = {"type": "ran", "number": number, "error": reply.error, "kernel": reply.kernel}
        head |= {"seconds": reply.seconds, "fallbacks": reply.fallbacks, "began": begin, "ended": now()}
        head |= {"events": reply.events, "zero": reply.zero}
        with contextlib.suppress(RuntimeError):  # the loop has ended: the server knows
            self._loop.call_soon_threadsafe(self._answer, channel, head, reply.outputs)

    def _answer(self, channel: Channel, head: Mapping[str, Any], outputs: Mapping[str, np.ndarray]) -> None:
        self._running -= 1
        channel.send(head, outputs)


def _attach(channel: Channel, memory: Mapping[str, Any] | None) -> bool:
    """Whether the server's memory can be read here."""
    if memory is not None:
        with contextlib.suppress(ClusterError):  # the server is on another machine, or in a container
            channel.attach(AttachedMemory.by_name(tuple(memory["name"]), memory["size"]))
            return True
    return False


def _batch(message: Message) -> RowBatch:
    head, arrays = message.header, message.tensors
    requests = tuple(
        {name: arrays[f"{at} {name}"] for name in head["names"]} for at in range(len(head["ids"]))
    )
    return RowBatch(tuple(head["ids"]), head["size"], head["filled"], requests, head["traced"])
