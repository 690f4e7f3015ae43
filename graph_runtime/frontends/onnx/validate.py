"""What must hold before a node is converted: versions, names, order; and the types of the graph's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import chain
from typing import Any

from ...base.errors import DocumentError, GraphError, InputError, did_you_mean
from ...ir.graph import TensorType
from .read import check_size, dtype_name

__all__ = ["NEWEST", "OLDEST", "check_graph", "check_text", "free_dims", "input_types", "opsets"]

OLDEST, NEWEST = 7, 28  # of the default domain: those that the converters were written for


def opsets(model: Any, onnx: Any) -> dict[str, int]:
    """{domain: version}. A model may be older than the oldest opset if its ops have not changed until then.

    Raises GraphError for a version of the default domain that the converters do not know.
    """
    found = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    version = found.setdefault("", OLDEST)
    old = version < OLDEST and not all(
        _unchanged(onnx, node.op_type, version) for node in model.graph.node if node.domain in ("", "ai.onnx")
    )
    if old or version > NEWEST:
        raise GraphError(
            f"the model is of opset {version}; opsets {OLDEST} to {NEWEST} are supported. "
            f"onnx.version_converter may help",
            path="$.opset_import",
            got=version,
        )
    return found


def _unchanged(onnx: Any, op: str, version: int) -> bool:
    """Whether an op of this version is that of the oldest opset."""
    try:
        made = [onnx.defs.get_schema(op, v, "").since_version for v in (version, OLDEST)]
    except onnx.defs.SchemaError:
        return False
    return made[0] == made[1]


def check_text(model: Any) -> None:
    """Raise DocumentError where a name is no UTF-8: the parser hands such out as bytes."""
    texts = [o.domain for o in model.opset_import]
    for f in model.functions:
        texts += [f.domain, f.name, *f.input, *f.output, *f.attribute, *(o.domain for o in f.opset_import)]
    bodies = [f.node for f in model.functions]
    if not _all_text(texts) or not _readable(model.graph) or not all(map(_nodes_readable, bodies)):
        raise DocumentError("no ONNX model: a name in it is no UTF-8 text")


def _readable(graph: Any) -> bool:
    texts = [item.name for items in (graph.input, graph.output, graph.initializer) for item in items]
    texts += [dim.dim_param for info in graph.input for dim in info.type.tensor_type.shape.dim]
    return _all_text(texts) and _nodes_readable(graph.node)


def _nodes_readable(nodes: Iterable[Any]) -> bool:
    texts: list[Any] = []
    for node in nodes:
        texts += [node.op_type, node.domain, node.name, *node.input, *node.output]
        texts += [text for a in node.attribute for text in (a.name, a.ref_attr_name)]
    inner = [a.g for node in nodes for a in node.attribute if a.HasField("g")]
    return _all_text(texts) and all(map(_readable, inner))


def _all_text(texts: Iterable[Any]) -> bool:
    return all(isinstance(text, str) for text in texts)


def check_graph(graph: Any, path: str = "$.graph", outer: tuple[Set[str], ...] = ()) -> None:
    """Names are made once and before they are read; subgraphs too. ``outer``: what the graphs around a
    subgraph made before it.

    Raises GraphError, which says whether a name that is read too early is made later (a cycle) or never.
    """
    made: set[str] = set()
    for kind, items in (("input", graph.input), ("initializer", graph.initializer)):
        seen: set[str] = set()
        for i, item in enumerate(items):
            if not item.name or item.name in seen:
                raise GraphError(
                    f"{kind} {item.name!r} " + ("stands twice" if item.name else "has no name"),
                    path=f"{path}.{kind}[{i}]",
                    got=item.name,
                )
            seen.add(item.name)
        made |= seen
    if graph.sparse_initializer:
        raise GraphError("sparse initialisers are not supported", path=f"{path}.sparse_initializer[0]")
    later = {name for node in graph.node for name in node.output if name}
    for i, node in enumerate(graph.node):
        _check_node(node, f"{path}.node[{i}]", made, later, outer)
    names = set()
    for i, info in enumerate(graph.output):
        if not _is_made(info.name, made, outer):
            raise GraphError(
                f"no node makes output {info.name!r}{did_you_mean(info.name, later)}",
                path=f"{path}.output[{i}]",
                got=info.name,
            )
        if info.name in names and not outer:
            raise GraphError(f"output {info.name!r} stands twice", path=f"{path}.output[{i}]", got=info.name)
        names.add(info.name)
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
                else f"which nothing makes{did_you_mean(name, chain(made, *outer))}"
            )
            raise GraphError(
                f"node {node.name!r} ({node.op_type}) reads {name!r}, {text}",
                path=f"{path}.input[{k}]",
                node=node.name,
                op=node.op_type,
                got=name,
            )
    for attribute in node.attribute:
        if attribute.HasField("g"):
            check_graph(attribute.g, f"{path}.{attribute.name}", (*outer, made))
    for k, name in enumerate(node.output):
        if name and _is_made(name, made, outer):
            raise GraphError(
                f"node {node.name!r} ({node.op_type}) makes {name!r}, which there is already",
                path=f"{path}.output[{k}]",
                node=node.name,
                op=node.op_type,
                got=name,
            )
        made.add(name)


def free_dims(graph: Any) -> None:
    """Make dimensions of -1, as some tools write those that they do not know, dimensions without a size."""
    for info in chain(graph.input, graph.output):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value == -1:
                dim.dim_param = f"{info.name}.{axis}"


def input_types(graph: Any, dims: Mapping[str, int]) -> tuple[dict[str, TensorType], dict[str, int]]:
    """(type of each input that is no initialiser, the symbolic dimensions that were bound).

    A dimension without a name is called "<input>.<axis>". Raises InputError for dimensions that ``dims``
    lacks (all in one) or that are not in the model, GraphError for inputs that are no tensors.
    """
    _check_sizes(dims)
    initial = {tensor.name for tensor in graph.initializer}
    types: dict[str, TensorType] = {}
    symbols: dict[str, str] = {}
    for i, info in enumerate(graph.input):
        if info.name not in initial:
            path = f"$.graph.input[{i}]"
            found = _symbols(info, path)
            symbols |= {
                name: f"{name} (axis {axis} of {info.name!r})"
                for axis, name in found.items()
                if name not in symbols
            }
            types[info.name] = _input_type(info, found, dims, path)
    _refuse_dims(dims, symbols)
    return types, {name: dims[name] for name in symbols}


def _symbols(info: Any, path: str) -> dict[int, str]:
    """{axis: name} of an input's symbolic dimensions."""
    if info.type.WhichOneof("value") != "tensor_type":
        kind = info.type.WhichOneof("value") or "not typed"
        raise GraphError(f"input {info.name!r} is no tensor but {kind}", path=path, got=kind)
    if not info.type.tensor_type.HasField("shape"):
        raise GraphError(f"input {info.name!r} has no shape, not even a number of dimensions", path=path)
    return {
        axis: dim.dim_param or f"{info.name}.{axis}"
        for axis, dim in enumerate(info.type.tensor_type.shape.dim)
        if not dim.HasField("dim_value")
    }


