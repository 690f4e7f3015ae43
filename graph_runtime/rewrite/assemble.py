"""Conversion of a net's lists to a Model, and of a graph's device columns to names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from ..base.errors import GraphError
from ..base.machine.devices import dl_types, type_name
from ..ir.graph import Graph, Hints, TensorType
from ..ir.model import Model, Note
from ..ir.overwrites import in_order
from .values import NetNode, NetValue


def column_devices(graph: Graph) -> list[str | None]:
    """The device that the file's columns give each node: "tt:0", or "4:1" for a DLDeviceType without a name.
    None for each node if the file has no such columns, and for a node without outputs."""
    types = graph.hints.device_type
    if types is None:
        return [None] * graph.num_nodes
    ids = np.zeros_like(types) if graph.hints.device_id is None else graph.hints.device_id
    pairs = list(zip(types.tolist(), ids.tolist(), strict=True))
    names = {(t, i): f"{type_name(t) or t}:{i}" for t, i in set(pairs)}
    of_entry = [names[pair] for pair in pairs]
    rows = graph.row_ptr.tolist()
    return [of_entry[rows[n]] if rows[n + 1] > rows[n] else None for n in range(graph.num_nodes)]


def assemble(
    source: Model,
    inputs: Sequence[NetValue],
    nodes: Iterable[NetNode],
    outputs: Sequence[NetValue],
    notes: Sequence[Note],
    changed: bool,
) -> Model:
    """The rewritten model of ``source``. It has the source's inputs in order, then new constants, then the
    remaining nodes, the outputs and the notes. If anything changed, the storage columns of the source are
    dropped; devices, aliases, numerics and policy are kept. Raises GraphError if rules made a cycle."""
    all_notes = (*source.notes, *notes)
    if not changed:
        return replace(source, notes=all_notes) if notes else source
    kept = [v for v in inputs if v.constant is None or v.readers or v.heads]
    nodes = list(_scheduled(nodes))
    if source.graph.hints.aliases:
        nodes = _read_first(source.graph.hints, inputs, nodes, outputs)
    names = _unique_names(kept, nodes, outputs)
    graph = _graph(kept, nodes, names, outputs, _hints(source.graph.hints, inputs, kept, nodes))
    constants = {names[v]: v.constant for v in kept if v.constant is not None}
    origins = {names[n]: n.origins for n in nodes if n.origins != (names[n],)}
    asked = set(source.pins.values())
    items: tuple[NetValue | NetNode, ...] = (*kept, *nodes)
    pins = {names[x]: x.device for x in items if x.device is not None and x.device in asked}
    return Model(graph, constants, all_notes, source.dims, origins, pins)


def _scheduled(nodes: Iterable[NetNode]) -> Iterator[NetNode]:
    """The nodes in order, except that a node whose inputs are made later moves after their makers."""
    done: set[NetNode] = set()
    for first in nodes:
        stack = [first]
        while stack:
            node = stack[-1]
            missing = [v.producer for v in node.inputs if v.producer is not None and v.producer not in done]
            if node in done or not missing:
                stack.pop()
                if node not in done:
                    done.add(node)
                    yield node
                continue
            for producer in missing:
                if producer in stack:
                    text = f"rewriting made a cycle through node {producer.name!r}"
                    raise GraphError(text, node=producer.name)
            stack += missing[::-1]


def _unique_names(
    inputs: list[NetValue], nodes: list[NetNode], outputs: Sequence[NetValue]
) -> dict[NetValue | NetNode, str]:
    """A unique name for each input and node. Names of inputs and outputs, which users know, stay; others
    change if they occur twice."""
    fixed: list[NetValue | NetNode] = [v for v in inputs if v.constant is None]
    fixed += dict.fromkeys(v.producer for v in outputs if v.producer is not None)
    names: dict[NetValue | NetNode, str] = {}
    taken: dict[str, int] = {}
    all_items: Iterable[NetValue | NetNode] = chain(fixed, inputs, nodes)
    for item in dict.fromkeys(all_items):
        name = item.name
        while name in taken:
            taken[item.name] += 1
            name = f"{item.name}_{taken[item.name]}"
        taken[name] = 0
        names[item] = name
    return names


def _graph(
    inputs: list[NetValue],
    nodes: list[NetNode],
    names: dict[NetValue | NetNode, str],
    outputs: Sequence[NetValue],
    hints: Hints,
) -> Graph:
    values = [*inputs, *(v for node in nodes for v in node.outputs)]
    eid = {value: i for i, value in enumerate(values)}
    types: dict[TensorType, int] = {}
    funcs = {func: i for i, func in enumerate(dict.fromkeys(node.func for node in nodes))}
    items: tuple[NetValue | NetNode, ...] = (*inputs, *nodes)
    return Graph(
        tuple(names[item] for item in items),
        np.array([-1] * len(inputs) + [funcs[node.func] for node in nodes], np.int32),
        tuple(funcs),
        np.cumsum([0] + [1] * len(inputs) + [len(node.outputs) for node in nodes]),
        np.cumsum([0] * (len(inputs) + 1) + [len(node.inputs) for node in nodes]),
        np.array([eid[v] for node in nodes for v in node.inputs], np.int64),
        np.array([types.setdefault(v.type, len(types)) for v in values], np.int32),
        tuple(types),
        np.arange(len(inputs), dtype=np.int64),
        np.array([eid[v] for v in outputs], np.int64),
        hints,
    )


def _maker(value: NetValue) -> NetNode | None:
    """The node that computes a value, looking through reshapes; None if that value is an input."""
    while value.producer is not None and value.producer.is_nop:
        value = value.producer.inputs[0]
    return value.producer


def _read_first(
    hints: Hints, before: Sequence[NetValue], nodes: list[NetNode], outputs: Sequence[NetValue]
) -> list[NetNode]:
    """The nodes in an order in which inputs are read before outputs overwrite them, as far as possible;
    ``before``: the inputs in the file's order."""
    number = {node: i for i, node in enumerate(nodes)}
    readers = [[number[r] for v in node.outputs for r in v.readers if r in number] for node in nodes]
    makers = [(_maker(outputs[output]), before[i]) for output, i in hints.aliases]
    claims = [(number[maker], _reading(value, number)) for maker, value in makers if maker is not None]
    return [nodes[i] for i in in_order(readers, claims)[0]]


