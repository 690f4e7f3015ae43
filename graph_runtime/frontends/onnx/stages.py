"""Stages of a graph that needs sizes or values from a run: the part that can be converted now, and the values
for which the rest waits.

A stage has all nodes that can be converted from what is known: constants, and the types of the values that
exist. The rest waits for values that converters need (a shape, a number of repetitions, a condition), for a
size that only a run finds (NonZero), or for a loop. After the run of a stage, next_stage() is called again
for the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError
from ...ir.graph import TensorType
from ...ir.model import Model
from .budget import Budget
from .context import UnknownValueError
from .control_checks import one_value, subgraph_of
from .elements import ELEMENTS, Element
from .emit import emit
from .host_ops import done_by_host
from .importer import UNKNOWN, Importer
from .nodes import names_read, op_key, subgraphs
from .parse import ParsedFile
from .tape import TapeSequence, TapeValue, reached

Known = TapeValue | TapeSequence
# None: an optional without a value; a tuple: a sequence, with the type of each of its values
Type = TensorType | tuple[TensorType, ...] | None
StagedNode = tuple[str, Any]  # (path in the file, such as $.graph.node[3]; the node)

MOST_UNROLLED = 16  # most iterations of a loop that is unrolled
_MOST_SPLICED = 100_000  # nodes of taken branches in one stage


@dataclass(frozen=True, slots=True)
class Read:
    """An input of a stage's model: the value ``name``, or element ``index`` of the sequence ``name``.
    ``element``: the Element that the numbers encode; None if they encode none."""

    name: str
    index: int | None
    type: TensorType
    element: Element | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """The part of a graph that is run next.

    ``model``: the model to run; None if there is nothing to compute. ``reads``: inputs of the model, in
    order. ``makes``: {name of a value: the model's output that has the value}, with several outputs for a
    sequence, and None for an optional without a value. ``bounds``: {name of a value: (the output with its
    valid size, the axis of that size)}. ``elements``: {output of the model: its Element}. ``loops``: loops
    and host nodes whose inputs are all available. ``asks``: names of values that converters of the rest need.
    ``known``: constants by name. ``rest``: nodes that wait; empty in the last stage.
    """

    model: Model | None
    reads: tuple[Read, ...]
    makes: Mapping[str, str | tuple[str, ...] | None]
    bounds: Mapping[str, tuple[str, int]]
    elements: Mapping[str, Element]
    loops: tuple[StagedNode, ...]
    asks: tuple[str, ...]
    known: Mapping[str, Known]
    rest: tuple[StagedNode, ...]

    @property
    def has_elements(self) -> bool:
        """Whether the model has inputs or outputs whose elements have no dtype in graphs."""
        return bool(self.elements) or any(read.element for read in self.reads)


def first_nodes(graph: Any, path: str = "$.graph") -> tuple[StagedNode, ...]:
    """All nodes of a graph, with their paths."""
    return tuple((f"{path}.node[{i}]", node) for i, node in enumerate(graph.node))


def next_stage(
    file: ParsedFile,
    nodes: Iterable[StagedNode],
    known: Mapping[str, Known],
    types: Mapping[str, Type],
    outputs: Sequence[str],
) -> Stage:
    """The next stage of ``nodes``. ``types``: types of the values that runs have computed. ``outputs``: names
    of the values that are wanted in the end. Raises UnsupportedOpError, which lists every node that cannot be
    converted, and GraphError."""
    return _Cutter(file, known, types).cut(nodes, outputs)


def stage_of(begun: Importer, nodes: Iterable[StagedNode], outputs: Sequence[str]) -> Stage | None:
    """The first stage of a graph that an importer could not convert as a whole; nodes that the importer has
    converted are not converted again. None if the importer has unrolled a loop that a stage would keep as a
    loop. Raises the errors of next_stage.
    """
    return _Cutter.resumed(begun).cut_rest(nodes, outputs)


class _Cutter:
    """Builds one stage."""

    def __init__(self, file: ParsedFile, known: Mapping[str, Known], types: Mapping[str, Type]):
        self.importer = Importer(file)
        self.importer.tape.budget = Budget(len(file.file.data) + sum(file.file.outside.values()))
        batched = file.opsets.get("", 1) < 9  # a batched Scan is a loop of loops and is unrolled
        self.loop_ops = {("", "Loop")} if batched else {("", "Loop"), ("", "Scan")}
        self.given = {name: _given(name, kind) for name, kind in types.items()}
        self.scope: dict[str, Any] = {**known, **self.given}
        self.rest: list[StagedNode] = []
        self.loops: list[StagedNode] = []
        self.asked: list[TapeValue] = []
        self.queue: deque[StagedNode] = deque()
        self.spliced = 0

    @classmethod
    def resumed(cls, importer: Importer) -> _Cutter:
        cutter = cls(importer.source, {}, {})
        names = importer.source.types.keys() - importer.source.given.keys()
        cutter.given = {name: importer.scope[name] for name in importer.source.types if name in names}
        cutter.importer, cutter.scope = importer, importer.scope
        importer.failures.clear()
        return cutter

    def cut_rest(self, nodes: Iterable[StagedNode], outputs: Sequence[str]) -> Stage | None:
        """The stage that cut makes of those ``nodes`` that the importer has not converted; None if the
        importer has unrolled a loop that a stage would keep."""
        waiting = []
        for path, node in nodes:
            if any(self.scope[name] is UNKNOWN for name in node.output if name):
                waiting.append((path, node))
            elif op_key(node) in self.loop_ops and self._stays(node):
                return None
        return self.cut(waiting, outputs)

    def cut(self, nodes: Iterable[StagedNode], outputs: Sequence[str]) -> Stage:
        self.queue.extend(nodes)
        while self.queue:
            path, node = self.queue.popleft()
            if not self._splice(path, node):
                self._node(path, node)
        self.importer.refuse()
        asks = self._asks()
        return self._stage(names_wanted(outputs, [names_read(node) for _, node in self.rest], asks), asks)

    # ---------------------------------------------------------------- nodes

    def _node(self, path: str, node: Any) -> None:
        values = [self.scope[name] if name else None for name in node.input]
        waits = any(value is UNKNOWN or (value is not None and value.bound) for value in values)
        loop = op_key(node) in self.loop_ops
        on_host = not waits and done_by_host(node, values)
        if waits or on_host or (loop and self._stays(node)):
            self._wait(path, node, (loop or on_host) and not waits)
            return
        budget = self.importer.tape.budget
        budget.step(1 + node.ByteSize() // 64, path)
        before = len(self.importer.failures)
        results = self.importer.convert_node(node, self.scope, path)
        failed = self.importer.failures[before:]
        if loop and failed:  # the body alone may still be convertible
            del self.importer.failures[before:]
            self._wait(path, node, True)
        elif failed and all(isinstance(f.error, UnknownValueError) for f in failed):
            del self.importer.failures[before:]
            self.asked += [
                f.error.value for f in failed if isinstance(f.error, UnknownValueError) and f.error.value
            ]
            self._wait(path, node, False)
        else:
            self._bind(node, results)

    def _bind(self, node: Any, results: Sequence[Any]) -> None:
        for name, value in zip(node.output, results, strict=False):
            if name:
                self.scope[name] = value

    def _wait(self, path: str, node: Any, loop: bool) -> None:
        self.rest.append((path, node))
        self._bind(node, [UNKNOWN] * len(node.output))
        values = [self.scope.get(name) for name in names_read(node)]  # None: a value inside the subgraph
        if loop and all(v is None or (v is not UNKNOWN and not v.bound) for v in values):
            self.loops.append((path, node))

    def _stays(self, node: Any) -> bool:
        """Whether a loop is kept: it is too long to be unrolled, or a run decides when it ends."""
        if node.op_type == "Scan":
            inputs = [self.scope[name] for name in node.input]
            return any(isinstance(v, TapeSequence) or max(v.shape, default=0) > MOST_UNROLLED for v in inputs)
        limit, go = ((self.scope[n] if n else None) for n in (*node.input, "", "")[:2])
        if limit is None or limit.known() is None or (go is not None and go.known() is None):
            return True
        trips = limit.known()
        return trips.size != 1 or int(trips.reshape(-1)[0]) > MOST_UNROLLED

    def _splice(self, path: str, node: Any) -> bool:
        """Whether a node is an If. An If with a known condition is replaced by the nodes of the branch taken;
        any other If waits."""
        if op_key(node) != ("", "If"):
            return False
        condition = self.scope[node.input[0]]
        if condition is UNKNOWN or condition.bound or (values := condition.known()) is None:
            if condition is not UNKNOWN and not condition.bound:
                self.asked.append(condition)
            self._wait(path, node, False)
            return True
        taken = bool(one_value(values, "the condition", node, path))
        name = "then_branch" if taken else "else_branch"
        branch = _branch(node, name, self.scope, path)
        self.spliced += len(branch.node)
        if self.spliced > _MOST_SPLICED:
            raise GraphError(f"branches of more than {_MOST_SPLICED} nodes", path=path, node=node.name)
        self.scope |= self.importer.initializers(branch, whole=True)
        inner = [(f"{path}.{name}.node[{i}]", each) for i, each in enumerate(branch.node)]
        inner += [
            (path, _identity(node, info.name, name))
            for info, name in zip(branch.output, node.output, strict=False)
            if name
        ]
        self.queue.extendleft(reversed(inner))
        return True

    # ---------------------------------------------------------------- what a run must make

    def _asks(self) -> tuple[str, ...]:
        """Names of the values that converters ask for. A value without a name is replaced by the nearest
        named values from which it is computed."""
        names = {id(value): name for name, value in self.scope.items() if isinstance(value, TapeValue)}
        found: dict[str, None] = {}
        stack, seen = list(self.asked), set()
        while stack:
            value = stack.pop()
            if id(value) in seen or value.constant is not None:
                continue
            seen.add(id(value))
            if id(value) in names:
                found[names[id(value)]] = None
            elif value.node is not None:
                stack += value.node.inputs
        return tuple(sorted(found))

    def _stage(self, wanted: Iterable[str], asks: tuple[str, ...]) -> Stage:
        makes: dict[str, str | tuple[str, ...] | None] = {}
        bounds: dict[str, tuple[str, int]] = {}
        outputs: dict[str, TapeValue] = {}
        known: dict[str, Known] = {}
        for name in wanted:
            value = self.scope.get(name, UNKNOWN)
            if value is UNKNOWN or value is self.given.get(name):
                continue
            if isinstance(value, TapeSequence):
                parts = tuple(f"{name}[{i}]" for i in range(len(value.values)))
                outputs |= zip(parts, value.values, strict=True)
                makes[name] = None if value.absent else parts
            elif value.constant is not None:
                known[name] = value
            else:
                makes[name], outputs[name] = name, value
                if value.bound:
                    bounds[name] = (f"{name}#size", value.bound.axis)
                    outputs[f"{name}#size"] = value.bound.count
        reads = reads_of(outputs.values(), self.given)
        inputs: list[Any] = []
        for read in reads:
            given = self.given[read.name]
            inputs.append(given.values[read.index or 0] if isinstance(given, TapeSequence) else given)
        tape, notes = self.importer.tape, self.importer.notes
        elements = {name: value.element for name, value in outputs.items() if value.element is not None}
        model = emit(tape, inputs, outputs, notes, self.importer.source.dims) if outputs else None
        loops, rest = tuple(self.loops), tuple(self.rest)
        return Stage(model, reads, makes, bounds, elements, loops, asks, known, rest)


def names_wanted(
    outputs: Iterable[str], rest: Iterable[Iterable[str]], asks: Iterable[str]
) -> dict[str, None]:
    """Names of values that outlive a stage: outputs of the graph, values that waiting nodes read, and values
    that converters ask for."""
    wanted = dict.fromkeys(outputs)
    for names in rest:
        wanted |= dict.fromkeys(sorted(names))
    return wanted | dict.fromkeys(asks)


def reads_of(values: Iterable[TapeValue], there: Mapping[str, Known]) -> tuple[Read, ...]:
    """Inputs of a stage: the available values (``there``) from which ``values`` are computed."""
    needed = reached(values)
    found = []
    for name, given in there.items():
        if isinstance(given, TapeSequence):
            found += [Read(name, i, v.type, v.element) for i, v in enumerate(given.values) if id(v) in needed]
        elif id(given) in needed:
            found.append(Read(name, None, given.type, given.element))
    return tuple(found)


def _given(name: str, kind: Type) -> Known:
    if kind is None:
        return TapeSequence((), absent=True)
    if isinstance(kind, tuple):
        return TapeSequence(tuple(_typed(t, f"{name}[{i}]") for i, t in enumerate(kind)))
    return _typed(kind, name)


def _typed(kind: TensorType, name: str) -> TapeValue:
    """A value of the given type, whose dtype may be the name of an Element."""
    element = ELEMENTS.get(kind.dtype)
    if element is None:
        return TapeValue(kind, name)
    return TapeValue(TensorType(element.stored, kind.shape), name, element=element)


def _identity(node: Any, source: str, result: str) -> Any:
    made = type(node)()
    made.op_type, made.name = "Identity", f"{node.name or node.output[0]}.{result}"
    made.input.append(source)
    made.output.append(result)
    return made


def _branch(node: Any, name: str, names: Collection[str], path: str) -> Any:
    """The graph of a branch. A value of the branch gets a new name if ``names`` contains its name, because
    both branches of a file may use one name."""
    branch = subgraph_of(node, name, path)
    made = {name for inner in branch.node for name in inner.output if name}
    made |= {tensor.name for tensor in branch.initializer}
    if not (twice := made & set(names)):
        return branch
    copy = type(branch)()
    copy.CopyFrom(branch)
    stem = node.name or node.output[0]
    others = {name: _unused(f"{stem}.{name}", names) for name in twice}
    _rename(copy, others)
    return copy


def _unused(name: str, names: Collection[str]) -> str:
    while name in names:
        name += "_"
    return name


def _rename(graph: Any, others: Mapping[str, str]) -> None:
    for items in (graph.initializer, graph.output):
        for item in items:
            item.name = others.get(item.name, item.name)
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = others.get(name, name)
        for inner in subgraphs(node):
            _rename(inner, others)
