"""The workers that a caller has, by the names of their nodes, and calls to them.

How members are made is a subclass' matter: actors of Ray (ray_fleet.py), or threads of this process
(``ThreadFleet``), which is what tests use, and what runs the part of a graph that is on the caller's own
devices.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from ...base.errors import ClusterError, DeviceError, WorkerLost, did_you_mean
from ..installation import this_installation
from ..transport import limits
from ..transport.messages import Message, write_message
from ..transport.sockets import LinkLost, Tls
from .cut import CALLER
from .fleet_members import FleetMember, WorkerGone, answer_of
from .link_calls import LinkCalls
from .worker import Worker

__all__ = ["SECONDS", "Fleet", "Terms", "ThreadFleet"]

SECONDS = 60.0  # of every wait, unless the caller says otherwise
_THREADS = 64
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Terms:
    """``deadline``: seconds of each wait. ``checkpoint_every``: runs after which state that runs write comes
    to the caller, 0: never."""

    deadline: float = SECONDS
    checkpoint_every: int = 0


class _ThreadMember(FleetMember):
    """A worker in this process."""

    def __init__(self, worker: Worker):
        super().__init__(worker.name)
        self.worker = worker
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"gr-worker-{worker.name or 'caller'}")

    def start(self, data: bytes) -> Future[bytes]:
        return self._submit(lambda: self.worker.call(data))

    def send(
        self, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray] | None, end: float
    ) -> Future[Message]:
        copied = {name: np.array(value) for name, value in (tensors or {}).items()}
        message = Message(dict(header), copied)
        return self._submit(lambda: answer_of(self.worker.answer(message)))

    def _submit(self, call: Callable[[], _T]) -> Future[_T]:
        def checked() -> _T:
            answer = None if self.gone else call()
            if self.gone or answer is None:
                raise WorkerGone(self.gone)
            return answer

        try:
            return self._pool.submit(checked)
        except RuntimeError:  # it was ended
            raise WorkerGone("it was ended") from None

    def end(self) -> None:
        self.worker.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


class _LinkedThread(_ThreadMember):
    """A worker in this process that is reached as one of another process is."""

    def __init__(self, worker: Worker, calls: LinkCalls):
        super().__init__(worker)
        self._calls = calls

    def send(
        self, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray] | None, end: float
    ) -> Future[Message]:
        return self._calls.call(self, header, tensors, end)

    def end(self) -> None:
        self._calls.lost(self, "it was ended")
        super().end()


class Fleet:
    """``folder``: where bundles are kept on this machine; ``host``, ``tls``: as Endpoint's, of this process.
    ``own``: the worker of this process, which is the end of the caller's links."""

    def __init__(self, folder: Path, host: str | None = None, tls: Tls | None = None):
        self.key = secrets.token_bytes(32)
        self.own = Worker(CALLER, self.key, folder, host, tls)
        self.calls = LinkCalls(self.own.endpoint)
        self.own.on_answer = self.calls.answered
        self._lock = threading.RLock()
        self._members: dict[str, FleetMember] = {}
        self._closed = False
        # what sessions that are gone leave: their members, and what these are told
        self.closing: SimpleQueue[tuple[Mapping[str, FleetMember], bytes] | None] = SimpleQueue()
        threading.Thread(
            target=_tell_of_closing, args=(self.closing,), name="gr-closing", daemon=True
        ).start()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    # **************** what a subclass says ****************

    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that are there, without the caller's own."""
        raise NotImplementedError

    def make(self, node: str) -> FleetMember:
        """A new worker on a node, or, where that is gone, on another one. Raises ClusterError."""
        raise NotImplementedError

    # **************** members ****************

    def member(self, node: str) -> FleetMember:
        """The worker of a node, made when it is first asked for, and where the last one ended. Raises
        DeviceError for a node that there is not, ClusterError where it cannot be started or is of another
        installation."""
        with self._lock:
            if self._closed:
                raise ClusterError("the cluster was closed: connect again")
            if node not in self._members or self._members[node].gone:
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
            header = {"do": "hello", "installation": str(this_installation())}
            said = self.ask(member, {**header, "caller": dict(self.own.endpoint.address)})
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
        self.calls.close()
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
        with _loss(member, seconds):
            started = member.start(write_message({**header, "seconds": seconds}, tensors))
            return answer_of(started.result(seconds + limits.LATE))

    def ask_by_link(
        self, member: FleetMember, header: Mapping[str, Any], seconds: float = SECONDS
    ) -> Message:
        """The same over the links, which may change nothing: where one breaks it is asked again. Raises
        LinkLost besides."""
        end = time.monotonic() + seconds
        for turn in range(limits.BREAKS + 1):
            with _loss(member, seconds):
                left = max(0.001, end - time.monotonic())
                try:
                    return member.send({**header, "seconds": left}, None, end).result(left + limits.LATE)
                except LinkLost:
                    if turn == limits.BREAKS:
                        raise
            time.sleep(0.1 * 2**turn)
        raise AssertionError("the last turn returns or raises")


@contextlib.contextmanager
def _loss(member: FleetMember, seconds: float) -> Iterator[None]:
    try:
        yield
    except (WorkerGone, FutureTimeout) as error:
        cause = str(error) or f"no answer in {seconds:.0f} s"
        text = f"the worker of {member.name or 'the caller'} was lost: {cause}"
        raise WorkerLost(text, worker=member.name, node=member.name, cause=cause) from None


def _tell_of_closing(closing: SimpleQueue[tuple[Mapping[str, FleetMember], bytes] | None]) -> None:
    while (said := closing.get()) is not None:
        for member in list(said[0].values()):
            with contextlib.suppress(WorkerGone):
                member.start(said[1])


class ThreadFleet(Fleet):
    """Workers that are threads of this process, one for each name; ``folder``: of all of them."""

    def __init__(self, names: tuple[str, ...], folder: Path):
        super().__init__(folder)
        self._names, self._folder = names, folder

    def nodes(self) -> tuple[str, ...]:
        return self._names

    def make(self, node: str) -> FleetMember:
        return _LinkedThread(Worker(node, self.key, self._folder), self.calls)
