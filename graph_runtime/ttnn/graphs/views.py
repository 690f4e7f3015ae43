"""Readings of a captured graph (captures.py): its calls, tensors and sizes, as text and as a picture."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "PeakMemoryUsagePerCore",
    "TensorInfo",
    "count_intermediate_and_output_tensors",
    "extract_calltrace",
    "extract_circular_buffers_peak_size_per_core",
    "extract_l1_buffer_allocation_peak_size_per_core",
    "extract_levelized_graph",
    "extract_output_info",
    "extract_output_tensors",
    "extract_peak_L1_memory_usage",
    "extract_peak_memory_usage",
    "extract_resource_usage_per_core",
    "pretty_format",
    "pretty_print",
    "visualize",
]

Node = dict[str, Any]


@dataclass(frozen=True)
class TensorInfo:
    """A tensor that is a result of a captured graph. ``size``: bytes; ``type``: the memory."""

    shape: Any
    size: int
    type: str


def extract_calltrace(trace: list[Node]) -> list[str]:
    """The names of functions in the order of their calls."""
    return [node["params"]["name"] for node in trace if node["node_type"] == "function_start"]


def _made(trace: list[Node], end: Node) -> list[Node]:
    return [trace[at] for at in end["connections"] if trace[at]["node_type"] == "tensor"]


def _calls(trace: list[Node]) -> Iterator[tuple[Node, Node]]:
    """(start, end) of each function."""
    open_ = []
    for node in trace:
        if node["node_type"] == "function_start":
            open_.append(node)
        elif node["node_type"] == "function_end":
            yield open_.pop(), node


def extract_levelized_graph(trace: list[Node], max_level: int = 1) -> list[Node]:
    """The functions down to a level. Each function lists the functions whose tensors it reads, and the
    functions that read its tensors."""
    calls = [(s, e) for s, e in _calls(trace) if s["stacking_level"] <= max_level]
    calls.sort(key=lambda call: call[0]["counter"])
    numbers = {start["counter"]: at for at, (start, _) in enumerate(calls)}
    makers: dict[Any, int] = {}
    made: list[Node] = []
    for at, (start, end) in enumerate(calls):
        taken = {trace[n]["params"]["tensor_id"] for n in start["input_tensors"]}
        outputs = _made(trace, end)
        inner = [numbers[n] for n in start["connections"] if n in numbers]
        made.append(
            {
                "counter": at,
                "stacking_level": start["stacking_level"],
                "name": start["params"]["name"],
                "in_edges": sorted({makers[t] for t in taken if t in makers}),
                "out_edges": [],
                "internals": inner if start["stacking_level"] < max_level else [],
                "output_shape": [node["params"]["shape"] for node in outputs],
            }
        )
        makers |= {node["params"]["tensor_id"]: at for node in outputs}
    for vertex in made:
        for maker in vertex["in_edges"]:
            made[maker]["out_edges"].append(vertex["counter"])
    return made


def _outputs(trace: list[Node]) -> list[Node]:
    """The tensors that the last function of the first level made."""
    ends = [e for s, e in _calls(trace) if s["stacking_level"] == 1]
    return _made(trace, ends[-1]) if ends else []


def count_intermediate_and_output_tensors(trace: list[Node]) -> tuple[int, int]:
    """(tensors that come between the first and the last function, tensors that the last function made)."""
    last = {node["params"]["tensor_id"] for node in _outputs(trace)}
    made = {n["params"]["tensor_id"] for s, e in _calls(trace) for n in _made(trace, e)}
    return len(made - last), len(last)


def extract_output_tensors(trace: list[Node]) -> list[Node]:
    return _outputs(trace)


def extract_output_info(trace: list[Node]) -> list[TensorInfo]:
    """Shape, bytes and memory of the tensors that are results of a captured graph."""
    kinds = {0: "DRAM", 1: "L1"}
    return [
        TensorInfo(p["shape"], p["size"], kinds.get(p.get("buffer_type", -1), "HOST"))
        for p in (node["params"] for node in _outputs(trace))
    ]


@dataclass(frozen=True)
class PeakMemoryUsagePerCore:
    """The greatest numbers of bytes in a core's L1: of circular buffers, of tensors, and of both together."""

    peak_cb: int
    peak_l1: int
    peak_total: int


