"""What a session over machines has under way: calls to the workers of its parts, their answers, and what is
done when a worker is lost. Inputs are kept until a run is answered, so that it can be begun anew
(recovery.py).
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any
from weakref import finalize

import numpy as np

from ...base.errors import GraphRuntimeError, WaitTimeoutError, WorkerLost
from ...base.options import Options
from ..transport import limits
from ..transport.messages import Message, write_message
from ..transport.sockets import LinkLost
from .fleet import Fleet, Terms
from .fleet_members import FleetMember, WorkerGone
from .flights import Flight, wait_for
from .opened_part import SET, STATE
from .part_opening import PartOpener, RemotePart
from .recovery import recover

__all__ = ["Flights"]

log = logging.getLogger(__name__)


class Flights:
    """The runs of one session. ``fixed`` {input: what it was set to}; ``following``: the number of the next
    run. ``lost_state`` {name: why} of state that is gone."""

    def __init__(
        self,
        fleet: Fleet,
        parts: Mapping[str, RemotePart],
        name: str,
        options: Options,
        terms: Terms,
    ):
        self.name, self.max_in_flight, self.deadline = name, options.max_in_flight, terms.deadline
        self.checkpoint_every = terms.checkpoint_every
        self._fleet, self._parts = fleet, parts
        self.module = f"{name}-{secrets.token_hex(4)}"
        self.state = {name: machine for machine, part in parts.items() for name in part.state}
        self._targets = {  # machines that each one's stages send to
            machine: sorted({to for stage in part.sheet["stages"] for to in stage["sends"]})
            for machine, part in parts.items()
        }
        self.fixed: dict[str, np.ndarray] = {}
        self.lost_state: dict[str, str] = {}
        self.dropped: deque[int] = deque()  # runs whose outputs are wanted no more
        self._lock = threading.RLock()
        self._recovering = threading.Lock()
        self._members: dict[str, FleetMember] = {}
        self._opener = PartOpener(fleet, self.module, options.threads, self.max_in_flight, self.deadline)
        self._log: dict[int, Flight] = {}  # runs that may have to be run again
        self._waiting: deque[Flight] = deque()
        self._following = 0
        self._setting = -1  # the last run that set inputs for all later ones
        self._unsure: dict[str, np.ndarray] = {}  # what one that failed may not have set
        self._saved: tuple[int, dict[str, np.ndarray]] = (-1, {})  # the last checkpoint
        self._snapshots: dict[int, dict[str, np.ndarray]] = {}  # later ones, while earlier runs are under way
        for machine in parts:
            self._members[machine] = self._opened(machine, parts[machine])
        # a finalizer may come in the middle of any call, so it makes none itself
        closing = (self._members, write_message({"do": "close", "module": self.module}))
        finalize(self, fleet.closing.put, closing).atexit = False

    def _opened(self, machine: str, part: RemotePart) -> FleetMember:
        """The worker of a machine, which has its part open: another one where it ended meanwhile. Raises what
        it raises."""
        member = self._fleet.member(machine)
        for last in (False, False, True):
            try:
                self._opener.open(machine, part, member, {})
                break
            except WorkerLost:
                if last:
                    raise
                member = self._fleet.replace(machine, member)
        return member

    def begin(
        self, given: Mapping[str, np.ndarray], fixed: Mapping[str, np.ndarray], kept: Mapping[str, Any]
    ) -> Flight:
        """A new run, not yet under way: launch() is next. Waits while ``max_in_flight`` are, for the
        oldest."""
        while len(self._waiting) >= self.max_in_flight:
            self._wait_oldest()
        with self._lock:
            number, every = self._following, self.checkpoint_every
            self._following += 1
            unsure, self._unsure = self._unsure, {}
            fixed = {**unsure, **fixed}
            self._setting = number if fixed else self._setting
            flight = Flight(
                number,
                given,
                fixed,
                {name: value for name, value in self.fixed.items() if name not in self.state},
                kept,
                time.monotonic() + self.deadline,
                self._setting,
                bool(every and self.state and (number + 1) % every == 0),
            )
            self._log[number] = flight
            self._waiting.append(flight)
        return flight

    def drain(self) -> None:
        """Wait until no run is under way. Raises nothing of theirs."""
        while self._waiting:
            self._wait_oldest()

    def ask(self, machine: str, header: Mapping[str, Any]) -> Message:
        """What the worker of a part has. Raises as Fleet.ask_by_link."""
        message = {**header, "module": self.module}
        return self._fleet.ask_by_link(self._members[machine], message, seconds=self.deadline)

    # **************** under way ****************

    def launch(self, flight: Flight) -> None:
        """Begin a run on all its machines."""
        attempt = flight.attempt
        with self._lock:
            over = min((one.number for one in self._waiting), default=self._following) - 1
            if self.state and self.checkpoint_every:
                over = min(over, self._saved[0])
            dropped = []
            while self.dropped:
                dropped.append(self.dropped.popleft())
            members = dict(self._members)
        for machine, member in members.items():
            part = self._parts[machine]
            values = {**flight.base, **flight.given} if attempt else flight.given
            tensors = {name: value for name, value in values.items() if name in part.inputs}
            tensors |= {SET + name: value for name, value in flight.fixed.items() if name in part.inputs}
            left = max(0.001, flight.end - time.monotonic())
            header = {
                "do": "run",
                "module": self.module,
                "run": flight.number,
                "attempt": attempt,
                "seconds": left,
                "after": flight.after,
                "over": over,
                "drop": dropped,
                "kept": {n: list(t.place) for n, t in flight.kept.items() if n in part.inputs},
                "checkpoint": flight.checkpoint and bool(part.state),
                "peers": {to: dict(members[to].address) for to in self._targets[machine]},
            }
            try:
                started = member.send(header, tensors, flight.end)
            except (WorkerGone, GraphRuntimeError) as error:
                self._went_wrong(flight, attempt, machine, member, error)
                return
            started.add_done_callback(partial(self._answered, flight, attempt, machine, member))

    def _answered(
        self, flight: Flight, attempt: int, machine: str, member: FleetMember, answer: Future[Message]
    ) -> None:
        """A machine's answer to a run came, or the machine went. Any thread."""
        try:
            message = answer.result()
        except CancelledError:
            return
        except (WorkerGone, GraphRuntimeError) as error:
            self._went_wrong(flight, attempt, machine, member, error)
            return
        with self._lock:
            if flight.attempt != attempt or machine in flight.answers:
                return
            flight.answers[machine] = message
            if set(flight.answers) != set(self._parts) or flight.over:
                return
            if flight.checkpoint:
                self._save(flight)
            self._settle(flight, None)

    def _went_wrong(
        self, flight: Flight, attempt: int, machine: str, member: FleetMember, error: Exception
    ) -> None:
        """A machine was not told of a run, or its answer is an error."""
        match error:
            case WorkerGone():
                self._lost(flight, attempt, machine, member, str(error))
            case LinkLost():
                self._again(flight, attempt, error)
            case WaitTimeoutError() if flight.attempt == attempt:
                self.expire(flight, str(error))
            case _ if flight.attempt == attempt:
                self._fail(flight, error)

    def _save(self, flight: Flight) -> None:
        """Keep the state that a run left, by its answers."""
        self._snapshots[flight.number] = {
            name.removeprefix(STATE): value
            for message in flight.answers.values()
            for name, value in message.tensors.items()
            if name.startswith(STATE)
        }

    def _forget(self) -> None:
        """What no loss asks for any more: where there are checkpoints, runs up to the last one that all runs
        before it have been answered for."""
        if not (self.state and self.checkpoint_every):
            self._log = {flight.number: flight for flight in self._waiting}
            return
        bound = min((flight.number for flight in self._waiting), default=self._following)
        usable = [number for number in self._snapshots if number < bound]
        if not usable:
            return
        self._saved = max(usable), self._snapshots[max(usable)]
        for number in usable:
            del self._snapshots[number]
        self._log = {number: one for number, one in self._log.items() if number > self._saved[0]}

    def _settle(self, flight: Flight, error: BaseException | None) -> None:
        """A run is over."""
        with self._lock:
            if flight.over:
                return
            if flight in self._waiting:
                self._waiting.remove(flight)
            self._forget()
            if error is not None:
                later = {name: self.fixed[name] for name in flight.fixed if name not in self.state}
                self._unsure |= later
            if error is None:
                flight.future.set_result(None)
            else:
                flight.future.set_exception(error.with_traceback(None))

    def _fail(self, flight: Flight, error: BaseException) -> None:
        """A run failed: no machine is to wait for it any longer."""
        self._settle(flight, error)
        self._call_off(flight, str(error))

    def _call_off(self, flight: Flight, why: str, attempt: int | None = None) -> None:
        """No machine is to wait any longer for what others send for a run, in attempts up to this one;
        without one, the run failed."""
        header = {
            "do": "cancel",
            "module": self.module,
            "run": flight.number,
            "attempt": flight.attempt if attempt is None else attempt,
            "why": why[:500],
            "failed": attempt is None,
            "sets": flight.after == flight.number,
        }
        for member in list(self._members.values()):
            try:
                member.start(write_message(header))
            except WorkerGone:
                continue  # it waits for nothing

    def expire(self, flight: Flight, why: str = "") -> None:
        """The deadline of a run is over."""
        with self._lock:
            silent = [machine or "the caller" for machine in self._parts if machine not in flight.answers]
        cause = why or f"no answer in {self.deadline:.0f} s"
        text = f"run {flight.number} of {self.name} was lost: {', '.join(silent)} gave no answer: {cause}"
        if self.state:
            text += f"; state {', '.join(map(repr, self.state))} may or may not have advanced"
        requests = (f"{self.name}#{flight.number}",)
        self._fail(flight, WorkerLost(text, worker=", ".join(silent), cause=cause, requests=requests))

    def _wait_oldest(self) -> None:
        try:
            flight = self._waiting[0]
        except IndexError:
            return
        wait_for(flight, None, self.expire)

    # **************** losses ****************

    def _again(self, flight: Flight, attempt: int, error: LinkLost) -> None:
        """A link between two machines broke: the run is begun anew, a few times, later and later: where the
        machine behind it is lost, Ray says so after some seconds, and another one takes its place."""
        with self._lock:
            if flight.attempt != attempt or flight.over:
                return
            flight.breaks += 1
            flight.attempt += 1
            flight.answers.clear()
        if flight.breaks > limits.BREAKS:
            requests = (f"{self.name}#{flight.number}",)
            self._fail(
                flight, WorkerLost(str(error), worker=str(error.got), cause=str(error), requests=requests)
            )
            return
        log.warning("run %s of %s begins anew: %s", flight.number, self.name, error)
        threading.Timer(0.1 * 2**flight.breaks, self._launch_again, (flight, flight.attempt)).start()

    def _launch_again(self, flight: Flight, attempt: int) -> None:
        if flight.attempt == attempt and not flight.over:  # else another machine came meanwhile
            self.launch(flight)

    def _lost(self, flight: Flight, attempt: int, machine: str, member: FleetMember, cause: str) -> None:
        """A worker is gone under a run; a thread does what is to be done about it."""
        if self._fleet.closed:
            self._give_up(machine, [flight], "the cluster was closed", ())
            return
        words = (flight, attempt, machine, member, cause)
        threading.Thread(target=self._recover, args=words, name="gr-recover", daemon=True).start()

    def _recover(self, flight: Flight, attempt: int, machine: str, gone: FleetMember, cause: str) -> None:
        with self._recovering:
            with self._lock:
                if self._members[machine] is not gone:  # its successor is there: this run came in between
                    stranded = flight.attempt == attempt and not flight.over
                    again, flight.attempt = [flight] if stranded else [], flight.attempt + stranded
                else:
                    again = None
            if again is None:
                again = self._replace(machine, gone, cause)
        for one in again:
            if self.lost_state and not one.over:
                self._give_up(machine, [one], cause, ())
            else:
                self.launch(one)

    def _replace(self, machine: str, gone: FleetMember, cause: str) -> list[Flight]:
        """Have another worker in the place of one that is gone. Returns the runs that are to begin anew."""
        part = self._parts[machine]
        with self._lock:
            waiting = [flight for flight in self._log.values() if not flight.over]
            for flight in waiting:
                flight.losses += 1
                flight.attempt += 1
                flight.answers.clear()
            found = recover(
                part.state,
                [flight.number for flight in waiting],
                {flight.number: flight.losses for flight in waiting},
                self._following,
                self._saved[0] if self.checkpoint_every else None,
            )
        log.warning("the worker of %s is gone (%s): %s", machine or "the caller", cause, found)
        for flight in waiting:
            self._call_off(flight, "it begins anew", flight.attempt - 1)
        successor = gone
        for last in (False, False, True):  # it may be what ends them
            try:
                successor = self._fleet.replace(machine, successor)
                self._reopen(machine, successor, found.first, found.lost)
                break
            except GraphRuntimeError as error:
                if isinstance(error, WorkerLost) and not last:
                    continue
                self._give_up(machine, waiting, f"{cause}; {error}", part.state)
                with self._lock:
                    self._members[machine] = successor
                return []
        self._give_up(machine, [one for one in waiting if one.number in found.failed], cause, found.lost)
        with self._lock:
            self._members[machine] = successor
            again = [self._log[number] for number in found.again if number in self._log]
            for flight in again:
                flight.attempt += flight.over  # of one that is answered only what it leaves is wanted
        return again

    def _reopen(self, machine: str, member: FleetMember, first: int, lost: Collection[str]) -> None:
        """The part of a machine, on the one that takes its place, as it was before run ``first``."""
        values = {name: value for name, value in self.fixed.items() if name not in self._parts[machine].state}
        if not lost:
            state = {n: self.fixed[n] for n in self._parts[machine].state if n in self.fixed}
            values |= {**state, **self._saved[1]} if self._saved[0] >= 0 else state
        words = {"first": first, "known": self._following - 1}
        self._opener.open(machine, self._parts[machine], member, values, **words)

    def _give_up(self, machine: str, flights: Sequence[Flight], cause: str, state: Collection[str]) -> None:
        """Fail runs for the loss of a machine, and remember the state that went with it."""
        name = machine or "the caller"
        with self._lock:
            self.lost_state |= dict.fromkeys(state, f"{name} was lost: {cause}")
        requests = tuple(f"{self.name}#{flight.number}" for flight in flights)
        text = f"the worker of {name} was lost: {cause}"
        if state:
            text += (
                f"; with it state {', '.join(map(repr, sorted(state)))}: set it again, or ask for checkpoints"
            )
        for flight in flights:
            self._fail(flight, WorkerLost(text, worker=name, cause=cause, requests=requests))
