"""Runs in flight of a session over machines: calls to the workers that have parts of the graph, answers of
the workers, and recovery from the loss of a worker. The inputs of a run are kept until the run is answered,
so that the run can be restarted (recovery.py)."""

from __future__ import annotations

import contextlib
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
from ..transport.messages import Header, Message, write_message
from ..transport.sockets import LinkLost
from .fleet import Fleet, Terms
from .flights import Flight, wait_for
from .link_calls import FleetMember, WorkerGone
from .opened_part import SET, STATE
from .part_opening import PartOpener, RemotePart
from .recovery import recover

log = logging.getLogger(__name__)


class Flights:
    """The runs of one session. ``fixed`` {input: current value}: inputs that hold for all later runs.
    ``lost_state`` {name: reason}: state that is gone."""

    def __init__(
        self, fleet: Fleet, parts: Mapping[str, RemotePart], name: str, options: Options, terms: Terms
    ):
        self.name, self.max_in_flight, self.deadline = name, options.max_in_flight, terms.deadline
        self.checkpoint_every = terms.checkpoint_every
        self._fleet, self._parts = fleet, parts
        self.module = f"{name}-{secrets.token_hex(4)}"
        self.state = {name: machine for machine, part in parts.items() for name in part.state}
        self._targets = {  # machine -> machines to which its stages send
            machine: sorted({to for stage in part.sheet.stages for to in stage.sends})
            for machine, part in parts.items()
        }
        self.fixed: dict[str, np.ndarray] = {}
        self.lost_state: dict[str, str] = {}
        self.dropped: deque[int] = deque()  # runs whose outputs are no longer needed
        self._lock = threading.RLock()
        self._recovering = threading.Lock()
        self._members: dict[str, FleetMember] = {}
        self._opener = PartOpener(fleet, self.module, options.threads, self.max_in_flight, self.deadline)
        self._log: dict[int, Flight] = {}  # runs that may have to be repeated
        self._waiting: deque[Flight] = deque()
        self._following = 0
        self._setting = -1  # number of the last run that set inputs for all later runs
        self._unsure: dict[str, np.ndarray] = {}  # inputs that a failed run may have left unset
        self._saved: tuple[int, dict[str, np.ndarray]] = (-1, {})  # (run, state) of the last checkpoint
        self._snapshots: dict[int, dict[str, np.ndarray]] = {}  # state of later checkpoints, by run
        for machine in parts:
            self._members[machine] = self._opened(machine, parts[machine])
        # a finalizer may run in the middle of any call, so a finalizer only queues the message
        closing = (self._members, write_message({"do": "close", "module": self.module}))
        finalize(self, fleet.closing.put, closing).atexit = False

    def _opened(self, machine: str, part: RemotePart) -> FleetMember:
        """The worker of a machine, with the machine's part open. If a worker ends while it opens the part,
        another one is started. Raises the worker's errors."""
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
        """A new run, not yet started: call launch() next. If ``max_in_flight`` runs are in flight, first
        waits for the oldest run."""
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
        """Wait until no run is in flight. Raises no errors of runs."""
        while self._waiting:
            self._wait_oldest()

    def ask(self, machine: str, header: Header) -> Message:
        """Request something from the worker of a part. Raises as Fleet.ask_by_link."""
        message = {**header, "module": self.module}
        return self._fleet.ask_by_link(self._members[machine], message, seconds=self.deadline)

    # **************** in flight ****************

    def launch(self, flight: Flight) -> None:
        """Start a run on all its machines."""
        attempt = flight.attempt
        with self._lock:
            over = min((one.number for one in self._waiting), default=self._following) - 1
            if self.state and self.checkpoint_every:
                over = min(over, self._saved[0])
            dropped = [self.dropped.popleft() for _ in range(len(self.dropped))]
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
        """Handle the answer of a machine to a run, or the end of the machine's worker. Called in any
        thread."""
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
        """Handle an error of a run: the run could not be started on a machine, or the machine answered with
        the error."""
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
        """Keep the state after a run, which its answers contain, as a checkpoint."""
        self._snapshots[flight.number] = {
            name.removeprefix(STATE): value
            for message in flight.answers.values()
            for name, value in message.tensors.items()
            if name.startswith(STATE)
        }

    def _forget(self) -> None:
        """Forget runs that no recovery will repeat. Without checkpoints these are the answered runs; with
        checkpoints, the runs up to the newest checkpoint before which all runs were answered."""
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
        """End a run, with its error if it failed."""
        with self._lock:
            if flight.over:
                return
            if flight in self._waiting:
                self._waiting.remove(flight)
            self._forget()
            if error is None:
                return flight.future.set_result(None)
            self._unsure |= {name: self.fixed[name] for name in flight.fixed if name not in self.state}
            flight.future.set_exception(error.with_traceback(None))

    def _fail(self, flight: Flight, error: BaseException) -> None:
        """Fail a run, and tell all machines to stop waiting for its messages."""
        self._settle(flight, error)
        self._call_off(flight, str(error))

    def _call_off(self, flight: Flight, why: str, attempt: int | None = None) -> None:
        """Tell all machines to stop waiting for messages of a run. ``attempt``: the last attempt that is
        called off; None: the current attempt, because the run has failed."""
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
            with contextlib.suppress(WorkerGone):  # an ended worker waits for nothing
                member.start(write_message(header))

    def expire(self, flight: Flight, why: str = "") -> None:
        """Fail a run whose deadline has passed."""
        with self._lock:
            silent = [machine or "the caller" for machine in self._parts if machine not in flight.answers]
        cause = why or f"no answer in {self.deadline:.0f} s"
        text = f"run {flight.number} of {self.name} was lost: {', '.join(silent)} gave no answer: {cause}"
        if self.state:
            text += f"; state {', '.join(map(repr, self.state))} may or may not have advanced"
        self._fail(flight, self._loss(text, ", ".join(silent), cause, flight))

    def _loss(self, text: str, worker: str, cause: str, *flights: Flight) -> WorkerLost:
        requests = tuple(f"{self.name}#{flight.number}" for flight in flights)
        return WorkerLost(text, worker=worker, cause=cause, requests=requests)

    def _wait_oldest(self) -> None:
        try:
            flight = self._waiting[0]
        except IndexError:
            return
        wait_for(flight, None, self.expire)

    # **************** losses ****************

    def _again(self, flight: Flight, attempt: int, error: LinkLost) -> None:
        """Restart a run because a link between two machines broke. This is done a few times, with growing
        pauses: if the machine at the other end is lost, Ray reports it after some seconds, and another worker
        takes its place."""
        with self._lock:
            if flight.attempt != attempt or flight.over:
                return
            flight.breaks += 1
            flight.attempt += 1
            flight.answers.clear()
        if flight.breaks > limits.BREAKS:
            self._fail(flight, self._loss(str(error), str(error.got), str(error), flight))
            return
        log.warning("run %s of %s is restarted: %s", flight.number, self.name, error)
        threading.Timer(0.1 * 2**flight.breaks, self._launch_again, (flight, flight.attempt)).start()

    def _launch_again(self, flight: Flight, attempt: int) -> None:
        if flight.attempt == attempt and not flight.over:  # else the run has been restarted or answered
            self.launch(flight)

    def _lost(self, flight: Flight, attempt: int, machine: str, member: FleetMember, cause: str) -> None:
        """Handle the end of a worker during a run; recovery has a thread of its own."""
        if self._fleet.closed:
            self._give_up(machine, [flight], "the cluster was closed", ())
            return
        words = (flight, attempt, machine, member, cause)
        threading.Thread(target=self._recover, args=words, name="gr-recover", daemon=True).start()

    def _recover(self, flight: Flight, attempt: int, machine: str, gone: FleetMember, cause: str) -> None:
        with self._recovering:
            with self._lock:
                if self._members[machine] is not gone:  # replaced already, after another run's call failed
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
        """Start another worker in place of the worker ``gone``. Return the runs to restart."""
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
            self._call_off(flight, "it is restarted", flight.attempt - 1)
        successor = gone
        for last in (False, False, True):  # opening the part may itself kill a worker
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
                flight.attempt += flight.over  # an answered run is repeated only for its state
        return again

    def _reopen(self, machine: str, member: FleetMember, first: int, lost: Collection[str]) -> None:
        """Open the part of a machine on its new worker, with the state before run ``first``."""
        values = {name: value for name, value in self.fixed.items() if name not in self._parts[machine].state}
        if not lost:
            state = {n: self.fixed[n] for n in self._parts[machine].state if n in self.fixed}
            values |= {**state, **self._saved[1]} if self._saved[0] >= 0 else state
        words = {"first": first, "known": self._following - 1}
        self._opener.open(machine, self._parts[machine], member, values, **words)

    def _give_up(self, machine: str, flights: Sequence[Flight], cause: str, state: Collection[str]) -> None:
        """Fail runs because a machine was lost. ``state``: names of the state that is lost with the machine,
        which are recorded."""
        name = machine or "the caller"
        with self._lock:
            self.lost_state |= dict.fromkeys(state, f"{name} was lost: {cause}")
        text = f"the worker of {name} was lost: {cause}"
        if state:
            names = ", ".join(map(repr, sorted(state)))
            text += f"; with it state {names}: set it again, or use checkpoint_every"
        for flight in flights:
            self._fail(flight, self._loss(text, name, cause, *flights))
