"""Checks before nodes are converted (versions, names, order), and the types of the graph's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Any

import numpy as np

from ...base.errors import DocumentError, GraphError, InputError, did_you_mean
from ...ir.graph import TensorType
from .elements import ELEMENTS
from .nodes import domain_of, subgraphs
from .read import check_size, dtype_name


class UnboundDimsError(InputError):
    """Some dimensions have no size; ``wanted`` lists these dimensions."""


Size = int | tuple[int, ...]  # size of one dimension, or all sizes of an input
OLDEST, NEWEST = 7, 28  # opsets of the default domain that the converters support


def opsets(model: Any, onnx: Any) -> dict[str, int]:
    """{domain: version}. A model may have an opset older than the oldest supported opset, if the ops that it
    uses have not changed since.

    Raises GraphError for a version of the default domain that the converters do not know.
    """
    found = {domain_of(o.domain): o.version for o in model.opset_import}
    version = found.setdefault("", OLDEST)
    old = version < OLDEST and not all(
        _unchanged(onnx, node.op_type, version) for node in model.graph.node if not domain_of(node.domain)
    )
    if old or version > NEWEST:
        text = (
            f"the model is of opset {version}; opsets {OLDEST} to {NEWEST} are supported. "
            "onnx.version_converter may help"
        )
        raise GraphError(text, path="$.opset_import", got=version)
    return found


def _unchanged(onnx: Any, op: str, version: int) -> bool:
    """Whether an op is the same in this version and in the oldest supported opset."""
    try:
        made = [onnx.defs.get_schema(op, v, "").since_version for v in (version, OLDEST)]
    except onnx.defs.SchemaError:
        return False
    return made[0] == made[1]


def check_text(model: Any) -> None:
    """Raise DocumentError if a name is not UTF-8; the parser returns such a name as bytes."""
    texts = [o.domain for o in model.opset_import]
    for f in model.functions:
        texts += [f.domain, f.name, *f.input, *f.output, *f.attribute, *(o.domain for o in f.opset_import)]
    bodies = [f.node for f in model.functions]
    if not _all_text(texts) or not _readable(model.graph) or not all(map(_nodes_readable, bodies)):
        raise DocumentError("no ONNX model: a name in it is not UTF-8 text")


def _readable(graph: Any) -> bool:
    texts = [item.name for items in (graph.input, graph.output, graph.initializer) for item in items]
    texts += [sparse.values.name for sparse in graph.sparse_initializer]
    texts += [dim.dim_param for info in graph.input for dim in info.type.tensor_type.shape.dim]
    return _all_text(texts) and _nodes_readable(graph.node)


def _nodes_readable(nodes: Iterable[Any]) -> bool:
    texts: list[Any] = []
    for node in nodes:
        texts += [node.op_type, node.domain, node.name, *node.input, *node.output]
        texts += [text for a in node.attribute for text in (a.name, a.ref_attr_name)]
    inner = [graph for node in nodes for graph in subgraphs(node)]
    return _all_text(texts) and all(map(_readable, inner))


def _all_text(texts: Iterable[Any]) -> bool:
    return all(isinstance(text, str) for text in texts)


def check_graph(graph: Any, path: str = "$.graph", outer: tuple[Set[str], ...] = ()) -> None:
    """Check that each name is defined once, and before it is read; subgraphs are checked, too. ``outer``:
    names that the graphs around a subgraph define before it.

    Raises GraphError, which says whether a name that is read too early is defined later (a cycle) or never.
    """
    made: set[str] = set()
    for kind, items in (("input", graph.input), ("initializer", graph.initializer)):
        seen: set[str] = set()
        for i, item in enumerate(items):
            if not item.name or item.name in seen:
                text = f"{kind} {item.name!r} " + ("occurs twice" if item.name else "has no name")
                raise GraphError(text, path=f"{path}.{kind}[{i}]", got=item.name)
            seen.add(item.name)
        made |= seen
    later = {name for node in graph.node for name in node.output if name}
    for i, node in enumerate(graph.node):
        _check_node(node, f"{path}.node[{i}]", made, later, outer)
    for i, info in enumerate(graph.output):
        if not _is_made(info.name, made, outer):
            text = f"no node makes output {info.name!r}{did_you_mean(info.name, later)}"
            raise GraphError(text, path=f"{path}.output[{i}]", got=info.name)
    if not graph.output:
        raise GraphError("the graph has no outputs", path=path)


def _is_made(name: str, made: Set[str], outer: tuple[Set[str], ...]) -> bool:
    return name in made or any(name in names for names in outer)


def _check_node(node: Any, path: str, made: set[str], later: set[str], outer: tuple[Set[str], ...]) -> None:
    for k, name in enumerate(node.input):
        if name and not _is_made(name, made, outer):
            text = (
                "which is made from this node's own result: the graph has a cycle"
                if name in later
                else f"which no node makes{did_you_mean(name, chain(made, *outer))}"
            )
            reason = f"node {node.name!r} ({node.op_type}) reads {name!r}, {text}"
            raise GraphError(reason, path=f"{path}.input[{k}]", node=node.name, op=node.op_type, got=name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            check_graph(attribute.g, f"{path}.{attribute.name}", (*outer, made))
    for k, name in enumerate(node.output):
        if name and _is_made(name, made, outer):
            reason = f"node {node.name!r} ({node.op_type}) makes {name!r}, which exists already"
            raise GraphError(reason, path=f"{path}.output[{k}]", node=node.name, op=node.op_type, got=name)
        if name:
            made.add(name)


def free_dims(graph: Any) -> None:
    """Name the dimensions that have no size <input>.<axis>; these include dimensions that some tools write as
    -1, "?" or "None" for unknown."""
    for info in chain(graph.input, graph.output):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            unknown = dim.dim_value == -1 if dim.HasField("dim_value") else dim.dim_param in ("", "?", "None")
            if unknown:
                dim.dim_param = f"{info.name}.{axis}"


def input_types(
    graph: Any,
    dims: Mapping[str, Size],
    values: Mapping[str, np.ndarray],
    only: Set[str] | None = None,
) -> tuple[dict[str, TensorType], dict[str, int]]:
    """({input that is not an initialiser: type}, {symbolic dimension: size}).

    ``dims``: {dimension: size} that the caller gives. A dimension without a name is called "<input>.<axis>";
    an input without a shape gets all its sizes under the input's name. ``values``: values of inputs, whose
    sizes also bind dimensions. ``only``: names of the inputs to include. Raises InputError for dimensions
    that nothing binds (one error lists all) or that the model lacks, GraphError for inputs that are not
    tensors.
    """
    _check_sizes(dims)
    infos = {path: info for path, info in own_inputs(graph) if only is None or info.name in only}
    shapes = {info.name: symbolic_shape(info, path) for path, info in infos.items()}
    known = {**_sizes_of(values, shapes), **dims}
    types, unbound = {}, list[str]()
    for path, info in infos.items():
        shape = shapes[info.name]
        missing = _missing(info.name, shape, known)
        unbound += [text for text in missing if text not in unbound]
        types[info.name] = _input_type(info, [] if missing else _bound(info.name, shape, known), path)
    names = {name for shape in shapes.values() for name in shape or () if isinstance(name, str)}
    names |= {name for name, shape in shapes.items() if shape is None}
    for name in dims:
        if name not in names:
            raise InputError(f"the model has no dimension {name!r}{did_you_mean(name, names)}", got=name)
    if unbound:
        first = unbound[0].partition(" ")[0]
        reason = f"dimensions without a size: {', '.join(unbound)}; bind each, as in --dim {first}=1"
        raise UnboundDimsError(reason, wanted=tuple(unbound))
    return types, {name: size for name, size in known.items() if isinstance(size, int) and name in names}


def symbolic_shape(info: Any, path: str) -> list[int | str] | None:
    """Dimensions of an input or output, as sizes or names; None if the file does not give a shape."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise GraphError(
            f"input {info.name!r} is not a tensor but {kind or 'not typed'}", path=path, got=kind
        )
    if not info.type.tensor_type.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param
        for dim in info.type.tensor_type.shape.dim
    ]


