"""Calls to workers over the links: a message there, an answer back, each by the link of its sender.

    calls = LinkCalls(endpoint)
    answer = calls.call(member, {"do": "run", ...}, tensors, end)        a future
    calls.answered(message)        what came with an answer in its header
    calls.lost(member, why)        its worker ended: what waits for it is told

A link has no word for a message that was lost with it. So a call that takes long is asked after by the other
way that there is to a worker, the one that keeps it alive: one that the worker does not have and whose answer
does not come was lost, and its caller begins it anew, as calls have ids and may be made twice.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError, WaitTimeoutError, afresh
from ..transport import limits
from ..transport.endpoint import Endpoint
from ..transport.messages import Message, write_message
from ..transport.sockets import LinkLost
from .fleet_members import FleetMember, WorkerGone, answer_of

__all__ = ["LinkCalls"]


@dataclass(slots=True, eq=False)
class _LinkCall:
    """``sent``: when the whole message was, by time.monotonic(); ``end`` of the wait."""

    member: FleetMember
    end: float
    sent: float = float("inf")
    noes: int = 0
    future: Future[Message] = field(default_factory=Future)


class LinkCalls:
    """The calls of one caller, by ``endpoint``. Any thread."""

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._under_way: dict[int, _LinkCall] = {}
        self._asked: set[FleetMember] = set()  # those that have not said yet what they have
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="gr-link-calls", daemon=True).start()

    def call(
        self,
        member: FleetMember,
        header: Mapping[str, Any],
        tensors: Mapping[str, np.ndarray] | None,
        end: float,
    ) -> Future[Message]:
        """See FleetMember.send; raises WaitTimeoutError besides, where the link takes nothing until
        ``end``."""
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
        """An answer came; one that is not waited for any more is dropped."""
        for call in self._taken([message.header["answer"]]):
            try:
                call.future.set_result(answer_of(message))
            except GraphRuntimeError as error:
                call.future.set_exception(afresh(error))

    def lost(self, member: FleetMember, why: str) -> None:
        """A worker ended."""
        with self._lock:
            member.gone = member.gone or why
            numbers = [number for number, call in self._under_way.items() if call.member is member]
        for call in self._taken(numbers):
            call.future.set_exception(WorkerGone(why))

    def close(self) -> None:
        """Nothing is answered any more."""
        self._closed.set()
        with self._lock:
            numbers = list(self._under_way)
        for call in self._taken(numbers):
            call.future.set_exception(WorkerGone("the cluster was closed"))

    def _taken(self, numbers: Collection[int]) -> list[_LinkCall]:
        """Those that are under way, which they are not any more: one of this class' methods answers them."""
        with self._lock:
            found = [self._under_way.pop(number, None) for number in numbers]
        return [call for call in found if call is not None]

    # **************** what was lost on the way ****************

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
