"""The workers of a caller, one for each name of a node, and calls to them.

Subclasses make the members: actors of Ray (ray_fleet.py), or threads of this process (``ThreadFleet``, used
by tests). A thread also runs the part of a graph on the caller's own devices.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from ...base.errors import ClusterError, DeviceError, InputError, WorkerLost, did_you_mean
from ..installation import this_installation
from ..transport import limits
from ..transport.messages import Header, Message, Tensors, write_message
from ..transport.sockets import LinkLost, Tls
from .cut import CALLER
from .link_calls import FleetMember, LinkCalls, WorkerGone, answer_of
from .worker import Worker

SECONDS = 60.0  # seconds of every wait, by default
_THREADS = 64
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a module's runs. ``deadline``: longest time of each wait, in seconds. ``checkpoint_every``:
    number of runs after which the state that runs write is copied to the caller; 0: the state is never
    copied. Raises InputError."""

    deadline: float = SECONDS
    checkpoint_every: int = 0

    def __post_init__(self) -> None:
        seconds, runs = self.deadline, self.checkpoint_every
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e7:
            raise InputError(f"deadline must be a positive number of seconds, got {seconds!r}", got=seconds)
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 0:
            raise InputError(f"checkpoint_every must be a number of runs, 0 or more, got {runs!r}", got=runs)


class _ThreadMember(FleetMember):
    """A worker in this process, called like a worker in another process."""

    def __init__(self, worker: Worker, calls: LinkCalls):
        super().__init__(worker.name, calls)
        self.worker = worker
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"gr-worker-{worker.name or 'caller'}")

    def start(self, data: bytes) -> Future[bytes]:
        try:
            return self._pool.submit(self._answer, data)
        except RuntimeError:  # the worker was stopped
            raise WorkerGone("it was stopped") from None

    def _answer(self, data: bytes) -> bytes:
        answer = b"" if self.gone else self.worker.call(data)
        if self.gone:
            raise WorkerGone(self.gone)
        return answer

    def end(self) -> None:
        self.calls.lost(self, "it was stopped")
        self.worker.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


class Fleet:
    """The workers of one caller. ``folder``: folder for bundles on this machine. ``host`` and ``tls``:
    address and certificates of this process, as in Endpoint. ``own``: the worker of this process, which is
    the caller's end of the links."""

    def __init__(self, folder: Path, host: str | None = None, tls: Tls | None = None):
        self.key = secrets.token_bytes(32)
        self.own = Worker(CALLER, self.key, folder, host, tls)
        self.calls = LinkCalls(self.own.endpoint)
        self.own.on_answer = self.calls.answered
        self._lock = threading.RLock()
        self._members: dict[str, FleetMember] = {}
        self._closed = False
        # (members, message) of each module that is gone: the message is still to be sent to the members
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
        """Names of the present nodes, without the caller."""
        raise NotImplementedError

    def make(self, node: str) -> FleetMember:
        """A new worker on a node, or on another node if that node is gone. Raises ClusterError."""
        raise NotImplementedError

    # **************** members ****************

    def member(self, node: str) -> FleetMember:
        """The worker of a node, started when first needed and again after it ended. Raises DeviceError for an
        unknown node, ClusterError if the worker cannot be started or has another installation."""
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
        """The worker that replaces ``gone``, a worker that has ended. Raises ClusterError."""
        with self._lock:
            if self._closed:
                raise ClusterError("the cluster was closed")
            if self._members.get(node, gone) is gone:  # the member is missing if the last attempt failed
                self._members.pop(node, None)
                self._members[node] = self._greeted(node)
            return self._members[node]

    def _greeted(self, node: str) -> FleetMember:
        member = _ThreadMember(self.own, self.calls) if node == CALLER else self.make(node)
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
        self, member: FleetMember, header: Header, tensors: Tensors | None = None, seconds: float = SECONDS
    ) -> Message:
        """The answer to a call, awaited. Raises the worker's error, and WorkerLost if the worker ended or
        gave no answer."""
        with _loss(member, seconds):
            started = member.start(write_message({**header, "seconds": seconds}, tensors))
            return answer_of(started.result(seconds + limits.LATE))

    def ask_by_link(self, member: FleetMember, header: Header, seconds: float = SECONDS) -> Message:
        """Like ask, but over the links. The request must change nothing, because it is repeated if a link
        breaks. Raises LinkLost, too."""
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
    """Workers in threads of this process, one per node name. ``folder``: folder for bundles, shared by all
    workers."""

    def __init__(self, names: tuple[str, ...], folder: Path):
        super().__init__(folder)
        self._names, self._folder = names, folder

    def nodes(self) -> tuple[str, ...]:
        return self._names

    def make(self, node: str) -> FleetMember:
        return _ThreadMember(Worker(node, self.key, self._folder), self.calls)
