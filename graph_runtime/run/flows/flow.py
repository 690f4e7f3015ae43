"""Flow: a graph as stages. The next stage depends on sizes and on a few values. The stage is found when these
sizes and values first occur, and is then kept in a tree of steps.

    inputs --first step--> specialization, loops --sizes and values asked for--> next step --> outputs
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...base import dtypes
from ...base.errors import GraphError, InputError
from ...frontends.onnx.elements import Strings
from ...frontends.onnx.importer import Importer
from ...frontends.onnx.stages import Known, Stage, StagedNode, stage_of
from ...frontends.onnx.tape import TapeValue
from ...ir.graph import TensorType
from ...ir.model import Constant, Model
from .flow_values import FlowValue, array_of, constant_of, decoded, encoded, kept, kind_of, type_of
from .loops import Loop
from .origins import HostNode, Origin
from .resident import ResidentBody, resident_of
from .specializations import Specializations, host_bytes


class UnmetError(InputError):
    """Error for sizes or values that did not occur in any run before the bundle was compiled."""


@dataclass(eq=False)
class Step:
    """A stage at known sizes. ``sized``: names of values whose sizes select the next step in ``children``,
    together with the values that the stage asks for. ``loops``: loops that run after the stage's
    specialization."""

    stage: Stage
    loops: list[Loop | HostNode]
    sized: tuple[str, ...]
    children: dict[Any, Step] = field(default_factory=dict)

    @property
    def last(self) -> bool:
        """Whether this step ends the run."""
        return not self.stage.rest


@dataclass(eq=False)
class Flow:
    """A graph that runs at any sizes of its inputs.

    ``nodes``: the graph's nodes, from the file ``origin``. ``origin`` is None for a flow of a bundle: such a
    flow has the ``steps`` of the bundle and finds no others. ``outputs``: names of the values that a run
    returns; ``known``: constants by name; ``most_steps``: limit of a loop's iterations."""

    origin: Origin | None
    nodes: tuple[StagedNode, ...]
    outputs: tuple[str, ...]
    known: Mapping[str, Known]
    specializations: Specializations
    most_steps: int
    steps: dict[Any, Step] = field(default_factory=dict)

    def run(self, values: dict[str, FlowValue], key: Any = None) -> list[FlowValue]:
        """The outputs, which the next run overwrites. ``values``: the graph's inputs by name; ``key``: the
        kinds of ``values``; None: they are found here."""
        step = self.steps.get(key) if key else None
        if step is None:
            step = self.first(values)
        while True:
            self._execute(step, values)
            if step.last:
                return [self.output(step, name, values) for name in self.outputs]
            step = self._next(step, values)

    def resident(
        self, values: Mapping[str, FlowValue], fed: Sequence[str], states: Sequence[str], first: int
    ) -> ResidentBody | None:
        """The body of a loop with its values in the specialization's memory, after a run with these values.
        None if a run takes several steps, or if the changing values are not on the host. ``fed``: inputs that
        each run writes; ``states``: inputs whose next values are the outputs ``first``, ``first`` + 1, ..."""
        if self.specializations.observer is not None:
            return None
        step = self.first(values)
        stage = step.stage
        if not step.last or stage.model is None or stage.bounds or step.loops or stage.has_elements:
            return None
        makes = {name: parts for name, parts in stage.makes.items() if isinstance(parts, str)}
        if len(makes) < len(stage.makes):
            return None
        specialization = self.specializations.of(stage.model)
        places = zip(stage.reads, specialization.inputs, strict=True)
        reads = {read.name: at for read, at in places if read.index is None}
        if len(reads) < len(stage.reads):
            return None
        known = {name: stage.known[name] for name in self.outputs if name in stage.known}
        return resident_of(
            specialization,
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
        """The same graph with other specializations, which may run at the same time."""
        specializations = self.specializations.sibling()
        return Flow(self.origin, self.nodes, self.outputs, self.known, specializations, self.most_steps)

    @property
    def strings(self) -> Strings:
        return Strings() if self.origin is None else self.origin.strings

    @property
    def most_bytes(self) -> int:
        """Limit in bytes of a loop's states and results: an eighth of the host's memory, because
        specializations hold states, too, and results are copied once more at the end."""
        return host_bytes() // 8

    def prepare(self, values: Mapping[str, FlowValue]) -> None:
        """Make the first specialization for the sizes of these values."""
        step = self.first(values)
        if step.stage.model is not None:
            self.specializations.of(step.stage.model)

    def first(self, values: Mapping[str, FlowValue]) -> Step:
        """The first step for the kinds of these values; it is made if there is none yet."""
        key = tuple([kind_of(value) for value in values.values()])
        step = self.steps.get(key)
        if step is None:
            step = self._step(self.nodes, self.known, values)
            self._keep(self.steps, key, step)
        return step

    def begin(self, importer: Importer, values: Mapping[str, FlowValue]) -> None:
        """Make the first step from the nodes that an importer has already converted."""
        stage = stage_of(importer, self.nodes, self.outputs)
        if stage is not None:
            self._keep(self.steps, tuple([kind_of(value) for value in values.values()]), self._of(stage))

    def _keep(self, steps: dict[Any, Step], key: Any, step: Step) -> None:
        """Keep a step, and drop the oldest if there are as many steps as specializations may be kept."""
        while len(steps) >= self.specializations.most:
            del steps[next(iter(steps))]
        steps[key] = step

    def output(self, step: Step, name: str, values: Mapping[str, FlowValue]) -> FlowValue:
        if name in values:
            return values[name]
        return constant_of(step.stage.known[name], self.strings)

    # ---------------------------------------------------------------- one step

    def _execute(self, step: Step, values: dict[str, FlowValue]) -> None:
        stage = step.stage
        made = {} if stage.model is None else self._made(stage, stage.model, values)
        for name, parts in stage.makes.items():
            if isinstance(parts, tuple):
                values[name] = [made[part] for part in parts]
            else:
                values[name] = None if parts is None else made[parts]
        for name, (size, axis) in stage.bounds.items():
            stop = int(array_of(made[size]).reshape(-1)[0])
            values[name] = array_of(values[name])[(slice(None),) * axis + (slice(stop),)]
        for loop in step.loops:
            loop.run(values)

    def _made(self, stage: Stage, model: Model, values: Mapping[str, FlowValue]) -> Mapping[str, Any]:
        """The outputs of a stage's specialization for these values."""
        specialization = self.specializations.of(model)
        session = specialization.session
        strings = Strings(self.strings)
        for at, read in zip(specialization.inputs, stage.reads, strict=True):
            value = values[read.name]
            value = value if read.index is None else value[read.index]
            if read.element is not None:
                value = encoded(value, read.element, strings, read.name)
            session.set_input(at, value)
        self.specializations.run(session)
        made: Mapping[str, Any] = specialization.outputs
        if not stage.elements:
            return made
        return {**made, **{name: decoded(made[name], kind, strings) for name, kind in stage.elements.items()}}

    def _next(self, step: Step, values: dict[str, FlowValue]) -> Step:
        asked = tuple([array_of(values[name]).tobytes() for name in step.stage.asks])
        key = asked, tuple([kind_of(values[name]) for name in step.sized])
        child = step.children.get(key)
        if child is None:
            known = dict(step.stage.known)
            for name in step.stage.asks:
                array = kept(values[name])
                kind = TensorType(dtypes.from_numpy(array.dtype), array.shape)
                known[name] = TapeValue(kind, name, Constant.of(array, f"{name} as a run found it"))
            child = self._step(step.stage.rest, known, values)
            self._keep(step.children, key, child)
        return child

    # ---------------------------------------------------------------- finding the next step

    def _step(
        self, nodes: Iterable[StagedNode], known: Mapping[str, Known], values: Mapping[str, FlowValue]
    ) -> Step:
        if self.origin is None:
            raise UnmetError(_unknown(self, values))
        types = {name: type_of(value) for name, value in values.items() if name not in known}
        with self.specializations.making:
            return self._of(self.origin.next_stage(nodes, known, types, self.outputs))

    def _of(self, stage: Stage) -> Step:
        """The step of a stage. Raises GraphError if the flow cannot go on."""
        if not stage.rest:
            return Step(stage, [], ())
        origin = self.origin
        assert origin is not None, "a loaded flow finds no more steps"
        loops = [origin.loop(path, node, stage, self._inner) for path, node in stage.loops]
        done = {id(node) for _, node in stage.loops}
        rest = tuple(each for each in stage.rest if id(each[1]) not in done)
        results = [name for loop in loops for name in loop.results if name]
        if not (loops or stage.asks or stage.bounds):
            path, node = stage.rest[0]
            text = f"{node.op_type} {node.name!r} waits for a value that no node makes"
            raise GraphError(text, path=path, node=node.name)
        sized = [*stage.bounds, *stage.asks, *results]
        return Step(replace(stage, rest=rest), loops, tuple(sized))

    def _inner(
        self, nodes: tuple[StagedNode, ...], outputs: tuple[str, ...], known: Mapping[str, Known]
    ) -> Flow:
        return Flow(self.origin, nodes, outputs, known, self.specializations, self.most_steps)


def _unknown(flow: Flow, values: Mapping[str, FlowValue]) -> str:
    """Text of the error that the bundle has no step for these values. The text lists the steps that the
    bundle has."""
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
