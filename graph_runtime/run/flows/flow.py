"""Flow: a graph as stages. What comes next depends on sizes and on a few values; it is found out when they
are first met, and a tree of steps remembers it.

    inputs --first step of their sizes--> program, loops --sizes and values asked for--> next step --> outputs
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, InputError
from ...frontends.onnx.elements import Strings
from ...frontends.onnx.importer import Importer
from ...frontends.onnx.stages import Known, Stage, StagedNode, stage_of
from ...frontends.onnx.tape import TapeValue
from ...ir.graph import TensorType
from ...ir.model import Constant, Model
from .flow_values import Value, array_of, constant_of, decoded, encoded, kept, kind_of, type_of
from .host_node import HostNode
from .loops import Loop
from .origins import Origin
from .programs import Programs, host_bytes
from .resident import ResidentBody, resident_of

__all__ = ["Flow", "Step", "UnmetError"]


class UnmetError(InputError):
    """Sizes or values that no run of a bundle's flow had met."""


@dataclass(eq=False)
class Step:
    """A stage at known sizes. ``keys``: names whose sizes (and, where the stage asks for them, values) say
    which step comes next. ``loops``: what runs after the program."""

    stage: Stage
    loops: list[Loop | HostNode]
    sized: tuple[str, ...]
    children: dict[Any, Step] = field(default_factory=dict)

    @property
    def last(self) -> bool:
        """Whether no nodes are left."""
        return not self.stage.rest


