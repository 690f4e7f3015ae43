"""What a tape's outputs need -> a Model, with the names of the ONNX file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ...ir import builder as build
from ...ir.graph import Graph
from ...ir.model import Constant, Model, Note
from ...ir.ops.moving.shape import exactly
from .aliased import in_place
from .tape import Tape, TapeNode, TapeValue

__all__ = ["emit"]

_NONE: Mapping[str, str] = MappingProxyType({})


def emit(
    tape: Tape,
    inputs: Sequence[TapeValue],
    outputs: Mapping[str, TapeValue],
    notes: Sequence[Note],
    dims: Mapping[str, int],
    aliases: Mapping[str, str] = _NONE,
    order: Sequence[str] = (),
) -> Model:
    """The model; the tape's nodes are gone then. Inputs stay even where nothing reads them. An output's node
    has the output's name; where the output is an input, a constant, one result of several or has a second
    name, a reshape is that node.
    ``aliases`` {output: the input that it is written into}, where all reads of that can come first.
    ``order``: the outputs' names as the graph lists them, where it lists one more than once."""
    own = _named(outputs)
    kept = set(own.values())
    out = _Emitter(inputs, outputs, {value.name for value in inputs})
    nodes = _needed(tape, outputs.values())
    if aliases:
        nodes, aliases = in_place(nodes, outputs, aliases)
    tape.nodes.clear()
    nodes.reverse()
    while nodes:  # a node goes as soon as it is in the graph: both at once take twice the memory
        node = nodes.pop()
        out.node(node, keep=id(node) in kept)
        node.inputs = node.outputs = ()
    for name, value in outputs.items():
        same = value.node is None and value.constant is None and value.name == name
        out.output(name, value, direct=(same and name not in aliases) or name in own)
    out.listed(order or outputs, aliases)
    return Model(out.finish(), out.constants, tuple(notes), dict(dims))


def _named(outputs: Mapping[str, TapeValue]) -> dict[str, int]:
    """Give the nodes that make one output, and nothing else, its name: {output: id of its node}."""
    own: dict[str, int] = {}
    seen: set[int] = set()
    for name, value in outputs.items():
        node = value.node
        if node is not None and len(node.outputs) == 1 and id(node) not in seen:
            seen.add(id(node))
            own[name], node.name = id(node), name
    return own


def _needed(tape: Tape, values: Iterable[TapeValue]) -> list[TapeNode]:
    """The nodes that the values are computed from, in order."""
    needed, stack = set(), [v.node for v in values if v.node is not None]
    while stack:
        node = stack.pop()
        if id(node) not in needed:
            needed.add(id(node))
            stack += [v.node for v in node.inputs if v.node is not None]
    return [node for node in tape.nodes if id(node) in needed]


class _Emitter:
    """The builder in the making. A constant becomes a graph input where it is first read."""

    def __init__(self, inputs: Sequence[TapeValue], outputs: Mapping[str, TapeValue], taken: set[str]):
        self.builder = build.GraphBuilder()
        self.constants: dict[str, Constant] = {}
        self._taken = taken | set(outputs)
        self._counts: dict[str, int] = {}
        self._inputs = {v.name: self.builder.input(v.name, v.shape, v.type.dtype) for v in inputs}
        self._made = {id(v): self._inputs[v.name] for v in inputs}
        self._outputs: dict[str, build.Value] = {}

    def node(self, node: TapeNode, keep: bool) -> None:
        """``keep``: its name is an output's."""
        reads = [self._read(value) for value in node.inputs]
        name = node.name if keep else self._unique(node.name or node.call.op)
        made = self.builder.add(node.call, reads, name)
        self._made |= {id(v): m for v, m in zip(node.outputs, made, strict=True)}

    def output(self, name: str, value: TapeValue, direct: bool) -> None:
        made = self._read(value)
        if not direct:
            made = self.builder.op("reshape", made, name=name, **exactly(value.shape))
        self._outputs[name] = made

    def listed(self, names: Iterable[str], aliases: Mapping[str, str]) -> None:
        """The outputs that were made, in the order of ``names``; ``aliases`` as emit's."""
        self.builder.output(*(self._outputs[name] for name in names))
        for name, source in aliases.items():
            self.builder.alias(self._outputs[name], self._inputs[source])

    def finish(self) -> Graph:
        """The graph, once all is in it."""
        self._made.clear()
        return self.builder.finish()

    def _read(self, value: TapeValue) -> build.Value:
        if id(value) not in self._made:
            name = self._unique(value.name or "constant")
            assert value.constant is not None, "inputs and results were made before they are read"
            self.constants[name] = value.constant
            self._made[id(value)] = self.builder.input(name, value.shape, value.type.dtype)
        return self._made[id(value)]

    def _unique(self, stem: str) -> str:
        name = stem
        while name in self._taken or self.builder.has(name):
            self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}_{self._counts[stem]}"
        return name