def _sizes(trace: list[Node], of_buffer: Callable[[Node], int], views: bool) -> Iterator[tuple[int, int]]:
    """(bytes of circular buffers, bytes of tensors in L1) after each node; tensors from before the capture do
    not count. ``views``: count circular buffers that are views of tensors."""
    circular = tensors = 0
    there: Counter[Any] = Counter()
    for node in trace:
        kind, params = node["node_type"], node["params"]
        if kind == "circular_buffer_allocate" and (views or not params["globally_allocated"]):
            circular += int(params["size"])
        elif kind == "circular_buffer_deallocate_all":
            circular = 0
        elif kind in ("buffer_allocate", "buffer_deallocate") and params["type"] != "DRAM":
            key, more = (params["address"], params.get("name")), 1 if kind == "buffer_allocate" else -1
            if more > 0 or there[key]:
                there[key] += more
                tensors += of_buffer(params) * more
        yield circular, tensors


def extract_resource_usage_per_core(
    trace: list[Node], interleaved_storage_cores: int
) -> PeakMemoryUsagePerCore:
    """Peak bytes of a core. Tensors from before the capture do not count. ttnn no longer uses
    ``interleaved_storage_cores``: a tensor counts with its bytes in the fullest bank."""
    most = [0, 0, 0]
    for circular, tensors in _sizes(trace, lambda params: int(params["max_size_per_bank"]), False):
        most = [max(a, b) for a, b in zip(most, (circular, tensors, circular + tensors), strict=True)]
    return PeakMemoryUsagePerCore(*most)


def extract_circular_buffers_peak_size_per_core(trace: list[Node]) -> int:
    return extract_resource_usage_per_core(trace, 1).peak_cb


def extract_l1_buffer_allocation_peak_size_per_core(trace: list[Node], interleaved_storage_cores: int) -> int:
    return extract_resource_usage_per_core(trace, interleaved_storage_cores).peak_l1


def extract_peak_memory_usage(trace: list[Node], interleaved_storage_cores: int) -> int:
    return extract_resource_usage_per_core(trace, interleaved_storage_cores).peak_total


def extract_peak_L1_memory_usage(trace: list[Node]) -> int:
    """Peak of the sum that ttnn reports: bytes of a core's circular buffers plus bytes of all cores'
    tensors."""
    sums = (a + b for a, b in _sizes(trace, lambda params: int(params["size"]), True))
    return max(sums, default=0)


_TITLES = {
    "capture_start": "Capture Start",
    "capture_end": "Capture End",
    "buffer": "Add Device Buffer",
    "buffer_allocate": "Allocate Device Buffer",
    "buffer_deallocate": "Deallocate Device Buffer",
    "circular_buffer_allocate": "Allocate Circular Buffer",
    "circular_buffer_deallocate_all": "Deallocate Circular Buffers",
    "function_start": "Function Start: {name}",
    "function_end": "Function End:   {name}",
    "tensor": "Add Tensor: {tensor_id}",
}


def pretty_format(captured_graph: list[Node]) -> str:
    """One line per node; the lines of a function are indented."""
    lines, depth = [], 0
    for node in captured_graph:
        depth -= node["node_type"] == "function_end"
        lines.append("    " * depth + _TITLES[node["node_type"]].format(**node["params"]))
        depth += node["node_type"] == "function_start"
    return "".join(f"{line}\n" for line in lines)


def pretty_print(captured_graph: list[Node]) -> None:
    sys.stdout.write(pretty_format(captured_graph))


def visualize(captured_graph: list[Node], *, file_name: Any = None, **_: Any) -> Any:
    """A graphviz.Digraph of the nodes, drawn to ``file_name`` (.svg, .png or .pdf) if that is given."""
    import graphviz

    made = graphviz.Digraph(graph_attr={"rankdir": "TB"}, node_attr={"shape": "box", "fontsize": "10"})
    for node in captured_graph:
        made.node(f"node_{node['counter']}", _TITLES[node["node_type"]].format(**node["params"]))
        for after in node["connections"]:
            made.edge(f"node_{node['counter']}", f"node_{after}")
    if file_name is not None:
        path = Path(file_name)
        if path.suffix not in (".svg", ".png", ".pdf"):
            raise ValueError(f"file_name must have a .svg, .png or .pdf suffix, not {path.suffix}")
        made.render(path.with_suffix(""), format=path.suffix[1:])
    return made
