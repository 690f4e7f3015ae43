"""A source -> ParsedFile: parsed, functions inlined, names and versions checked, dims bound."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, InputError, did_you_mean
from ...base.exact import exactly
from ...ir.graph import TensorType
from .batch import Batch, set_batch
from .blanks import blanks_as_functions
from .budget import Budget
from .context import table
from .elements import ELEMENTS
from .inlining import function_key, inline_functions, opset_of
from .read import ModelFile, open_model
from .sorting import sort_nodes
from .sparse_tensors import sparse_as_nodes
from .validate import Size, check_graph, check_text, free_dims, input_types, opsets

__all__ = ["ParsedFile", "all_nodes", "checked_file", "parse_file", "with_type"]

_MOST_DEPTH = 100  # of functions in functions
_BODY = 8  # nodes that ONNX defines an op by, more or less
_COPIES = 4  # of an inlined model while it is made
_CALL = 256  # bytes of a plain call of a function; names and attributes of longer ones are
# repeated wherever its body reads them


@dataclass(frozen=True, slots=True)
class _Grown:
    """What a body is once all functions in it are inlined; ``names`` counts names and attributes in it."""

    nodes: int
    nbytes: int
    names: int


@dataclass(frozen=True)
class ParsedFile:
    """A file that may be imported. ``opsets``: {domain: version}. ``types``: of the graph's inputs. ``dims``:
    dimensions that were bound. ``batch``: how the fixed batch was changed, None if it was not. ``given``:
    values of inputs that become constants."""

    file: ModelFile
    opsets: dict[str, int]
    types: dict[str, TensorType]
    dims: dict[str, int]
    batch: Batch | None
    given: Mapping[str, np.ndarray]


def parse_file(
    source: Any,
    onnx: Any,
    dims: Mapping[str, Size],
    batch: int | None,
    values: Mapping[str, np.ndarray],
    folder: Path | None,
) -> ParsedFile:
    """The file of ``source``, fit for an Importer; parameters as load_model's. Raises as load_model."""
    file = checked_file(source, onnx, folder)
    known = {tensor.name for tensor in file.proto.graph.initializer}
    inputs = [info.name for info in file.proto.graph.input if info.name not in known]
    for name in values:
        if name not in inputs:
            raise InputError(f"the model has no input {name!r}{did_you_mean(name, inputs)}", got=name)
    dims, change = set_batch(file.proto.graph, batch, dims, values) if batch else (dims, None)
    types, bound = input_types(file.proto.graph, dims, values)
    given = {name: with_type(value, types[name], name) for name, value in values.items()}
    return ParsedFile(file, opsets(file.proto, onnx), types, bound, change, given)


def checked_file(source: Any, onnx: Any, folder: Path | None) -> ModelFile:
    """The file with its nodes in order and its functions inlined, whatever its inputs are. ``source``: as
    open_model's, or such a file."""
    if isinstance(source, ModelFile):
        return source
    file = open_model(source, onnx, folder)
    check_text(file.proto)
    sparse_as_nodes(file.proto)
    free_dims(file.proto.graph)
    sort_nodes(file.proto.graph)
    _inline(file, onnx, opsets(file.proto, onnx))
    check_graph(file.proto.graph)
    return file


def with_type(value: np.ndarray, type_: TensorType, name: str) -> np.ndarray:
    """The caller's value as the input's type. Raises InputError where that would change a number, and for
    another shape; a single number fits every type of one element."""
    shaped = value.reshape(type_.shape) if value.size == type_.size == 1 else value
    if type_.dtype in ELEMENTS:
        if shaped.shape != type_.shape:
            raise InputError(f"input {name!r} is {type_}; its value has {value.shape}", got=value.shape)
        return shaped
    if shaped.shape != type_.shape:
        raise InputError(
            f"input {name!r} is {type_}; its value is {value.dtype.name}{list(value.shape)}",
            got=value.shape,
            wanted=type_.shape,
        )
    return exactly(shaped, dtypes.to_numpy(type_.dtype), f"input {name!r} is {type_}; its value")


def _inline(file: ModelFile, onnx: Any, versions: Mapping[str, int]) -> None:
    """Replace the model's own functions, and standard ops without a converter that ONNX itself defines by
    others, by their bodies."""
    if file.proto.functions:
        _bounded(file)
        inline_functions(file.proto, versions, onnx)
    seen: set[tuple[str, str]] = set()
    while found := set(_expandable(file.proto.graph, onnx, versions)) - seen:  # bodies have such ops, too
        seen |= found
        count = len(list(_expandable(file.proto.graph, onnx, versions)))
        Budget(len(file.data)).step(count * _BODY, f"{file.name} has {count} ops that ONNX defines by others")
        with contextlib.suppress(Exception):  # what stays is refused with the others
            if blanks_as_functions(file.proto, all_nodes(file.proto.graph), found, versions, onnx):
                inline_functions(file.proto, versions, onnx)
            file.proto = onnx.inliner.inline_selected_functions(
                file.proto, sorted(found), inline_schema_functions=True
            )


def _bounded(file: ModelFile) -> None:
    """Raise GraphError where the model's functions would grow beyond reason, before they are inlined: a few
    that call each other twice each can stand for more nodes than memory holds."""
    functions = {function_key(f): f for f in file.proto.functions}
    sizes: dict[tuple[str, str, str], _Grown] = {}

    def size(body: Any, depth: int) -> _Grown:
        if depth > _MOST_DEPTH:
            raise GraphError(
                f"functions of {file.name} call each other more than {_MOST_DEPTH} deep, or in a circle",
                got=depth,
                wanted=_MOST_DEPTH,
            )
        nodes, nbytes, names = 0, sum(node.ByteSize() for node in body.node), 0
        for node in all_nodes(body):
            key = function_key(node)
            if key in functions and key not in sizes:
                sizes[key] = size(functions[key], depth + 1)
            own = len(node.input) + len(node.output) + len(node.attribute)
            made = sizes.get(key, _Grown(1, 0, own))
            longer = made.names * max(node.ByteSize() - _CALL, 0) if key in functions else 0
            nodes, nbytes, names = nodes + made.nodes, nbytes + made.nbytes + longer, names + made.names
        return _Grown(nodes, nbytes, names)

    total = size(file.proto.graph, 0)
    budget = Budget(len(file.data))
    budget.step(total.nodes, f"{file.name} has {total.nodes} nodes once its functions are inlined")
    budget.fits(_COPIES * total.nbytes, f"inlining the functions of {file.name}")


def _expandable(graph: Any, onnx: Any, versions: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """(domain, op) of what ONNX defines by others and no converter takes."""
    known = table()
    for node in all_nodes(graph):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in known and domain in versions:
            if _defined_by_others(onnx, node, opset_of(node, versions), domain):
                yield domain, node.op_type


def all_nodes(graph: Any) -> list[Any]:
    """All nodes of a graph or a function, those of subgraphs too."""
    found = list(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += all_nodes(attribute.g)
    return found


def _defined_by_others(onnx: Any, node: Any, version: int, domain: str) -> bool:
    """Whether ONNX has a body for the node's op; the node then gets the defaults of its attributes, which a
    body takes for granted."""
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return False
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type:
            node.attribute.append(attribute.default_value)
    return schema.has_function or schema.has_context_dependent_function
