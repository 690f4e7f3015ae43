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
from ...run.tensors.arrays import borrow
from ...run.tensors.tensor import Tensor
from ..messages import Message
from .sheets import Sheet, StageSheet

__all__ = ["INLINE", "SET", "STATE", "OpenedPart", "open_part"]

INLINE = 1 << 16  # bytes of outputs that come with the answer to a run
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
    all later runs it was opened with."""

    def __init__(self, sheet: Sheet, modules: Sequence[GraphModule], first: int = 0, known: int = -1):
        self.sheet, self._modules, self._known = sheet, modules, known
        self._state_names = {stage.given[name] for stage in sheet.stages for name in stage.state}
        self._turn = threading.Condition()
        self._next, self._skipped = first, set[int]()
        # by run and stage with state what it made and left, of runs that are not over
        self._made: dict[int, dict[str, tuple[Table, dict[str, np.ndarray]]]] = {}
        self._kept: dict[int, Table] = {}  # outputs that stay here, by run
        self._lock = threading.Lock()
        self._last_state = max((i for i, stage in enumerate(sheet.stages) if stage.state), default=-1)

    @property
    def inputs(self) -> dict[str, list[Any]]:
        """{the caller's input: [dtype, shape]}"""
        found: dict[str, list[Any]] = {}
        for stage, module in zip(self.sheet.stages, self._modules, strict=True):
            shapes, dtypes = module.get_input_info()
            for name, of in stage.given.items():
                found.setdefault(of, [dtypes[name], list(shapes[name])])
        return found

    @property
    def outputs(self) -> dict[str, list[Any]]:
        """{value: [dtype, shape]} of what the caller may fetch."""
        found = {}
        for stage, module in zip(self.sheet.stages, self._modules, strict=True):
            graph = module.session.graph
            for value, eid in zip(stage.makes, graph.outputs.tolist(), strict=True):
                type_ = graph.entry_type(eid)
                found[value] = [type_.dtype, list(type_.shape)]
        return {value: found[value] for value in self.sheet.outputs}

    # **************** a run ****************

    def run(
        self,
        run: int,
        given: Mapping[str, np.ndarray],
        *,
        kept: Mapping[str, Sequence[Any]],
        checkpoint: bool = False,
        take: Take,
        send: Send,
        end: float,
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Run all stages once: (header, tensors) of the answer. ``given``: the caller's inputs; under
        "set:NAME" those that all later runs shall have, too; ``kept`` {input: [run, value]}: those that are
        outputs of earlier runs that stayed here. ``take`` and ``send``: messages of other machines and to
        them."""
        table: Table = {}
        try:
            inputs = {name: value for name, value in given.items() if not name.startswith(SET)}
            inputs |= {name: self._kept_value(*at) for name, at in kept.items()}
            fixed = {name.removeprefix(SET): given[name] for name in given.keys() - inputs.keys()}
            if run > self._known:
                for name in fixed.keys() - self._state_names:
                    self.set_input(name, fixed[name])
            snapshot: dict[str, np.ndarray] = {}
            for number, (stage, module) in enumerate(zip(self.sheet.stages, self._modules, strict=True)):
                for source, sent in stage.needs:
                    table |= take(source, sent).tensors
                if not stage.state:
                    table |= self._submit(stage, module, inputs, table, end)
                else:
                    made, left = self._in_turn(run, stage, module, inputs, fixed, table, end, checkpoint)
                    table |= made
                    snapshot |= left
                if number == self._last_state:
                    self._passes(run)  # the next run may begin while this one's results are sent
                for to, values in stage.sends.items():
                    send(to, number, {name: as_array(table[value]) for value, name in values.items()})
        finally:
            self._passes(run)
        outputs = {value: table[value] for value in self.sheet.outputs}
        header: dict[str, Any] = {"kept": []}
        if sum(value.nbytes for value in outputs.values()) <= INLINE:
            tensors = {value: as_array(held) for value, held in outputs.items()}
        else:
            tensors, header["kept"] = {}, list(outputs)
            with self._lock:
                self._kept[run] = outputs
        return header, {**tensors, **{STATE + name: value for name, value in snapshot.items()}}

    def _in_turn(
        self,
        run: int,
        stage: StageSheet,
        module: GraphModule,
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
            known = self._made.get(run, {}).get(stage.program)
            if known is None:
                if run < self._next:
                    raise RunCancelledError(f"run {run} was given up, and later ones have changed the state")
                for name in stage.state:
                    if stage.given[name] in fixed:
                        module.set_input(name, fixed[stage.given[name]])
                made = self._submit(stage, module, inputs, table, end)
                made |= self._copies_of_state(stage, module, made)
                known = made, self._state_of(stage, module) if checkpoint else {}
                self._made.setdefault(run, {})[stage.program] = known
            return known

    def _copies_of_state(self, stage: StageSheet, module: GraphModule, made: Table) -> Table:
        """Outputs that are the state itself, as this run leaves it: later runs write there. Not of large ones
        that nothing but the caller may read: they show the state as it is then."""
        read = {value for other in self.sheet.stages for value in other.reads.values()}
        read |= {value for of in stage.sends.values() for value in of}
        values = {stage.makes[output] for output, _ in module.session.plan.aliases}
        chosen = [value for value in values if value in read or made[value].nbytes <= INLINE]
        return {value: as_array(made[value]).copy() for value in chosen}

    def _submit(
        self, stage: StageSheet, module: GraphModule, inputs: Mapping[str, Any], table: Table, end: float
    ) -> Table:
        asked = {name: inputs[of] for name, of in stage.given.items() if of in inputs}
        asked |= {name: table[value] for name, value in stage.reads.items()}
        fitted = {name: self._fitted(stage, module, name, value) for name, value in asked.items()}
        run = module.run_async(**fitted)
        run.wait(max(0.001, end - time.monotonic()))
        return dict(zip(stage.makes, run.outputs, strict=True))

    def _fitted(self, stage: StageSheet, module: GraphModule, name: str, value: Any) -> Any:
        """The value in the input's shape; where the input is on the host, read where it lies."""
        graph, index = module.session.graph, module.get_input_index(name)
        type_ = graph.entry_type(int(graph.input_eids[index]))
        if isinstance(value, Tensor):
            return value if value.shape == type_.shape else as_array(value).reshape(type_.shape)
        if value.size != type_.size:
            raise InputError(f"input {name!r} is {type_}, got {value.dtype}{list(value.shape)}", got=name)
        shaped = value.reshape(type_.shape)
        plan = module.session.plan
        on_host = plan.devices[int(plan.did[graph.inputs[index]])].descriptor.on_host
        if not on_host or name in stage.state or not shaped.size or shaped.dtype.name != type_.dtype:
            return shaped
        return borrow(shaped)

    def skip(self, run: int) -> None:
        """A run failed elsewhere: those after it are not to wait for it."""
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
        for stage, module in zip(self.sheet.stages, self._modules, strict=True):
            for own, of in stage.given.items():
                if of == name:
                    known = True
                    module.set_input(own, self._fitted(stage, module, own, value))
        if not known:
            raise InputError(f"the part of {self.sheet.machine} has no input {name!r}", got=name)

    def state(self) -> dict[str, np.ndarray]:
        """What runs left in the inputs that they write, when all that came are through."""
        with self._turn:
            found: dict[str, np.ndarray] = {}
            for stage, module in zip(self.sheet.stages, self._modules, strict=True):
                found |= self._state_of(stage, module)
            return found

    def _state_of(self, stage: StageSheet, module: GraphModule) -> dict[str, np.ndarray]:
        return {stage.given[name]: module.get_input(name).numpy().copy() for name in stage.state}

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


def as_array(value: Any) -> np.ndarray:
    """The values on the host."""
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)