def _reading(value: NetValue, number: Mapping[NetNode, int]) -> set[int]:
    """Numbers of the nodes that read a value, directly or through a reshape."""
    found: set[int] = set()
    for node in value.readers:
        if node in number:
            found.add(number[node])
            if node.is_nop:
                found |= _reading(node.outputs[0], number)
    return found


def _hints(old: Hints, before: Sequence[NetValue], inputs: list[NetValue], nodes: list[NetNode]) -> Hints:
    """The file's hints that still apply to the rewritten graph; ``before``: the inputs in the file's
    order."""
    at = {value: i for i, value in enumerate(inputs)}
    aliases = tuple((out, at[before[i]]) for out, i in old.aliases if before[i] in at)
    kept = Hints(aliases=aliases, numerics=old.numerics, policy=old.policy)
    if old.device_type is None:
        return kept
    on = [_device_of(v, nodes) for v in inputs]
    places = _devices_of_nodes(nodes)
    on += [places[node] for node in nodes for _ in node.outputs]
    types, parts = dl_types(), {name: name.partition(":") for name in dict.fromkeys(on)}
    numbers = {
        name: (int(kind) if kind.isdecimal() else types[kind], int(ordinal))
        for name, (kind, _, ordinal) in parts.items()
    }
    return replace(
        kept,
        device_type=np.array([numbers[p][0] for p in on], np.int64),
        device_id=np.array([numbers[p][1] for p in on], np.int64),
    )


def _device_of(value: NetValue, nodes: list[NetNode]) -> str:
    """The device of an input: for an input of the file the device that the file gives it, for a new constant
    the device of its first reader."""
    if value.device is not None:
        return value.device
    return next((node.device for node in (*value.readers, *nodes[:1]) if node.device), "cpu:0")


def _devices_of_nodes(nodes: list[NetNode]) -> dict[NetNode, str]:
    """The device of each node: for a node of the file the device that the file gives it, for a new node the
    device of its first input that has a device."""
    places: dict[NetNode, str] = {}
    for node in nodes:
        read = (v.device if v.producer is None else places[v.producer] for v in node.inputs)
        places[node] = node.device or next(filter(None, read), "cpu:0")
    return places
