"""A machine's part of a graph, opened: its stages as sessions, and what runs leave between them.

Runs come in any number of threads. A stage without state runs when its values are there; stages with state
take runs in order, and keep what a run made until the caller says that it is over: a run that is asked for
again, because another machine was lost, does not change the state twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
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

__all__ = ["SET", "STATE", "OpenedPart", "open_part"]

STATE, SET = "state:", "set:"  # before the names of what a checkpoint has, of inputs for all later runs

Take = Callable[[str, int], Message]
Send = Callable[[str, int, Mapping[str, np.ndarray]], None]
Table = dict[str, Any]  # value -> Tensor or array


def open_part(
    path: Path,
    sheet: Sheet,
    *,
    devices: Any = None,
    threads: int | None = None,
    libraries: bool = True,
    first: int = 0,
    known: int = -1,
    most: int = 8,
) -> OpenedPart:
    """Open the programs that a sheet names, of a bundle, judged by this machine's rules of trust. Raises what
    gr.load raises."""
    bundle = read_runnable(path, libraries=libraries)
    modules = [
        open_program(
            bundle,
            bundle.program(stage.program),
            devices,
            threads=threads,
            max_in_flight=most,
            reserve=False,
            unset_inputs="refuse",
        )
        for stage in sheet.stages
    ]
    return OpenedPart(sheet, modules, first, known)


class OpenedPart:
    """``first``: the number of the first run that it will see; ``known``: of the last one whose inputs for
    all later runs it was opened with. Runs that were sent one after the other may come in another order."""

    def __init__(self, sheet: Sheet, modules: Sequence[GraphModule], first: int = 0, known: int = -1):
        self.sheet, self._known = sheet, known
        self._stages = [OpenedStage(*one) for one in zip(sheet.stages, modules, strict=True)]
        self._state_names = {stage.given[name] for stage in sheet.stages for name in stage.state}
        self._turn = threading.Condition()
        self._next, self._skipped = first, set[int]()
        self._unset: set[int] = set()  # runs that failed before what they set for later ones was set
        # by run and stage with state what it made and left, of runs that are not over
        self._made: dict[int, dict[str, tuple[Table, dict[str, np.ndarray]]]] = {}
        self._kept: dict[int, Table] = {}  # outputs that stay here, by run
        self._lock = threading.Lock()
        self._last_state = max((i for i, stage in enumerate(sheet.stages) if stage.state), default=-1)

    @property
    def inputs(self) -> dict[str, list[Any]]:
        """{the caller's input: [dtype, shape]}"""
        found: dict[str, list[Any]] = {}
        for stage in self._stages:
            shapes, dtypes = stage.module.get_input_info()
            for name, of in stage.sheet.given.items():
                found.setdefault(of, [dtypes[name], list(shapes[name])])
        return found

    @property
    def outputs(self) -> dict[str, list[Any]]:
        """{value: [dtype, shape]} of what the caller may fetch."""
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
        """Run all stages once: (header, tensors) of the answer. ``given``: the caller's inputs; under
        "set:NAME" those that all later runs shall have, too; ``after``: the last run that has such ones,
        which comes first; ``kept`` {input: [run, value]}: those that are outputs of earlier runs that stayed
        here. ``take`` and ``send``: messages of other machines and to them."""
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
                    self._passes(run)  # the next run may begin while this one's results are sent
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
        """Set what a run sets for all later ones, or wait until the one that does so has. Raises
        RunCancelledError where that one failed, WaitTimeoutError."""
        with self._turn:
            while self._known < after < run:
                if after in self._unset:
                    raise RunCancelledError(f"run {after}, which was to set inputs for run {run}, failed")
                if not self._turn.wait(max(0.0, end - time.monotonic())):
                    raise WaitTimeoutError(
                        f"run {after}, which sets inputs, did not come before the deadline"
                    )
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
        """Run a stage with state after all runs before this one; once, however often it is asked for. What it
        made, and for a ``checkpoint`` the state that it left."""
        with self._turn:
            while run > self._next:
                if not self._turn.wait(max(0.0, end - time.monotonic())):
                    text = f"run {self._next}, which comes before, did not end before the deadline"
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
        """Outputs that are the state itself, as this run leaves it: later runs write there. Not of large ones
        that nothing but the caller may read: they show the state as it is then."""
        read = {value for other in self.sheet.stages for value in other.reads.values()}
        read |= {value for of in stage.sheet.sends.values() for value in of}
        values = {stage.sheet.makes[output] for output, _ in stage.module.session.plan.aliases}
        chosen = [value for value in values if value in read or made[value].nbytes <= limits.INLINE]
        return {value: as_array(made[value]).copy() for value in chosen}

    def skip(self, run: int, sets: bool = False) -> None:
        """A run failed elsewhere: those after it are not to wait for it. ``sets``: it was to set inputs for
        them."""
        with self._turn:
            if sets and run > self._known:
                self._unset.add(run)
        self._passes(run)

    def _passes(self, run: int) -> None:
        """A run is through, or will not come any more."""
        with self._turn:
            self._skipped.add(run)
            while self._next in self._skipped:
                self._skipped.remove(self._next)
                self._next += 1
            self._skipped = {number for number in self._skipped if number > self._next}
            self._turn.notify_all()

    # **************** what stays ****************

    def set_input(self, name: str, value: np.ndarray) -> None:
        """Set an input of the caller's for all runs to come, in each stage that reads it."""
        known = False
        for stage in self._stages:
            for own, of in stage.sheet.given.items():
                if of == name:
                    known = True
                    stage.set_input(own, value)
        if not known:
            raise InputError(f"the part of {self.sheet.machine} has no input {name!r}", got=name)

    def state(self) -> dict[str, np.ndarray]:
        """What runs left in the inputs that they write, when all that came are through."""
        with self._turn:
            found: dict[str, np.ndarray] = {}
            for stage in self._stages:
                found |= _state_of(stage)
            return found

    def _kept_value(self, run: int, value: str) -> Any:
        with self._lock:
            found = self._kept.get(run, {}).get(value)
        if found is None:
            raise HandleError(
                f"output {value!r} of run {run} is not on {self.sheet.machine} any more", got=value
            )
        return found

    def fetch(self, values: Sequence[Sequence[Any]]) -> dict[str, np.ndarray]:
        """{"run value": array} of outputs that stayed here, by [run, value]."""
        return {f"{run} {value}": as_array(self._kept_value(run, value)) for run, value in values}

    def over(self, run: int, dropped: Sequence[int]) -> None:
        """All runs up to this one are answered, and outputs of ``dropped`` runs are wanted no more."""
        with self._lock:
            for number in dropped:
                self._kept.pop(number, None)
        with self._turn:
            for number in [number for number in self._made if number <= run]:
                del self._made[number]


def _state_of(stage: OpenedStage) -> dict[str, np.ndarray]:
    given, module = stage.sheet.given, stage.module
    return {given[name]: module.get_input(name).numpy().copy() for name in stage.sheet.state}
