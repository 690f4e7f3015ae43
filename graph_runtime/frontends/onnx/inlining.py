"""Inlining: each call of a function that the model defines is replaced by the function's nodes.

A function has defaults for its attributes (``attribute_proto``) and may have opsets of its own. ONNX requires
that the function's opsets and the model's define the function's ops alike. If they differ, the model's opset
is used, as in ONNX Runtime; a node that is valid only in the function's opset gets that version in its
metadata, which ``opset_of`` reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from .nodes import domain_of, op_key, subgraphs

_OPSET = "graph_runtime.opset"  # key in a node's metadata
_BLANKS = "graph_runtime.blanks"  # domain of the added functions

Key = tuple[str, str, str]


def function_key(item: Any) -> Key:
    """Key (domain, name, overload) of a function or a call. A call and its function have equal keys."""
    name = item.op_type if hasattr(item, "op_type") else item.name
    return domain_of(item.domain), name, item.overload


def opset_of(node: Any, opsets: Mapping[str, int]) -> int:
    """Version of the node's domain, from the node's metadata; if they have none, from ``opsets``. ``opsets``:
    {domain: version} of the model."""
    for entry in node.metadata_props:
        if entry.key == _OPSET and entry.value.isdecimal():
            return int(entry.value[:9])
    return opsets.get(domain_of(node.domain), 1)


def inline_functions(proto: Any, opsets: Mapping[str, int], onnx: Any) -> None:
    """Replace every call of a function of the ModelProto by the function's nodes, in subgraphs and functions,
    too. No function may call itself. ``opsets``: {domain: version} of the model."""
    inliner = _Inliner(proto, opsets, onnx)
    inliner.graph(proto.graph)
    del proto.functions[:]


class _Inliner:
    """Inlines all calls of one model. ``numbers``: counter that gives each call a number, from which unique
    names are made."""

    def __init__(self, proto: Any, opsets: Mapping[str, int], onnx: Any):
        self.onnx = onnx
        self.functions = {function_key(f): f for f in proto.functions}
        self.opsets = opsets
        self.taken = set(_names(proto.graph))
        self.numbers = itertools.count(1)

    def fits(self, node: Any, version: int | None) -> bool:
        """Whether a node is valid in this version of its op."""
        try:
            schema = self.onnx.defs.get_schema(node.op_type, version or 0, domain_of(node.domain))
        except self.onnx.defs.SchemaError:
            return False
        given = {attribute.name for attribute in node.attribute}
        return given <= schema.attributes.keys() and schema.min_input <= len(node.input) <= schema.max_input

    def graph(self, graph: Any) -> None:
        """Inline calls in a graph, in place."""
        for node in graph.node:
            for inner in subgraphs(node):
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
        # attributes of the call override the function's defaults
        attributes = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
        call = _Call(self, function, f"__{next(self.numbers)}", names, attributes)
        for out, name in passed.items():
            if out in names:  # the result is also an argument
                yield type(node)(op_type="Identity", input=[names[out]], output=[name])
            else:
                call.names[out] = name
        for body in function.node:
            yield from self._nodes(call.node(body))


class _Call:
    """One call of a function. ``names``: {name in the function: name outside}. ``attributes``: attributes of
    the call, by name."""

    def __init__(
        self, inliner: _Inliner, function: Any, suffix: str, names: dict[str, str], attributes: dict[str, Any]
    ):
        self.inliner, self.suffix, self.names, self.attributes = inliner, suffix, names, attributes
        self.versions = {domain_of(o.domain): o.version for o in function.opset_import}

    def name(self, name: str) -> str:
        """The name outside the function of a value in the function."""
        if name and name not in self.names:
            made = name + self.suffix
            while made in self.inliner.taken:
                made += "_"
            self.names[name] = made
        return self.names.get(name, "")

    def node(self, body: Any) -> Any:
        """A node of the function, rewritten for the graph around the call."""
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
        for inner in subgraphs(node):
            self._graph(inner)
        domain = domain_of(node.domain)
        own, around = self.versions.get(domain), self.inliner.opsets.get(domain)
        known = any(entry.key == _OPSET for entry in node.metadata_props)
        if own not in (None, around) and not known and not self.inliner.fits(node, around):
            node.metadata_props.add(key=_OPSET, value=str(own))

    def _attribute(self, attribute: Any) -> Any:
        """The attribute; if it refers to an attribute of the call, that attribute, or None if the call lacks
        it."""
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


def _names(graph: Any) -> Iterable[str]:
    for items in (graph.input, graph.initializer, graph.output):
        yield from (item.name for item in items)
    for node in graph.node:
        yield from node.output
        for inner in subgraphs(node):
            yield from _names(inner)


# ---------------------------------------------------------------- omitted inputs The onnx package's
# inliner asks for the type of each input, even of one that is left out. The body of such a node is made here,
# as a function of the model's own.


def blanks_as_functions(
    proto: Any, nodes: Iterable[Any], ops: Collection[tuple[str, str]], versions: Mapping[str, int], onnx: Any
) -> bool:
    """Replace nodes by calls of functions that are added to the ModelProto. A node of ``nodes`` is replaced
    if its (domain, op) is in ``ops``, it omits an input, and its body in ONNX depends on the inputs. Returns
    whether a node was replaced."""
    found = [node for node in nodes if _leaves_out(node) and op_key(node) in ops]
    types = _types(proto, onnx) if found else {}
    made = []
    for node in found:
        domain = op_key(node)[0]
        schema = onnx.defs.get_schema(node.op_type, versions[domain], domain)
        if schema.has_context_dependent_function:
            made.append((node, _body(node, schema, versions[domain], types, onnx)))
    for number, (node, body) in enumerate(made):
        body.domain, body.name = _BLANKS, f"{node.op_type}_{number}"
        node.domain, node.op_type = body.domain, body.name
    if made:
        proto.functions.extend(body for _, body in made)
        proto.opset_import.append(onnx.helper.make_opsetid(_BLANKS, 1))
    return bool(made)


def _leaves_out(node: Any) -> bool:
    """Whether an input is omitted before one that is given."""
    return "" in list(node.input)[: max((i for i, name in enumerate(node.input) if name), default=0)]


def _body(node: Any, schema: Any, version: int, types: Mapping[str, Any], onnx: Any) -> Any:
    """The FunctionProto by which ONNX defines a node, in the newest version that the model may use."""
    fits = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
    make = schema.get_context_dependent_function_with_opset_version
    return onnx.FunctionProto.FromString(make(max(fits), node.SerializeToString(), given))


def _types(proto: Any, onnx: Any) -> dict[str, Any]:
    """Types of a model's values, as far as ONNX can infer them."""
    graph = onnx.shape_inference.infer_shapes(proto).graph
    types = {w.name: onnx.helper.make_tensor_type_proto(w.data_type, w.dims) for w in graph.initializer}
    return types | {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