def own_inputs(graph: Any) -> Iterator[tuple[str, Any]]:
    """(path, input) of each input that is not an initialiser; before IR version 4 the inputs include
    initialisers."""
    initial = {tensor.name for tensor in graph.initializer}
    for i, info in enumerate(graph.input):
        if info.name not in initial:
            yield f"$.graph.input[{i}]", info


def _sizes_of(values: Mapping[str, np.ndarray], shapes: Mapping[str, Any]) -> dict[str, Size]:
    """{dimension: size} that follow from the values of inputs."""
    found: dict[str, Size] = {}
    for name, value in values.items():
        shape = shapes.get(name, ())
        if shape is None:
            found[name] = value.shape
        elif value.size == 1 and value.ndim == 0:
            found |= {dim: 1 for dim in shape if isinstance(dim, str)}
        elif len(shape) == value.ndim:
            found |= {dim: n for dim, n in zip(shape, value.shape, strict=True) if isinstance(dim, str)}
    return found


def _missing(name: str, shape: list[int | str] | None, known: Mapping[str, Size]) -> list[str]:
    """Descriptions of an input's dimensions that nothing binds."""
    if shape is None:
        return [] if isinstance(known.get(name), tuple) else [f"{name} (the whole shape, as 1x3x224x224)"]
    return [
        f"{dim} (axis {axis} of {name!r})" + (f", of several: {list(known[dim])}" if dim in known else "")  # type: ignore[arg-type]
        for axis, dim in enumerate(shape)
        if isinstance(dim, str) and not isinstance(known.get(dim), int) and dim not in shape[:axis]
    ]


def _bound(name: str, shape: list[int | str] | None, known: Mapping[str, Size]) -> list[Any]:
    if shape is None:
        return list(known[name])  # type: ignore[arg-type]  # _missing saw that it is a tuple
    return [known[dim] if isinstance(dim, str) else dim for dim in shape]


def _input_type(info: Any, shape: list[int], path: str) -> TensorType:
    if min(shape, default=0) < 0:
        raise GraphError(
            f"input {info.name!r} has the shape {shape}, with a negative size",
            path=path,
            got=shape,
        )
    dtype = dtype_name(info.type.tensor_type.elem_type, f"input {info.name!r}")
    held = ELEMENTS[dtype].stored if dtype in ELEMENTS else dtype
    check_size(TensorType(held, tuple(shape)), f"input {info.name!r}", path=path)
    return TensorType(dtype, tuple(shape))


def _check_sizes(dims: Mapping[str, Size]) -> None:
    for name, size in dims.items():
        parts = size if isinstance(size, (tuple, list)) else (size,)
        if not all(isinstance(part, int) and part >= 0 for part in parts):
            raise InputError(f"dimension {name!r} must be a whole number, got {size!r}", got=size)
