"""RemoteSession: a graph whose parts other machines run, with the methods of a Session.

A run is one call to each machine that has a part of it; values between machines go from worker to worker,
and outputs stay where they are until they are read. Inputs are kept here until a run is answered, so that
it can be begun anew where a machine is lost (recovery.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from weakref import finalize

import numpy as np

from ...base.errors import ClusterError, HandleError, InputError, WorkerLost, did_you_mean
from ...base.options import Options
from ...plan.types import Plan
from ...run.tensors.arrays import array as make_tensor
from ...run.tensors.host_values import as_array
from ...run.tensors.tensor import Tensor
from .fleet import Fleet, Terms
from .flight_control import Flights
from .flights import Flight, RemoteRun, tell_failure, wait_for
from .part_opening import RemotePart
from .remote_tensor import RemoteTensor

__all__ = ["RemoteSession"]


class RemoteSession:
    """``plan``: of the whole; ``constants``: inputs that parts have; ``outputs``: (machine, value) of each
    output, machine None: the input of that name. ``options``: those of running count here."""

    def __init__(
        self,
        fleet: Fleet,
        plan: Plan,
        parts: Mapping[str, RemotePart],
        outputs: Sequence[tuple[str | None, str]],
        *,
        constants: Collection[str] = (),
        name: str = "module",
        options: Options,
        terms: Terms,
    ):
        graph = plan.graph
        self.graph, self.plan, self.name = graph, plan, name
        self._names = graph.input_names
        self._types = [graph.entry_type(eid) for eid in graph.input_eids.tolist()]
        self._made = [graph.entry_type(eid) for eid in graph.outputs.tolist()]
        self._parts, self._outputs = parts, outputs
        self._constants = frozenset(constants)
        self._pending: dict[str, np.ndarray] = {}  # set, and not known to the machines yet
        self._last: RemoteRun | None = None
        self._flights = Flights(fleet, parts, name, options, terms)

    def __repr__(self) -> str:
        where = ", ".join(machine or "the caller" for machine in self._parts)
        return f"<RemoteSession {self.name} on {where}>"

    # **************** as a Session ****************

    def run(self) -> None:
        """Run once, with the inputs that are set. Raises as RemoteRun.wait."""
        self._last = self.submit()
        self._last.wait()

    def submit(
        self,
        inputs: Mapping[int | str, Any] | None = None,
        out: Any = None,
        donate: Collection[int | str] = (),
    ) -> RemoteRun:
        """Begin a run and return at once, as Session.submit; waits only where ``max_in_flight`` runs are
        under way, for the oldest. An input may be a RemoteTensor of this session: it is read where it lies.

        Raises InputError, WorkerLost where state is gone."""
        if out is not None:
            raise InputError("outputs of a graph over machines stay on their machines: leave out= away")
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
        """A copy of a graph input's value; of one that runs write, what the last run left there."""
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
        """An output of the last run(). Raises InputError before there was one."""
        if self._last is None:
            raise InputError("there are no outputs yet: call run()")
        return self._last.outputs[index]

    def release(self) -> bool:
        """False: its memory is other machines', so parameters are set as any input is."""
        return False

    def bind_input(self, index: int, value: Any) -> None:
        """Raises InputError: memory of this machine is not another's."""
        raise InputError("zero copy is for devices of this machine: use set_input", got=index)

    def bind_output(self, index: int, value: Any) -> None:
        """Raises InputError."""
        raise InputError("zero copy is for devices of this machine: use get_output", got=index)

    def reset_input(self, index: int) -> None:
        """Nothing is ever bound."""

    def reset_output(self, index: int) -> None:
        """Nothing is ever bound."""

    # **************** inputs ****************

    def _split(
        self, inputs: Mapping[int | str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, RemoteTensor]]:
        """(arrays, outputs of this session that the machine which reads them has) by name."""
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
        value.ready()  # raises what its run raised
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
        """Raise for state that is gone, and for inputs that have no value."""
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
        """Wait for a run, and bring the outputs that came with its answers."""
        wait_for(flight, None, self._flights.expire)
        tell_failure(flight)

    def came(self, flight: Flight, machine: str | None, value: str) -> np.ndarray | None:
        """An output that came with an answer."""
        message = flight.answers.get(machine) if machine is not None else None
        return None if message is None else message.tensors.get(value)

    def fetch(self, tensors: Sequence[RemoteTensor]) -> None:
        """Bring outputs that stayed elsewhere: one message a machine. Raises what their runs raised, and
        WorkerLost where they are gone."""
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
    """Lives as long as any output of a run."""

    __slots__ = ("__weakref__",)
