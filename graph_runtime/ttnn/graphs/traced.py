"""Readings of traced graphs (tracer.py): the graph of tensors, resolved modules, a picture."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .nodes import Node, TorchModule, traced_tensors

__all__ = ["get_graph", "visualize"]

Place = tuple[Node, int]
_COLORS = ("#c8d8f8", "#ecc8f0", "#f8ccc8", "#f4ecb8", "#c8ecc8", "#c0ecec")  # colors of nested modules
_NODE = {"style": "filled", "fontsize": "10", "height": "0.2", "margin": "0.05", "shape": "box"}


def get_graph(value: Any, flatten: bool = False) -> Any:
    """The graph of traced tensors, or of a value that has traced tensors. ``flatten`` replaces each module by
    the graph of its calls. Raises RuntimeError for tensors that were not traced."""
    import networkx  # type: ignore[import-untyped]

    if isinstance(value, networkx.MultiDiGraph):
        graph = value
    else:
        tensors = list(traced_tensors(value))
        if not tensors or not all(hasattr(tensor, "graph") for tensor in tensors):
            raise RuntimeError("no traced tensor: compute it inside of `with ttnn.tracer.trace()`")
        graph = networkx.compose_all([tensor.graph for tensor in tensors])
    return _flat(graph, None) if flatten else graph


def _flat(graph: Any, depth: int | None) -> Any:
    """The graph in which modules down to ``depth`` (None: at any depth) are replaced by their own graphs; the
    attribute ``within`` of a node lists the modules around it."""
    import networkx  # type: ignore[import-untyped]

    made = networkx.MultiDiGraph()
    _resolve(made, graph, {}, (), depth)
    return made


def _resolve(
    made: Any, graph: Any, known: Mapping[Place, Place], within: tuple[Any, ...], depth: int | None
) -> dict[Place, Place]:
    """Add a graph's nodes to ``made``; return {place of a result in ``graph``: its place in ``made``}.
    ``known``: places of the inputs, if ``graph`` is the graph of a module."""
    import networkx  # type: ignore[import-untyped]

    places = dict(known)
    for node in networkx.topological_sort(graph):
        if (node, 0) in places:
            continue
        attributes = graph.nodes[node]
        edges = sorted(graph.in_edges(node, data=True), key=lambda edge: edge[2]["sink_input_index"])
        given = [places[source, data["source_output_index"]] for source, _, data in edges]
        operation = attributes["operation"]
        if isinstance(operation, TorchModule) and (depth is None or len(within) + 1 < depth):
            inner = dict(zip(operation.inputs, given, strict=True))
            found = _resolve(made, operation.graph, inner, (*within, operation), depth)
            places |= {(node, at): found[place] for at, place in enumerate(operation.outputs)}
            continue
        made.add_node(node, **attributes, within=within)
        for at, (source, index) in enumerate(given):
            made.add_edge(source, node, source_output_index=index, sink_input_index=at)
        places |= {(node, at): (node, at) for at in range(len(attributes["shapes"]))}
    return places


def _label(graph: Any, node: Node, verbose: bool) -> str:
    attributes = graph.nodes[node]
    lines = [attributes["operation"].to_string(verbose=verbose)]
    if "operation_id" in attributes:
        lines[0] = f"{attributes['operation_id']}: {lines[0]}"
    if attributes.get("duration") is not None:
        lines.append(f"duration: {attributes['duration'] * 1e3:.3f} ms")
    for at, (shape, dtype) in enumerate(zip(attributes["shapes"], attributes["dtypes"], strict=True)):
        more = [attributes[key][at] for key in ("layouts", "memory_configs") if key in attributes]
        lines.append(f"{at}: {shape} {dtype} {' '.join(str(x) for x in more if x is not None)}")
    return "\\n".join(lines)


def visualize(
    output: Any,
    *,
    show_modules: bool = True,
    max_depth: int | None = None,
    file_name: Any = None,
    graph_attr: Mapping[str, str] | None = None,
    node_attr: Mapping[str, str] | None = None,
    edge_attr: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> Any:
    """A graphviz.Digraph of traced tensors, drawn to ``file_name`` (.svg, .png or .pdf) if that is given;
    None, with a warning, if graphviz's ``dot`` is not installed. ``show_modules``: draw a box around the
    calls of each module."""
    if max_depth is not None and (max_depth < 1 or not show_modules):
        raise RuntimeError("max_depth must be greater than 0, and is not supported with show_modules=False")
    path = None if file_name is None else Path(file_name)
    if path is not None and path.suffix not in (".svg", ".png", ".pdf"):
        raise ValueError(f"file_name must have a .svg, .png or .pdf suffix, not {path.suffix}")
    graph = _flat(get_graph(output), max_depth)
    try:
        import graphviz
    except ImportError:
        graphviz = None
    if graphviz is None or shutil.which("dot") is None:
        warnings.warn("Graphviz is not installed. Skipping visualization.", stacklevel=2)
        return None
    attributes = {"graph_attr": {"ordering": "in", "rankdir": "TB", **(graph_attr or {})}}
    attributes |= {
        "node_attr": {**_NODE, **(node_attr or {})},
        "edge_attr": {"fontsize": "10", **(edge_attr or {})},
    }
    picture = graphviz.Digraph(engine="dot", **attributes)
    _draw(picture, graph, verbose, show_modules)
    if path is not None:
        picture.render(path.with_suffix(""), format=path.suffix[1:])
    return picture


def _draw(picture: Any, graph: Any, verbose: bool, show_modules: bool) -> None:
    groups: dict[tuple[Any, ...], list[Node]] = {}
    for node in sorted(graph):
        groups.setdefault(_key(graph.nodes[node]["within"]) if show_modules else (), []).append(node)
    for path, nodes in groups.items():
        _boxes(picture, graph, path, nodes, verbose, 0)
    for source, node, data in graph.edges(data=True):
        label = f"{data['source_output_index']} -> {data['sink_input_index']}"
        picture.edge(str(source.unique_id), str(node.unique_id), label=label)


def _key(within: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((id(operation), operation.to_string()) for operation in within)


def _boxes(
    picture: Any, graph: Any, path: tuple[Any, ...], nodes: list[Node], verbose: bool, level: int
) -> None:
    if not path:
        for node in nodes:
            picture.node(str(node.unique_id), label=_label(graph, node, verbose))
        return
    (number, label), *rest = path
    with picture.subgraph(name=f"cluster_{number}") as box:
        box.attr(label=label, bgcolor=_COLORS[level % len(_COLORS)])
        _boxes(box, graph, tuple(rest), nodes, verbose, level + 1)
