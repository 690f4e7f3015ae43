"""Calls of a model's own functions become the functions' nodes.

A function has defaults of its attributes (``attribute_proto``) and may have opsets of its own. ONNX asks that
these define the function's ops as the model's do. Where they do not the model's count, as for ONNX Runtime; a
node that fits the function's alone says so in its metadata, for ``opset_of``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["function_key", "inline_functions", "opset_of"]

_OPSET = "graph_runtime.opset"  # metadata of a node

Key = tuple[str, str, str]


def function_key(item: Any) -> Key:
    """What a call and a function agree in: domain, name, overload."""
    name = item.op_type if hasattr(item, "op_type") else item.name
    return _domain(item.domain), name, item.overload


def opset_of(node: Any, opsets: Mapping[str, int]) -> int:
    """The version of a node's domain; ``opsets``: the model's."""
    for entry in node.metadata_props:
        if entry.key == _OPSET and entry.value.isdecimal():
            return int(entry.value[:9])
    return opsets.get(_domain(node.domain), 1)


def inline_functions(proto: Any, opsets: Mapping[str, int], onnx: Any) -> None:
    """Replace every call of a function of the ModelProto, in subgraphs and functions too, by its nodes; none
    calls itself. ``opsets``: the model's."""
    inliner = _Inliner(proto, opsets, onnx)
    inliner.graph(proto.graph)
    del proto.functions[:]


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


class _Inliner:
    """``numbers``: of calls, which make the names of their values unlike all others."""

    def __init__(self, proto: Any, opsets: Mapping[str, int], onnx: Any):
        self.onnx = onnx
        self.functions = {function_key(f): f for f in proto.functions}
        self.opsets = opsets
        self.taken = set(_names(proto.graph))
        self.numbers = itertools.count(1)

    def fits(self, node: Any, version: int | None) -> bool:
        """Whether a node is one of this version of its op."""
        try:
            schema = self.onnx.defs.get_schema(node.op_type, version or 0, _domain(node.domain))
        except self.onnx.defs.SchemaError:
            return False
        given = {attribute.name for attribute in node.attribute}
        return given <= schema.attributes.keys() and schema.min_input <= len(node.input) <= schema.max_input

    def graph(self, graph: Any) -> None:
        """In place."""
        for node in graph.node:
            for inner in _subgraphs(node):
                self.graph(inner)
        if any(function_key(node) in self.functions for node in graph.node):
            made = [new for node in graph.node for new in self._nodes(node)]
            del graph.node[:]
            graph.node.extend(made)

    def _nodes(self, node: Any) -> Iterator[Any]:
        function = self.functions.get(function_key(node))
        if function is None:
            copy = type(node)()
            copy.CopyFrom(node)
            yield copy
            return
        names = dict.fromkeys(function.input, "") | dict(zip(function.input, node.input, strict=False))
        passed = {out: name for out, name in zip(function.output, node.output, strict=False) if name}
        attributes = {a.name: a for a in (*function.attribute_proto, *node.attribute)}  # the call's win
        call = _Call(self, function, f"__{next(self.numbers)}", names, attributes)
        for out, name in passed.items():
            if out in names:  # a result that is an argument
                yield type(node)(op_type="Identity", input=[names[out]], output=[name])
            else:
                call.names[out] = name
        for body in function.node:
            yield from self._nodes(call.node(body))


class _Call:
    """A function for one call: ``names`` of its values around the call, ``attributes`` by name."""

    def __init__(
        self, inliner: _Inliner, function: Any, suffix: str, names: dict[str, str], attributes: dict[str, Any]
    ):
        self.inliner, self.suffix, self.names, self.attributes = inliner, suffix, names, attributes
        self.versions = {_domain(o.domain): o.version for o in function.opset_import}

    def name(self, name: str) -> str:
        """What a value of the function is called outside."""
        if name and name not in self.names:
            made = name + self.suffix
            while made in self.inliner.taken:
                made += "_"
            self.names[name] = made
        return self.names.get(name, "")

    def node(self, body: Any) -> Any:
        """A node of the function, as one of the graph around the call."""
        node = type(body)()
        node.CopyFrom(body)
        self._renamed(node)
        return node

    def _renamed(self, node: Any) -> None:
        node.name = (node.name or node.op_type) + self.suffix
        node.input[:] = [self.name(name) for name in node.input]
        node.output[:] = [self.name(name) for name in node.output]
        attributes = list(filter(None, map(self._attribute, node.attribute)))
        del node.attribute[:]
        node.attribute.extend(attributes)
        for inner in _subgraphs(node):
            self._graph(inner)
        domain = _domain(node.domain)
        own, around = self.versions.get(domain), self.inliner.opsets.get(domain)
        known = any(entry.key == _OPSET for entry in node.metadata_props)
        if own not in (None, around) and not known and not self.inliner.fits(node, around):
            node.metadata_props.add(key=_OPSET, value=str(own))

    def _attribute(self, attribute: Any) -> Any:
        """The attribute that one of the call's is named by, None where the call has none; else itself."""
        if not attribute.ref_attr_name:
            return attribute
        given = self.attributes.get(attribute.ref_attr_name)
        if given is None:
            return None
        found = type(given)()
        found.CopyFrom(given)
        found.name = attribute.name
        return found

    def _graph(self, graph: Any) -> None:
        for item in itertools.chain(graph.input, graph.output, graph.initializer, graph.value_info):
            item.name = self.name(item.name)
        for node in graph.node:
            self._renamed(node)
        self.inliner.graph(graph)


def _subgraphs(node: Any) -> list[Any]:
    return [attribute.g for attribute in node.attribute if attribute.HasField("g")]


def _names(graph: Any) -> Iterable[str]:
    for items in (graph.input, graph.initializer, graph.output):
        yield from (item.name for item in items)
    for node in graph.node:
        yield from node.output
        for inner in _subgraphs(node):
            yield from _names(inner)
