"""A source -> ParsedFile: functions are inlined, names and versions are checked, and dimensions are bound."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, InputError, did_you_mean
from ...base.exact import exactly
from ...ir.graph import TensorType
from .batch import Batch, set_batch
from .budget import Budget
from .context import table
from .elements import ELEMENTS
from .inlining import blanks_as_functions, function_key, inline_functions, opset_of
from .nodes import all_nodes, op_key, sort_nodes
from .read import ModelFile, open_model
from .sparse_tensors import sparse_as_nodes
from .validate import Size, check_graph, check_text, free_dims, input_types, opsets

_MOST_DEPTH = 100  # depth of nested function calls
_BODY = 8  # typical number of nodes in ONNX's definition of an op
_COPIES = 4  # copies of an inlined model that exist while the inlined model is made
_CALL = 256  # bytes of a short call of a function; the names and attributes of a longer call
# are repeated wherever the function's body reads them


@dataclass(frozen=True, slots=True)
class _Grown:
    """Size of a body after all functions in it have been inlined; ``names`` counts its names and
    attributes."""

    nodes: int
    nbytes: int
    names: int


@dataclass(frozen=True)
class ParsedFile:
    """A file that is ready for an Importer. ``opsets``: {domain: version}. ``types``: types of the graph's
    inputs. ``dims``: sizes of dimensions that were bound. ``batch``: change of the fixed batch; None if the
    batch is unchanged. ``given``: values of inputs that become constants."""

    file: ModelFile
    opsets: dict[str, int]
    types: dict[str, TensorType] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)
    batch: Batch | None = None
    given: Mapping[str, np.ndarray] = field(default_factory=dict)


def parse_file(
    source: Any,
    onnx: Any,
    dims: Mapping[str, Size],
    batch: int | None,
    values: Mapping[str, np.ndarray],
    folder: Path | None,
) -> ParsedFile:
    """Parse ``source`` for an Importer. Parameters and errors are those of load_model."""
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
    """The file with its functions inlined and its nodes in order; its inputs are not examined. ``source``: a
    source as in open_model, or a ModelFile."""
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
    """The caller's value in the input's type; a single number fits every type that has one element. Raises
    InputError if the shape differs, or if conversion would change a number."""
    shaped = value.reshape(type_.shape) if value.size == type_.size == 1 else value
    if type_.dtype in ELEMENTS:
        if shaped.shape != type_.shape:
            raise InputError(f"input {name!r} is {type_}; its value has {value.shape}", got=value.shape)
        return shaped
    if shaped.shape != type_.shape:
        text = f"input {name!r} is {type_}; its value is {value.dtype.name}{list(value.shape)}"
        raise InputError(text, got=value.shape, wanted=type_.shape)
    return exactly(shaped, dtypes.to_numpy(type_.dtype), f"input {name!r} is {type_}; its value")


def _inline(file: ModelFile, onnx: Any, versions: Mapping[str, int]) -> None:
    """Replace calls of the model's functions by the functions' bodies. Standard ops without a converter are
    replaced, too, if ONNX defines them by other ops."""
    if file.proto.functions:
        _bounded(file)
        inline_functions(file.proto, versions, onnx)
    seen: set[tuple[str, str]] = set()
    while found := set(_expandable(file.proto.graph, onnx, versions)) - seen:  # new bodies may have such ops
        seen |= found
        count = len(list(_expandable(file.proto.graph, onnx, versions)))
        Budget(len(file.data)).step(count * _BODY, f"{file.name} has {count} ops that ONNX defines by others")
        with contextlib.suppress(Exception):  # ops that remain are refused later, with all others
            if blanks_as_functions(file.proto, all_nodes(file.proto.graph), found, versions, onnx):
                inline_functions(file.proto, versions, onnx)
            file.proto = onnx.inliner.inline_selected_functions(
                file.proto, sorted(found), inline_schema_functions=True
            )


def _bounded(file: ModelFile) -> None:
    """Raise GraphError before functions are inlined if they would grow beyond the file's budget: a few
    functions that each call the next twice can stand for more nodes than memory holds."""
    functions = {function_key(f): f for f in file.proto.functions}
    sizes: dict[tuple[str, str, str], _Grown] = {}

    def size(body: Any, depth: int) -> _Grown:
        if depth > _MOST_DEPTH:
            text = f"functions of {file.name} call each other more than {_MOST_DEPTH} deep, or in a circle"
            raise GraphError(text, got=depth, wanted=_MOST_DEPTH)
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
    """(domain, op) of each op that has no converter but that ONNX defines by other ops."""
    known = table()
    for node in all_nodes(graph):
        domain, op = key = op_key(node)
        if key not in known and domain in versions:
            if _defined_by_others(onnx, node, opset_of(node, versions), domain):
                yield domain, op


def _defined_by_others(onnx: Any, node: Any, version: int, domain: str) -> bool:
    """Whether ONNX defines the node's op by a body. Adds the defaults of missing attributes to the node,
    because bodies need them."""
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return False
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type:
            node.attribute.append(attribute.default_value)
    return schema.has_function or schema.has_context_dependent_function
