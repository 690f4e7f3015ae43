"""RemoteSession: a graph whose parts run on other machines, with the methods of a Session.

A run is one call to each machine that has a part of the graph. Values between machines go from worker to
worker, and outputs stay on their machines until they are read. The inputs of a run are kept here until it is
answered, so that the run can be repeated if a machine is lost (recovery.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn, cast
from weakref import finalize

import numpy as np

from ...artifacts.prepare import Prepared
from ...base.errors import ClusterError, HandleError, InputError, WorkerLost, did_you_mean
from ...run.module import GraphModule
from ...run.tensors.arrays import array as make_tensor
from ...run.tensors.tensor import Tensor, as_array
from .fleet import Fleet, Terms
from .flight_control import Flights
from .flights import Flight, RemoteRun, tell_failure, wait_for
from .part_opening import RemotePart
from .remote_tensor import RemoteTensor


class RemoteSession:
    """A session over machines. ``prepared``: the whole model, prepared; ``constants``: names of inputs that
    are constants of the parts; ``outputs``: (machine, value) of each output, or (None, name of an input) for
    an output that is that input."""

    def __init__(
        self,
        fleet: Fleet,
        prepared: Prepared,
        parts: Mapping[str, RemotePart],
        outputs: Sequence[tuple[str | None, str]],
        constants: Collection[str],
        name: str,
        terms: Terms,
    ):
        self.plan, self.graph, self.name = prepared.plan, prepared.plan.graph, name
        graph = self.graph
        self._names = graph.input_names
        self._types = [graph.entry_type(eid) for eid in graph.input_eids.tolist()]
        self._made = [graph.entry_type(eid) for eid in graph.outputs.tolist()]
        self._parts, self._outputs = parts, outputs
        self._constants = frozenset(constants)
        self._pending: dict[str, np.ndarray] = {}  # inputs that were set but not yet sent to the machines
        self._last: RemoteRun | None = None
        self._flights = Flights(fleet, parts, name, prepared.options, terms)

    def __repr__(self) -> str:
        where = ", ".join(machine or "the caller" for machine in self._parts)
        return f"<RemoteSession {self.name} on {where}>"

    # **************** methods of a Session ****************

    def run(self) -> None:
        """Run once, with the inputs that were set. Raises as RemoteRun.wait."""
        self._last = self.submit()
        self._last.wait()

    def submit(
        self,
        inputs: Mapping[int | str, Any] | None = None,
        out: Any = None,
        donate: Collection[int | str] = (),
    ) -> RemoteRun:
        """Begin a run and return at once, as Session.submit does. If ``max_in_flight`` runs are in flight,
        first wait for the oldest run. An input may be a RemoteTensor of this session, which is read where it
        is.

        Raises InputError, and WorkerLost if state was lost."""
        if out is not None:
            raise InputError("outputs of a graph over machines stay on their machines: omit out=")
        given, kept = self._split(inputs or {})
        if self._pending:
            self._flights.drain()
        self._require({*given, *kept})
        fixed, self._pending = self._pending, {}
        flight = self._flights.begin(given, fixed, kept)
        run = RemoteRun(self.name, flight, self._handles(flight), self._flights.expire)
        self._flights.launch(flight)
        return run

    def set_input(self, index: int, value: Any) -> None:
        """Set a graph input for all runs to come; it is sent with the next run. Raises InputError."""
        name = self._names[index]
        self._pending[name] = self._flights.fixed[name] = self._array(name, value)
        self._flights.lost_state.pop(name, None)

    def input(self, index: int) -> Tensor:
        """A copy of a graph input's value; for an input that runs write, the value after the last run."""
        name = self._names[index]
        if name in self._flights.state and name not in self._pending:
            self._flights.drain()
            self._require({other for other in self._names if other != name})
            machine = self._flights.state[name]
            said = self._flights.ask(machine, {"do": "state"})
            return make_tensor(said.tensors[name])
        if name not in self._flights.fixed:
            raise InputError(f"input {name!r} was not set here", got=name)
        return make_tensor(self._flights.fixed[name])

    def output(self, index: int) -> RemoteTensor:
        """An output of the last run(). Raises InputError before the first run."""
        if self._last is None:
            raise InputError("there are no outputs yet: call run()")
        return self._last.outputs[index]

    def release(self) -> bool:
        """Return False: parameters are set like any input, because the memory is on other machines."""
        return False

    def bind_input(self, index: int, value: Any) -> None:
        """Raises InputError: machines do not share memory."""
        raise InputError("zero copy is for devices of this machine: use set_input and get_output", got=index)

    bind_output = bind_input

    def reset_input(self, index: int) -> None:
        """Does nothing: inputs and outputs are never bound."""

    reset_output = reset_input

    # **************** inputs ****************

    def _split(
        self, inputs: Mapping[int | str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, RemoteTensor]]:
        """({input: array}, {input: RemoteTensor}). The second mapping has the inputs that are outputs of this
        session and that only their own machine reads; their values stay on that machine."""
        given: dict[str, np.ndarray] = {}
        kept: dict[str, RemoteTensor] = {}
        names = self._names
        for key, value in inputs.items():
            if isinstance(key, str) and key not in names:
                raise InputError(f"the graph has no input {key!r}{did_you_mean(key, names)}", got=key)
            name = key if isinstance(key, str) else names[key]
            if isinstance(value, RemoteTensor) and self._stays(name, value):
                kept[name] = value
            else:
                given[name] = self._array(name, value)
        return given, kept

    def _stays(self, name: str, value: RemoteTensor) -> bool:
        if value.is_here or value.origin is not self or name in self._flights.state:
            return False
        value.ready()  # raises the error of the run that makes the value
        if value.is_here:
            return False
        wanted = self._types[self._names.index(name)]
        readers = [machine for machine, part in self._parts.items() if name in part.inputs]
        return readers == [value.machine] and value.type == wanted

    def _array(self, name: str, value: Any) -> np.ndarray:
        """A copy of an input's value, checked."""
        if name in self._constants:
            raise InputError(f"input {name!r} is a constant of the parts: it cannot be set", got=name)
        type_ = self._types[self._names.index(name)]
        plain = value.numpy() if isinstance(value, RemoteTensor) else value
        staged = as_array(plain, type_, f"input {name!r}")
        return np.array(staged, copy=True, order="C").reshape(type_.shape)

    def _require(self, given: Collection[str]) -> None:
        """Raise WorkerLost for lost state that is not set again, InputError for inputs without a value."""
        gone = [name for name in self._flights.lost_state if name not in given]
        if gone:
            why = self._flights.lost_state[gone[0]]
            text = f"state {', '.join(map(repr, gone))} was lost ({why}): set it before the next run"
            raise WorkerLost(text, worker=self._flights.state[gone[0]], cause=why)
        known = {*given, *self._flights.fixed, *self._constants}
        if lacking := [name for name in self._names if name not in known]:
            names = ", ".join(map(repr, lacking[:10]))
            raise InputError(f"input {names} of {self.name} was never set", got=lacking)

    def _handles(self, flight: Flight) -> tuple[RemoteTensor, ...]:
        token = _Token()
        finalize(token, self._flights.dropped.append, flight.number).atexit = False
        found = []
        for (machine, value), type_ in zip(self._outputs, self._made, strict=True):
            tensor = RemoteTensor(self, machine, (flight.number, value), type_, flight, token)
            if machine is None:
                held = flight.given.get(value, self._flights.fixed.get(value))
                if held is not None:
                    tensor.bring(held)
            found.append(tensor)
        return tuple(found)

    # **************** outputs ****************

    def ready(self, flight: Flight) -> None:
        """Wait for a run; small outputs came with its answers. Raises the run's error."""
        wait_for(flight, None, self._flights.expire)
        tell_failure(flight)

    def came(self, flight: Flight, machine: str | None, value: str) -> np.ndarray | None:
        """The value of an output if it came with an answer, else None."""
        message = flight.answers.get(machine) if machine is not None else None
        return None if message is None else message.tensors.get(value)

    def fetch(self, tensors: Sequence[RemoteTensor]) -> None:
        """Fetch outputs from other machines, with one message per machine. Raises the errors of their runs,
        and WorkerLost for outputs that are gone."""
        machines: dict[str, list[RemoteTensor]] = {}
        for tensor in tensors:
            if tensor.machine is not None:
                machines.setdefault(tensor.machine, []).append(tensor)
        for machine, group in machines.items():
            header = {"do": "fetch", "values": [list(tensor.place) for tensor in group]}
            try:
                said = self._flights.ask(machine, header)
            except (HandleError, ClusterError) as error:
                if isinstance(error, WorkerLost):
                    raise
                text = f"outputs on {machine or 'the caller'} are gone: {error}"
                raise WorkerLost(text, worker=machine, cause=str(error)) from None
            for tensor in group:
                tensor.bring(said.tensors[f"{tensor.place[0]} {tensor.place[1]}"])


