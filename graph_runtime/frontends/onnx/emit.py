"""Make a Model of the nodes on which a tape's outputs depend, with the names of the ONNX file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ...ir import builder as build
from ...ir.graph import Graph
from ...ir.model import Constant, Model, Note
from ...ir.ops.moving.shape import exactly
from ...ir.overwrites import in_order
from .tape import Tape, TapeNode, TapeValue

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
    """The Model; the tape's nodes are removed as they are added to it. Inputs that nothing reads are kept.
    The node of an output has the output's name. A reshape becomes this node if the output is an input, a
    constant or one of several results, or has a second name. ``aliases``: {output: the input whose memory the
    output overwrites}; an alias is kept if all reads of the input can come before. ``order``: names of the
    outputs as the graph lists them; needed if a name occurs more than once."""
    own = _named(outputs)
    kept = set(own.values())
    out = _Emitter(inputs, outputs, {value.name for value in inputs})
    nodes = _needed(tape, outputs.values())
    if aliases:
        nodes, aliases = _in_place(nodes, outputs, aliases)
    tape.nodes.clear()
    nodes.reverse()
    while nodes:  # a node is dropped once it is in the graph, because keeping both takes twice the memory
        node = nodes.pop()
        out.node(node, keep=id(node) in kept)
        node.inputs = node.outputs = ()
    for name, value in outputs.items():
        same = value.node is None and value.constant is None and value.name == name
        out.output(name, value, direct=(same and name not in aliases) or name in own)
    out.listed(order or outputs, aliases)
    return Model(out.finish(), out.constants, tuple(notes), dict(dims))


def _named(outputs: Mapping[str, TapeValue]) -> dict[str, int]:
    """{output: id of the node whose only result is the output}; such nodes get the output's name."""
    own: dict[str, int] = {}
    seen: set[int] = set()
    for name, value in outputs.items():
        node = value.node
        if node is not None and len(node.outputs) == 1 and id(node) not in seen:
            seen.add(id(node))
            own[name], node.name = id(node), name
    return own


def _needed(tape: Tape, values: Iterable[TapeValue]) -> list[TapeNode]:
    """The nodes on which the values depend, in order."""
    needed, stack = set(), [v.node for v in values if v.node is not None]
    while stack:
        node = stack.pop()
        if id(node) not in needed:
            needed.add(id(node))
            stack += [v.node for v in node.inputs if v.node is not None]
    return [node for node in tape.nodes if id(node) in needed]


def _in_place(
    nodes: Sequence[TapeNode], outputs: Mapping[str, TapeValue], aliases: Mapping[str, str]
) -> tuple[list[TapeNode], dict[str, str]]:
    """(the nodes, ordered so that inputs are read before they are overwritten; the aliases for which such an
    order exists). An alias is dropped if its output has no node of its own; the output then gets separate
    memory."""
    at = {id(node): i for i, node in enumerate(nodes)}
    readers: list[set[int]] = [set() for _ in nodes]
    of_input: dict[str, set[int]] = {}
    for i, node in enumerate(nodes):
        for value in node.inputs:
            if value.node is not None:
                readers[at[id(value.node)]].add(i)
            elif value.constant is None:
                of_input.setdefault(value.name, set()).add(i)
    made = [id(value) for value in outputs.values()]
    read = {value.name for value in outputs.values() if value.node is None and value.constant is None}
    own = {
        name: source
        for name, source in aliases.items()
        if outputs[name].node is not None and made.count(id(outputs[name])) == 1 and source not in read
    }
    claims = [(at[id(outputs[name].node)], of_input.get(source, set())) for name, source in own.items()]
    order, kept = in_order(readers, claims)
    found = dict(each for each, follows in zip(own.items(), kept, strict=True) if follows)
    return [nodes[i] for i in order], found


class _Emitter:
    """Builder of the graph. A constant becomes a graph input when it is first read."""

    def __init__(self, inputs: Sequence[TapeValue], outputs: Mapping[str, TapeValue], taken: set[str]):
        self.builder = build.GraphBuilder()
        self.constants: dict[str, Constant] = {}
        self._taken = taken | set(outputs)
        self._counts: dict[str, int] = {}
        self._inputs = {v.name: self.builder.input(v.name, v.shape, v.type.dtype) for v in inputs}
        self._made = {id(v): self._inputs[v.name] for v in inputs}
        self._outputs: dict[str, build.NodeValue] = {}

    def node(self, node: TapeNode, keep: bool) -> None:
        """Add a node. ``keep``: whether the node's name must stay, because it is an output's name."""
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
        """Declare the outputs in the order of ``names``; ``aliases``: {output: the input whose memory it
        overwrites}."""
        self.builder.output(*(self._outputs[name] for name in names))
        for name, source in aliases.items():
            self.builder.alias(self._outputs[name], self._inputs[source])

    def finish(self) -> Graph:
        """The finished graph."""
        self._made.clear()
        return self.builder.finish()

    def _read(self, value: TapeValue) -> build.NodeValue:
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
