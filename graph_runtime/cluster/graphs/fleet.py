"""The workers that a caller has, by the names of their nodes, and calls to them.

A ``FleetMember`` starts a call and gives a future of its answer; what ends the worker ends the future with
WorkerGone. How members are made is a subclass' matter: actors of Ray (ray_fleet.py), or threads of this
process (``ThreadFleet``), which is what tests use, and what runs the part of a graph that is on the
caller's own devices.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from ...base.errors import ClusterError, DeviceError, WorkerLost, did_you_mean
from ..installation import this_installation
from ..messages import Message, read_message, write_message
from .cut import CALLER
from .endpoint import Address, Tls
from .worker import Worker, decode_error

__all__ = ["SECONDS", "Fleet", "FleetMember", "ThreadFleet", "WorkerGone"]

SECONDS = 60.0  # of every wait, unless the caller says otherwise
_GRACE = 2.0  # seconds that an answer may be late: the worker itself answers at the deadline
_THREADS = 64


class WorkerGone(Exception):
    """The process of a worker ended; says what is known of why."""


class FleetMember:
    """A worker as its caller has it. ``address``: of its end of the links."""

    def __init__(self, name: str):
        self.name = name
        self.address: Address = {}

    def start(self, data: bytes) -> Future[bytes]:
        """Begin a call. The future raises WorkerGone where the worker ends before it answers."""
        raise NotImplementedError

    def end(self) -> None:
        """Stop the worker."""


class _ThreadMember(FleetMember):
    """A worker in this process. ``gone``: what a test says has ended it."""

    def __init__(self, worker: Worker):
        super().__init__(worker.name)
        self.worker, self.gone = worker, ""
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"gr-worker-{worker.name or 'caller'}")

    def start(self, data: bytes) -> Future[bytes]:
        try:
            return self._pool.submit(self._call, data)
        except RuntimeError:  # it was ended
            raise WorkerGone("it was ended") from None

    def _call(self, data: bytes) -> bytes:
        answer = b"" if self.gone else self.worker.call(data)
        if self.gone:
            raise WorkerGone(self.gone)
        return answer

    def end(self) -> None:
        self.worker.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


class Fleet:
    """``folder``: where bundles are kept on this machine; ``host``, ``tls``: as Endpoint's, of this process.
    ``own``: the worker of this process, which is the end of the caller's links."""

    def __init__(self, folder: Path, host: str | None = None, tls: Tls | None = None):
        self.key = secrets.token_bytes(32)
        self.own = Worker(CALLER, self.key, folder, host, tls)
        self._lock = threading.RLock()
        self._members: dict[str, FleetMember] = {}
        self._closed = False
        # what sessions that are gone leave: their members, and what these are told
        self.closing: SimpleQueue[tuple[Mapping[str, FleetMember], bytes] | None] = SimpleQueue()
        threading.Thread(
            target=_tell_of_closing, args=(self.closing,), name="gr-closing", daemon=True
        ).start()

    # **************** what a subclass says ****************

    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that are there, without the caller's own."""
        raise NotImplementedError

    def make(self, node: str) -> FleetMember:
        """A new worker on a node, or, where that is gone, on another one. Raises ClusterError."""
        raise NotImplementedError

    # **************** members ****************

    def member(self, node: str) -> FleetMember:
        """The worker of a node, made when it is first asked for. Raises DeviceError for a node that there is
        not, ClusterError where it cannot be started or is of another installation."""
        with self._lock:
            if self._closed:
                raise ClusterError("the cluster was closed: connect again")
            if node not in self._members:
                if node != CALLER and node not in (known := self.nodes()):
                    text = f"there is no node {node!r}{did_you_mean(node, known)}"
                    raise DeviceError(text, got=node, wanted=list(known))
                self._members[node] = self._greeted(node)
            return self._members[node]

    def replace(self, node: str, gone: FleetMember) -> FleetMember:
        """A worker in the place of one that is gone. Raises ClusterError."""
        with self._lock:
            if self._closed:
                raise ClusterError("the cluster was closed")
            if self._members.get(node, gone) is gone:  # none, where the last try failed
                self._members.pop(node, None)
                self._members[node] = self._greeted(node)
            return self._members[node]

    def _greeted(self, node: str) -> FleetMember:
        member = _ThreadMember(self.own) if node == CALLER else self.make(node)
        try:
            said = self.ask(member, {"do": "hello", "installation": str(this_installation())})
        except BaseException:
            if node != CALLER:
                member.end()
            raise
        member.address = said.header["address"]
        return member

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            self._closed = True
            members, self._members = list(self._members.values()), {}
        self.closing.put(None)
        for member in members:
            member.end()
        self.own.close()

    # **************** calls ****************

    def ask(
        self,
        member: FleetMember,
        header: Mapping[str, Any],
        tensors: Mapping[str, np.ndarray] | None = None,
        seconds: float = SECONDS,
    ) -> Message:
        """Call and wait. Raises what the worker raised, and WorkerLost where it ended or gave no answer."""
        started = member.start(write_message({**header, "seconds": seconds}, tensors))
        try:
            return answer_of(started.result(seconds + _GRACE))
        except (WorkerGone, FutureTimeout) as error:
            cause = str(error) or f"no answer in {seconds:.0f} s"
            text = f"the worker of {member.name or 'the caller'} was lost: {cause}"
            raise WorkerLost(text, worker=member.name, node=member.name, cause=cause) from None


def _tell_of_closing(closing: SimpleQueue[tuple[Mapping[str, FleetMember], bytes] | None]) -> None:
    while (said := closing.get()) is not None:
        for member in list(said[0].values()):
            with contextlib.suppress(WorkerGone):
                member.start(said[1])


def answer_of(data: bytes) -> Message:
    """What a worker answered. Raises the error that it says."""
    message = read_message(data)
    if "error" in message.header:
        raise decode_error(message.header["error"])
    return message


class ThreadFleet(Fleet):
    """Workers that are threads of this process, one for each name; ``folder``: of all of them."""

    def __init__(self, names: tuple[str, ...], folder: Path):
        super().__init__(folder)
        self._names, self._folder = names, folder

    def nodes(self) -> tuple[str, ...]:
        return self._names

    def make(self, node: str) -> FleetMember:
        return _ThreadMember(Worker(node, self.key, self._folder))