class _Token:
    """An object that lives as long as any output of its run; when the token is deleted, the outputs may be
    dropped."""

    __slots__ = ("__weakref__",)


class RemoteModule(GraphModule):
    """A graph on devices such as "node1/tt:0", with the methods of GraphModule. ``run`` and ``run_async``
    send the inputs that were set. Outputs stay on their machines until they are read
    (``get_output(0).numpy()``, ``gr.gather``). ``params``: names of inputs that are constants of the parts.
    """

    def __init__(self, session: RemoteSession, constants: Sequence[str] = ()):
        super().__init__(cast("Any", session))
        self.params.update(constants)

    def run_async(self, out: Any = None, **inputs: Any) -> Any:
        """Begin a run with these inputs and return a RemoteRun at once; up to ``max_in_flight`` runs are in
        flight, so that machines work in parallel. An input may be an output of an earlier run, which is read
        where it is. Raises InputError, WorkerLost; errors that occur later are raised by the ``wait`` of the
        run."""
        found = {self._find_input(name): value for name, value in inputs.items()}
        run: RemoteRun = cast("Any", self.session).submit(found, out)
        return run

    def share_params(self, other: GraphModule, params: Any) -> NoReturn:
        """Raises InputError: machines do not share memory."""
        raise InputError("parameters are shared by modules of one machine: load them into each")

    def benchmark_nodes(self, runs: int = 30, **inputs: Any) -> NoReturn:
        """Raises InputError, because nodes can be timed only on this machine."""
        raise InputError("nodes are timed in a module of this machine: open the graph on devices of it")

    def run_from_inputs(self, device_type: int | str, device_id: int, *pairs: Any) -> NoReturn:
        """Raises InputError, because the results would be on a device of this machine."""
        raise InputError("run_from_inputs is for devices of this machine: use run() and get_output()")