@dataclass(eq=False)
class Flow:
    """A graph that is run at whatever sizes its inputs have.

    ``nodes`` of ``origin``, None for a flow of a bundle, whose ``steps`` are all that there are; ``outputs``:
    names that a run returns. ``known``: constants by name. ``most_steps``: iterations of one loop.
    """

    origin: Origin | None
    nodes: tuple[StagedNode, ...]
    outputs: tuple[str, ...]
    known: Mapping[str, Known]
    programs: Programs
    most_steps: int
    steps: dict[Any, Step] = field(default_factory=dict)

    def run(self, values: dict[str, Value], key: Any = None) -> list[Value]:
        """The outputs; they are overwritten by the next run. ``values``: what the graph reads, by name;
        ``key``: of what kind each is, where the caller has it."""
        step = self.steps.get(key) if key else None
        if step is None:
            step = self.first(values)
        while True:
            self._execute(step, values)
            if step.last:
                return [self.output(step, name, values) for name in self.outputs]
            step = self._next(step, values)

    def resident(
        self, values: Mapping[str, Value], fed: Sequence[str], states: Sequence[str], first: int
    ) -> ResidentBody | None:
        """After a run with these values, the program's memory; None where it was more than one program, or
        what changes is not on the host. ``fed``: inputs that each run writes, ``states``: those that outputs
        ``first``, ... become."""
        if self.programs.observer is not None:
            return None
        step = self.first(values)
        stage = step.stage
        if not step.last or stage.model is None or stage.bounds or step.loops or stage.has_elements:
            return None
        makes = {name: parts for name, parts in stage.makes.items() if isinstance(parts, str)}
        if len(makes) < len(stage.makes):
            return None
        program = self.programs.of(stage.model)
        places = zip(stage.reads, program.inputs, strict=True)
        reads = {read.name: at for read, at in places if read.index is None}
        if len(reads) < len(stage.reads):
            return None
        known = {name: stage.known[name] for name in self.outputs if name in stage.known}
        return resident_of(
            program,
            reads,
            makes,
            self.outputs,
            fed,
            states,
            first,
            values,
            lambda name: constant_of(known[name], self.strings),
        )

    def sibling(self) -> Flow:
        """The same graph, with programs of its own, which run at the same time as these."""
        programs = self.programs.sibling()
        return Flow(self.origin, self.nodes, self.outputs, self.known, programs, self.most_steps)

    @property
    def strings(self) -> Strings:
        """The texts of the model."""
        return Strings() if self.origin is None else self.origin.strings

    @property
    def most_bytes(self) -> int:
        """What the states and results of a loop may take: an eighth of what the host has for tensors, as
        programs hold states, too, and results are copied once more in the end."""
        return host_bytes() // 8

    def prepare(self, values: Mapping[str, Value]) -> None:
        """Make the first program for values of these sizes."""
        step = self.first(values)
        if step.stage.model is not None:
            self.programs.of(step.stage.model)

    def first(self, values: Mapping[str, Value]) -> Step:
        """The step that values of these kinds begin with."""
        key = tuple([kind_of(value) for value in values.values()])
        step = self.steps.get(key)
        if step is None:
            step = self._step(self.nodes, self.known, values)
            self._keep(self.steps, key, step)
        return step

    def begin(self, importer: Importer, values: Mapping[str, Value]) -> None:
        """Make the step of values of these kinds of what an importer has converted."""
        stage = stage_of(importer, self.nodes, self.outputs)
        if stage is not None:
            self._keep(self.steps, tuple([kind_of(value) for value in values.values()]), self._of(stage))

    def _keep(self, steps: dict[Any, Step], key: Any, step: Step) -> None:
        """Remember a step; of as many as there may be programs the one that came first is forgotten."""
        while len(steps) >= self.programs.most:
            del steps[next(iter(steps))]
        steps[key] = step

    def output(self, step: Step, name: str, values: Mapping[str, Value]) -> Value:
        """An output of the graph after its last step."""
        if name in values:
            return values[name]
        return constant_of(step.stage.known[name], self.strings)

    # ---------------------------------------------------------------- one step

    def _execute(self, step: Step, values: dict[str, Value]) -> None:
        stage = step.stage
        made = {} if stage.model is None else self._made(stage, stage.model, values)
        for name, parts in stage.makes.items():
            if isinstance(parts, tuple):
                values[name] = [made[part] for part in parts]
            else:
                values[name] = None if parts is None else made[parts]
        for name, (size, axis) in stage.bounds.items():
            values[name] = _trimmed(values[name], int(array_of(made[size]).reshape(-1)[0]), axis)
        for loop in step.loops:
            loop.run(values)

    def _made(self, stage: Stage, model: Model, values: Mapping[str, Value]) -> Mapping[str, Any]:
        """What the program of a stage makes of the values that are there."""
        program = self.programs.of(model)
        session = program.session
        strings = Strings(self.strings)
        for at, read in zip(program.inputs, stage.reads, strict=True):
            value = values[read.name]
            value = value if read.index is None else value[read.index]
            if read.element is not None:
                value = encoded(value, read.element, strings, read.name)
            session.set_input(at, value)
        self.programs.run(session)
        made: Mapping[str, Any] = program.outputs
        if not stage.elements:
            return made
        return {**made, **{name: decoded(made[name], kind, strings) for name, kind in stage.elements.items()}}

    def _next(self, step: Step, values: dict[str, Value]) -> Step:
        asked = tuple([array_of(values[name]).tobytes() for name in step.stage.asks])
        key = asked, tuple([kind_of(values[name]) for name in step.sized])
        child = step.children.get(key)
        if child is None:
            known = dict(step.stage.known)
            for name in step.stage.asks:
                known[name] = _constant(name, kept(values[name]))
            child = self._step(step.stage.rest, known, values)
            self._keep(step.children, key, child)
        return child

    # ---------------------------------------------------------------- finding out

    def _step(
        self, nodes: Iterable[StagedNode], known: Mapping[str, Known], values: Mapping[str, Value]
    ) -> Step:
        if self.origin is None:
            raise UnmetError(_unknown(self, values))
        types = {name: type_of(value) for name, value in values.items() if name not in known}
        with self.programs.making:
            return self._of(self.origin.next_stage(nodes, known, types, self.outputs))

    def _of(self, stage: Stage) -> Step:
        """The step of a stage. Raises GraphError where nothing can go on."""
        if not stage.rest:
            return Step(stage, [], ())
        loops = [self._loop(path, node, stage) for path, node in stage.loops]
        done = {id(node) for _, node in stage.loops}
        rest = tuple(each for each in stage.rest if id(each[1]) not in done)
        results = [name for loop in loops for name in loop.results if name]
        if not (loops or stage.asks or stage.bounds):
            path, node = stage.rest[0]
            raise GraphError(
                f"{node.op_type} {node.name!r} waits for a value that nothing makes",
                path=path,
                node=node.name,
            )
        sized = [*stage.bounds, *stage.asks, *results]
        return Step(replace(stage, rest=rest), loops, tuple(sized))

    def _loop(self, path: str, node: Any, stage: Stage) -> Loop | HostNode:
        assert self.origin is not None, "a loaded flow finds no more steps"
        return self.origin.loop(path, node, stage, self._inner)

    def _inner(
        self, nodes: tuple[StagedNode, ...], outputs: tuple[str, ...], known: Mapping[str, Known]
    ) -> Flow:
        return Flow(self.origin, nodes, outputs, known, self.programs, self.most_steps)


def _unknown(flow: Flow, values: Mapping[str, Value]) -> str:
    """That the bundle has no step for these values, and which it has."""
    got = ", ".join(f"{name} {_text(kind_of(value))}" for name, value in values.items())
    has = [", ".join(map(_text, key)) for key in flow.steps if isinstance(key, tuple)]
    more = f", and {len(has) - 8} more" if len(has) > 8 else ""
    return (
        f"the bundle has no program for {got[:500]}, or for values found on the way: it was compiled "
        f"for {'; '.join(has[:8]) or 'no sizes'}{more}. Compile it with these inputs, or run the model itself"
    )


def _text(kind: Any) -> str:
    if kind is None:
        return "nothing"
    if len(kind) == 2 and isinstance(kind[1], str):
        return f"{kind[1]}{list(kind[0])}"
    return f"a sequence of {len(kind)}"


def _constant(name: str, array: np.ndarray) -> TapeValue:
    kind = TensorType(dtypes.from_numpy(array.dtype), array.shape)
    return TapeValue(kind, name, Constant.of(array, f"{name} as a run found it"))


def _trimmed(value: Value, size: int, axis: int) -> np.ndarray:
    """The first ``size`` of a value along an axis."""
    array = array_of(value)
    return array[(slice(None),) * axis + (slice(size),)]