def _input_type(info: Any, symbols: Mapping[int, str], dims: Mapping[str, int], path: str) -> TensorType:
    """The type of an input; a dimension that is not bound, which is refused with all others, counts as 1."""
    tensor = info.type.tensor_type
    shape = [
        dims.get(symbols[axis], 1) if axis in symbols else dim.dim_value
        for axis, dim in enumerate(tensor.shape.dim)
    ]
    if min(shape, default=0) < 0:
        raise GraphError(f"input {info.name!r} has the shape {shape}", path=path, got=shape)
    kind = TensorType(dtype_name(tensor.elem_type, f"input {info.name!r}"), tuple(shape))
    check_size(kind, f"input {info.name!r}", path=path)
    return kind


def _check_sizes(dims: Mapping[str, int]) -> None:
    for name, size in dims.items():
        if not isinstance(size, int) or size < 0:
            raise InputError(f"dimension {name!r} must be a whole number, got {size!r}", got=size)


def _refuse_dims(dims: Mapping[str, int], symbols: Mapping[str, str]) -> None:
    """Raise InputError for a size that no dimension has the name of, and for dimensions without a size.
    ``symbols``: {name: where it occurs}."""
    for name in dims:
        if name not in symbols:
            raise InputError(f"the model has no dimension {name!r}{did_you_mean(name, symbols)}", got=name)
    if unbound := [name for name in symbols if name not in dims]:
        texts = [symbols[name] for name in unbound]
        raise InputError(
            f"dimensions without a size: {', '.join(texts)}; bind each, as in --dim {unbound[0]}=1",
            wanted=tuple(texts),
        )
