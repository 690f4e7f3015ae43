"""Calls to workers over the links. A request goes over the caller's link to the worker, its answer over the
worker's link to the caller.

    calls = LinkCalls(endpoint)
    answer = calls.call(member, {"do": "run", ...}, tensors, end)        a future
    calls.answered(message)        a message with an answer in its header
    calls.lost(member, why)        the worker ended: its waiting calls fail

A link that breaks does not report which messages were lost. So if a call takes long, the caller asks the
worker about the call, over the connection that keeps the worker alive. If the worker does not have the call
and no answer comes, the call was lost. The caller then repeats the call. This is safe: a run changes state
only once, however often it is requested, and other requests change nothing.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from ...base.errors import GraphRuntimeError, WaitTimeoutError, afresh
from ..transport import limits
from ..transport.endpoint import Endpoint
from ..transport.messages import Header, Message, Tensors, read_message, write_message
from ..transport.sockets import Address, LinkLost
from .worker import decode_error


class WorkerGone(Exception):
    """The process of a worker has ended; the error text gives the cause, if known."""


class FleetMember:
    """The caller's view of the worker of node ``name``. ``calls``: the caller's calls over links.
    ``address``: address of the worker's end of the links. ``gone``: the reason why the worker ended, "" while
    it runs."""

    def __init__(self, name: str, calls: LinkCalls):
        self.name, self.calls, self.gone = name, calls, ""
        self.address: Address = {}

    def start(self, data: bytes) -> Future[bytes]:
        """Begin a call that opens or ends something, over the connection that keeps the worker alive.
        WorkerGone is raised, here or by the future, if the worker ends before it answers."""
        raise NotImplementedError

    def send(self, header: Header, tensors: Tensors | None, end: float) -> Future[Message]:
        """Begin a run, or request the results of a run, over the links. ``end``: end of the wait, by
        time.monotonic(). This call or its future raises the worker's error, WorkerGone if the worker ends, or
        LinkLost if the message or its answer was lost on the way."""
        return self.calls.call(self, header, tensors, end)

    def end(self) -> None:
        """Stop the worker."""


def answer_of(message: bytes | Message) -> Message:
    """The answer that a worker gave. Raises the error that the answer contains."""
    said = read_message(message) if isinstance(message, bytes) else message
    if "error" in said.header:
        raise decode_error(said.header["error"])
    return said


@dataclass(slots=True, eq=False)
class _LinkCall:
    """A call without an answer yet. ``sent``: time at which the whole message was sent, by time.monotonic();
    ``end``: end of the wait, by the same clock."""

    member: FleetMember
    end: float
    sent: float = float("inf")
    noes: int = 0
    future: Future[Message] = field(default_factory=Future)


class LinkCalls:
    """The calls of one caller, over ``endpoint``. Thread-safe."""

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._under_way: dict[int, _LinkCall] = {}
        self._asked: set[FleetMember] = set()  # workers that have been asked about their calls
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="gr-link-calls", daemon=True).start()

    def call(
        self, member: FleetMember, header: Header, tensors: Tensors | None, end: float
    ) -> Future[Message]:
        """As FleetMember.send; raises WaitTimeoutError, too, if the link accepts nothing until ``end``."""
        number, made = next(self._numbers), _LinkCall(member, end)
        with self._lock:
            if self._closed.is_set() or member.gone:
                raise WorkerGone(member.gone or "the cluster was closed")
            self._under_way[number] = made
        try:
            self._endpoint.send(member.address, {**header, "call": number}, tensors, end)
        except BaseException:
            self._taken([number])
            raise
        made.sent = time.monotonic()
        return made.future

    def answered(self, message: Message) -> None:
        """Handle an answer; an answer to a call that is over is dropped."""
        for call in self._taken([message.header["answer"]]):
            try:
                call.future.set_result(answer_of(message))
            except GraphRuntimeError as error:
                call.future.set_exception(afresh(error))

    def lost(self, member: FleetMember, why: str) -> None:
        """Fail the calls of a worker that ended."""
        with self._lock:
            member.gone = member.gone or why
            numbers = [number for number, call in self._under_way.items() if call.member is member]
        for call in self._taken(numbers):
            call.future.set_exception(WorkerGone(why))

    def close(self) -> None:
        """Fail all calls: there will be no answers."""
        self._closed.set()
        with self._lock:
            numbers = list(self._under_way)
        for call in self._taken(numbers):
            call.future.set_exception(WorkerGone("the cluster was closed"))

    def _taken(self, numbers: Collection[int]) -> list[_LinkCall]:
        """The calls of these numbers that have no answer yet. They are removed from the table, so that only
        this method's caller answers them."""
        with self._lock:
            found = [self._under_way.pop(number, None) for number in numbers]
        return [call for call in found if call is not None]

    # **************** messages lost on the way ****************

    def _watch(self) -> None:
        while not self._closed.wait(limits.TURN):
            now = time.monotonic()
            late: dict[FleetMember, list[int]] = {}
            with self._lock:
                over = [number for number, call in self._under_way.items() if now > call.end + limits.LATE]
                for number, call in self._under_way.items():
                    if now > call.sent + limits.LONG and call.member not in self._asked:
                        late.setdefault(call.member, []).append(number)
                self._asked |= late.keys()
            for call in self._taken(over):
                call.future.set_exception(WaitTimeoutError("no answer came before the deadline"))
            for member, numbers in late.items():
                self._ask_after(member, numbers)

    def _ask_after(self, member: FleetMember, numbers: list[int]) -> None:
        try:
            asked = member.start(write_message({"do": "underway", "calls": numbers}))
        except WorkerGone as error:
            self.lost(member, str(error))
            return
        asked.add_done_callback(partial(self._said, member, numbers))

    def _said(self, member: FleetMember, numbers: Collection[int], answer: Future[bytes]) -> None:
        try:
            there = set(answer_of(answer.result()).header["calls"])
        except WorkerGone as error:
            self.lost(member, str(error))
            return
        except GraphRuntimeError:
            there = set(numbers)
        missed = []
        with self._lock:
            self._asked.discard(member)
            for number in numbers:
                if (call := self._under_way.get(number)) is not None:
                    call.noes = 0 if number in there else call.noes + 1
                    missed += [number] if call.noes >= limits.NOES else []
        for call in self._taken(missed):
            text = f"the link to {member.name}: a message or its answer was lost on the way"
            call.future.set_exception(LinkLost(text, got=member.name))
