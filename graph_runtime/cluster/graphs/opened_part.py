"""A machine's part of a graph, opened: its stages as sessions, and the results kept between runs.

Runs come in any number of threads. A stage without state runs as soon as its inputs are there. A stage with
state takes runs in order, and keeps the results of each run until the caller reports that the run is over; so
a run that is repeated because another machine was lost does not change the state twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import HandleError, InputError, RunCancelledError, WaitTimeoutError
from ...run.loading import open_program, read_runnable
from ...run.module import GraphModule
from ..transport import limits
from ..transport.messages import Message
from .opened_stage import OpenedStage, as_array
from .sheets import Sheet

STATE, SET = "state:", "set:"  # prefixes of names: of state in a checkpoint; of inputs set for all later runs

Take = Callable[[str, int], Message]
Send = Callable[[str, int, Mapping[str, np.ndarray]], None]
Table = dict[str, Any]  # name of a value -> the value as Tensor or array


@dataclass(frozen=True, slots=True)
class PartOrder:
    """An order to a machine to open a part of ``module``. ``sheet``: the instructions of the part; ``hash``:
    hash of the contents of its bundle; ``devices``: names of the devices, None: the bundle's devices.
    ``first`` and ``known``: numbers of runs, as in OpenedPart."""

    module: str
    hash: str
    sheet: Sheet
    devices: tuple[str, ...] | None
    libraries: bool
    threads: int | None
    in_flight: int
    first: int
    known: int


def open_part(path: Path, order: PartOrder) -> OpenedPart:
    """Open the programs of a bundle that a sheet names, judged by this machine's rules of trust. Raises as
    gr.load."""
    bundle = read_runnable(path, libraries=order.libraries)
    words: dict[str, Any] = {"threads": order.threads, "max_in_flight": order.in_flight}
    words |= {"reserve": False, "unset_inputs": "refuse"}
    programs = [bundle.program(stage.program) for stage in order.sheet.stages]
    modules = [open_program(bundle, program, order.devices, **words) for program in programs]
    return OpenedPart(order.sheet, modules, order.first, order.known)


class OpenedPart:
    """An open part. ``first``: number of the first run that the part will see. ``known``: number of the last
    run that set inputs for all later runs before the part was opened with their values. Runs may arrive in
    another order than they were sent."""

    def __init__(self, sheet: Sheet, modules: Sequence[GraphModule], first: int = 0, known: int = -1):
        self.sheet, self._known = sheet, known
        self._stages = [OpenedStage(*one) for one in zip(sheet.stages, modules, strict=True)]
        self._state_names = {stage.given[name] for stage in sheet.stages for name in stage.state}
        self._turn = threading.Condition()
        self._next, self._skipped = first, set[int]()
        self._unset: set[int] = set()  # runs that failed before they set inputs for later runs
        # run that is not over -> stage with state -> (the stage's results, the stage's state)
        self._made: dict[int, dict[str, tuple[Table, dict[str, np.ndarray]]]] = {}
        self._kept: dict[int, Table] = {}  # run -> outputs that stay on this machine
        self._lock = threading.Lock()
        self._last_state = max((i for i, stage in enumerate(sheet.stages) if stage.state), default=-1)

    @property
    def inputs(self) -> dict[str, list[Any]]:
        """{input of the caller: [dtype, shape]}, for the inputs that the part reads."""
        found: dict[str, list[Any]] = {}
        for stage in self._stages:
            shapes, dtypes = stage.module.get_input_info()
            for name, of in stage.sheet.given.items():
                found.setdefault(of, [dtypes[name], list(shapes[name])])
        return found

    @property
    def outputs(self) -> dict[str, list[Any]]:
        """{value: [dtype, shape]} of the values that the caller may fetch."""
        found = {}
        for stage in self._stages:
            graph = stage.module.session.graph
            for value, eid in zip(stage.sheet.makes, graph.outputs.tolist(), strict=True):
                type_ = graph.entry_type(eid)
                found[value] = [type_.dtype, list(type_.shape)]
        return {value: found[value] for value in self.sheet.outputs}

    # **************** a run ****************

    def run(
        self,
        run: int,
        given: Mapping[str, np.ndarray],
        *,
        after: int = -1,
        kept: Mapping[str, Sequence[Any]],
        checkpoint: bool = False,
        take: Take,
        send: Send,
        end: float,
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Run all stages once, and return (header, tensors) of the answer. ``given``: the caller's inputs; an
        input named "set:NAME" also holds for all later runs. ``after``: number of the last run, perhaps this
        run, that sets such inputs; this run waits until they are set. ``kept`` {input: [run, value]}: inputs
        that are outputs of earlier runs, kept here. ``take`` and ``send``: functions that take messages from
        other machines and send messages to them."""
        table: Table = {}
        try:
            inputs = {name: value for name, value in given.items() if not name.startswith(SET)}
            inputs |= {name: self._kept_value(*at) for name, at in kept.items()}
            fixed = {name.removeprefix(SET): given[name] for name in given.keys() - inputs.keys()}
            self._settle_inputs(run, after, fixed, end)
            snapshot: dict[str, np.ndarray] = {}
            for number, stage in enumerate(self._stages):
                for source, sent in stage.sheet.needs:
                    table |= take(source, sent).tensors
                if not stage.sheet.state:
                    table |= stage.run(inputs, table, end)
                else:
                    made, left = self._in_turn(run, stage, inputs, fixed, table, end, checkpoint)
                    table |= made
                    snapshot |= left
                if number == self._last_state:
                    self._passes(run)  # the next run may begin while this run sends its results
                for to, values in stage.sheet.sends.items():
                    send(to, number, {name: as_array(table[value]) for value, name in values.items()})
        finally:
            self._passes(run)
        outputs = {value: table[value] for value in self.sheet.outputs}
        header: dict[str, Any] = {"kept": []}
        if sum(value.nbytes for value in outputs.values()) <= limits.INLINE:
            tensors = {value: as_array(held) for value, held in outputs.items()}
        else:
            tensors, header["kept"] = {}, list(outputs)
            with self._lock:
                self._kept[run] = outputs
        return header, {**tensors, **{STATE + name: value for name, value in snapshot.items()}}

    def _settle_inputs(self, run: int, after: int, fixed: Mapping[str, np.ndarray], end: float) -> None:
        """Set the inputs that run ``run`` sets for all later runs. If run ``after``, an earlier run, sets
        such inputs, first wait until that run has set them. Raises RunCancelledError if that run failed,
        WaitTimeoutError."""
        with self._turn:
            while self._known < after < run:
                if after in self._unset:
                    text = f"run {after}, which should have set inputs for run {run}, failed"
                    raise RunCancelledError(text)
                if not self._turn.wait(max(0.0, end - time.monotonic())):
                    text = f"run {after}, which sets inputs, did not come before the deadline"
                    raise WaitTimeoutError(text)
            if run > self._known and run == after:
                for name in fixed.keys() - self._state_names:
                    self.set_input(name, fixed[name])
                self._known = run
                self._unset.clear()
                self._turn.notify_all()

    def _in_turn(
        self,
        run: int,
        stage: OpenedStage,
        inputs: Mapping[str, Any],
        fixed: Mapping[str, np.ndarray],
        table: Table,
        end: float,
        checkpoint: bool,
    ) -> tuple[Table, dict[str, np.ndarray]]:
        """Run a stage with state after all earlier runs. However often a run is requested, the stage runs
        once. Return the stage's results, and its state if ``checkpoint`` is set."""
        with self._turn:
            if not self._turn.wait_for(lambda: run <= self._next, max(0.0, end - time.monotonic())):
                text = f"the earlier run {self._next} did not end before the deadline"
                raise WaitTimeoutError(text)
            known = self._made.get(run, {}).get(stage.sheet.program)
            if known is None:
                if run < self._next:
                    raise RunCancelledError(f"run {run} was given up, and later ones have changed the state")
                for name in stage.sheet.state:
                    if stage.sheet.given[name] in fixed:
                        stage.set_input(name, fixed[stage.sheet.given[name]])
                made = stage.run(inputs, table, end)
                made |= self._copies_of_state(stage, made)
                known = made, _state_of(stage) if checkpoint else {}
                self._made.setdefault(run, {})[stage.sheet.program] = known
            return known

    def _copies_of_state(self, stage: OpenedStage, made: Table) -> Table:
        """Copies of the outputs that are the state itself; later runs overwrite the state. A large output
        that only the caller may read is not copied: it shows the state at the time of reading."""
        read = {value for other in self.sheet.stages for value in other.reads.values()}
        read |= {value for of in stage.sheet.sends.values() for value in of}
        values = {stage.sheet.makes[output] for output, _ in stage.module.session.plan.aliases}
        chosen = [value for value in values if value in read or made[value].nbytes <= limits.INLINE]
        return {value: as_array(made[value]).copy() for value in chosen}

    def skip(self, run: int, sets: bool = False) -> None:
        """Let later runs go on without a run that failed elsewhere. ``sets``: whether that run was to set
        inputs for later runs."""
        with self._turn:
            if sets and run > self._known:
                self._unset.add(run)
        self._passes(run)

    def _passes(self, run: int) -> None:
        """Mark a run as finished, or as given up."""
        with self._turn:
            self._skipped.add(run)
            while self._next in self._skipped:
                self._skipped.remove(self._next)
                self._next += 1
            self._skipped = {number for number in self._skipped if number > self._next}
            self._turn.notify_all()

    # **************** inputs, state and kept outputs ****************

    def set_input(self, name: str, value: np.ndarray) -> None:
        """Set an input of the whole graph for all later runs, in each stage that reads the input."""
        known = False
        for stage in self._stages:
            for own, of in stage.sheet.given.items():
                if of == name:
                    known = True
                    stage.set_input(own, value)
        if not known:
            raise InputError(f"the part of {self.sheet.machine} has no input {name!r}", got=name)

    def state(self) -> dict[str, np.ndarray]:
        """The values that runs so far have left in the inputs that runs write."""
        with self._turn:
            found: dict[str, np.ndarray] = {}
            for stage in self._stages:
                found |= _state_of(stage)
            return found

    def _kept_value(self, run: int, value: str) -> Any:
        with self._lock:
            found = self._kept.get(run, {}).get(value)
        if found is None:
            text = f"output {value!r} of run {run} is not on {self.sheet.machine} any more"
            raise HandleError(text, got=value)
        return found

    def fetch(self, values: Sequence[Sequence[Any]]) -> dict[str, np.ndarray]:
        """{"run value": array} of kept outputs, each requested as [run, value]."""
        return {f"{run} {value}": as_array(self._kept_value(run, value)) for run, value in values}

    def over(self, run: int, dropped: Sequence[int]) -> None:
        """Forget what was kept for runs up to ``run``, which are all answered, and the outputs of the
        ``dropped`` runs."""
        with self._lock:
            for number in dropped:
                self._kept.pop(number, None)
        with self._turn:
            for number in [number for number in self._made if number <= run]:
                del self._made[number]


def _state_of(stage: OpenedStage) -> dict[str, np.ndarray]:
    given, module = stage.sheet.given, stage.module
    return {given[name]: module.get_input(name).numpy().copy() for name in stage.sheet.state}
