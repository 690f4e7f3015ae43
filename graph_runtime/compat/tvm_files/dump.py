"""GraphModuleDebug: a DebugModule that writes each node's time and results in TVM's debugger files.

    file in <root>/_tvmdbg_device_CPU_0/   content
    _tvmdbg_graph_dump.json                the graph, written when the GraphModuleDebug is made
    output_tensors.params                  every result of every node, from run()
    _tvmdbg_execution_trace.json           begin and end of each node (Chrome's trace format), from run()

Node numbers are those of graph.json. Shapes and dtypes are found by entry, so they are right even after a
node with several results.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ...base.errors import DocumentError
from ...base.files.writing import told, write_whole
from ...base.json_text import read_source
from ...base.machine.devices import parse_list
from ...ir.documents.document import read_document
from ...ir.documents.params import save_params
from ...run.module import GraphModule
from .debugger import DebugModule, create_debug

_COLUMNS = ("Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs", "Measurements(us)")


def create(
    graph_json: Any,
    library: Any = None,
    devices: Any = ("cpu:0",),
    dump_root: str | os.PathLike[str] | None = None,
    **options: Any,
) -> GraphModuleDebug:
    """A GraphModuleDebug. ``options``: keyword arguments of factory.create; ``dump_root``: the folder for its
    files."""
    module = create_debug(graph_json, library, devices, **options)
    return GraphModuleDebug(module, devices, graph_json, dump_root)


class DebugDump:
    """The files of one GraphModuleDebug. ``path``: their folder. ``nodes``: the graph's nodes as they are
    dumped: {"op": "param" or the function, "name", "inputs": names, "shape", "attrs"}."""

    root: Path
    path: Path

    def __init__(self, graph_json: Any, device: Any, root: str | os.PathLike[str] | None):
        self._own_root = root is None
        self.root = Path(tempfile.mkdtemp(prefix="tvmdbg_") if root is None else root)
        self.path = self.root / f"_tvmdbg_device_{device.kind.upper()}_{device.ordinal}"
        with told(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        graph = _dumped_graph(graph_json)
        self.nodes: list[dict[str, Any]] = graph["nodes"]
        self._times: list[list[float]] = []
        self._results: list[list[np.ndarray | None]] = []
        self._write("_tvmdbg_graph_dump.json", orjson.dumps(graph, option=orjson.OPT_INDENT_2))

    def _write(self, name: str, data: bytes) -> None:
        write_whole(self.path / name, data)

    def get_graph_nodes(self) -> list[dict[str, Any]]:
        """The nodes as they are dumped."""
        return self.nodes

    def record(
        self, times: Sequence[Sequence[float]], results: Sequence[Sequence[np.ndarray | None]]
    ) -> None:
        """Write the times and the results of a run. ``times``: a list of seconds for each node. ``results``:
        a list of arrays for each node, with None for a dtype that arrays lack."""
        self._times, self._results = [list(t) for t in times], [list(r) for r in results]
        self._write(
            "output_tensors.params",
            save_params(
                {
                    f"{node['name']}____topo-index:{nid}____output-num:{k}": array
                    for nid, (node, arrays) in enumerate(zip(self.nodes, self._results, strict=True))
                    for k, array in enumerate(arrays)
                    if array is not None
                }
            ),
        )
        trace = {"displayTimeUnit": "ns", "traceEvents": self._events()}
        self._write("_tvmdbg_execution_trace.json", orjson.dumps(trace))

    def _events(self) -> list[dict[str, Any]]:
        """A begin event and an end event for each node, one node after another; their time ``ts`` is in us
        and begins at 0."""
        events, now = [], 0.0
        for node, times in zip(self.nodes, self._times, strict=True):
            about = {"name": node["name"], "cat": node["op"], "pid": 1, "tid": 1}
            events.append({"ts": now, "ph": "B", **about})
            now += statistics.fmean(times) * 1e6
            events.append({"ts": now, "ph": "E", **about})
        return events

    def get_debug_result(self, sort_by_time: bool = True) -> str:
        """A table with a row for each result of each function, and a row with the total time."""
        mean = [statistics.fmean(times) * 1e6 for times in self._times]
        total, rows = sum(mean), []
        for node, times, us, arrays in zip(self.nodes, self._times, mean, self._results, strict=True):
            if node["op"] == "param":
                continue
            share = 100 * us / total if total else 0.0
            measured = ", ".join(str(round(t * 1e6, 3)) for t in times)
            rows += [
                (
                    us,
                    (
                        node["name"],
                        node["op"],
                        str(round(us, 3)),
                        str(round(share, 3)),
                        str(array.shape),
                        node["attrs"]["num_inputs"],
                        node["attrs"]["num_outputs"],
                        f"[{measured}]",
                    ),
                )
                for array in arrays
                if array is not None
            ]
        if sort_by_time:
            rows.sort(key=lambda row: -row[0])
        lines = [
            _COLUMNS,
            tuple("-" * len(name) for name in _COLUMNS),
            *(row for _, row in rows),
            ("Total_time", "-", str(round(total, 3)), "-", "-", "-", "-", "-"),
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "".join(cell.ljust(w + 2) for cell, w in zip(line, widths, strict=True)) for line in lines
        )

    def display_debug_result(self, sort_by_time: bool = True) -> None:
        """Show the table on stdout."""
        sys.stdout.write(self.get_debug_result(sort_by_time) + "\n")

    def remove(self) -> None:
        """Remove the folder, and its root folder if the root folder was made for it or holds nothing else."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._own_root:
            shutil.rmtree(self.root, ignore_errors=True)
        elif self.root.is_dir() and not any(self.root.iterdir()):
            self.root.rmdir()


def _dumped_graph(graph_json: Any) -> dict[str, Any]:
    """graph.json as TVM's debugger writes it: each node has its function as op, the names of its inputs, its
    shape and its dtype."""
    document = read_document(read_source(graph_json, "graph"))
    nodes, columns, row_ptr = document["nodes"], document["attrs"], document["node_row_ptr"]
    dumped = []
    for node, eid in zip(nodes, row_ptr, strict=False):
        attrs = dict(node.get("attrs") or node.get("attr") or {})
        has_result = eid < len(columns["shape"][1])
        attrs["T"] = f"type: {columns['dltype'][1][eid]}" if has_result else "type: "
        dumped.append(
            {
                "op": "param" if node["op"] == "null" else attrs["func_name"],
                "name": node["name"],
                "inputs": [nodes[entry[0]]["name"] for entry in node["inputs"]],
                "attrs": attrs,
                "shape": list(columns["shape"][1][eid]) if has_result else [],
            }
        )
    return {
        **{key: document[key] for key in ("arg_nodes", "heads", "attrs", "node_row_ptr")},
        "nodes": dumped,
    }


class GraphModuleDebug(DebugModule):
    """A DebugModule whose run() times every node, dumps every result and shows a table.

    ``module``: the result of debug_create, or any GraphModule. ``devices``: the first device names the
    folder. ``dump_root``: a temporary folder by default. ``debug_datum``: the DebugDump.
    """

    debug_datum: DebugDump

    functions = DebugModule.functions | {"exit"}

    def __init__(
        self,
        module: GraphModule,
        devices: Any,
        graph_json: Any,
        dump_root: str | os.PathLike[str] | None = None,
    ):
        super().__init__(module)
        self.debug_datum = DebugDump(graph_json, parse_list(devices)[0], dump_root)

    @property
    def dump_path(self) -> Path:
        """The folder of this module's files."""
        return self.debug_datum.path

    def run(
        self,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 1,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        sort_by_time: bool = True,
        **inputs: Any,
    ) -> None:
        """Set ``inputs``, time each node as run_individual does, run once node by node and dump all results,
        and show the table on stdout. Raises as GraphModule.run."""
        if inputs:
            self.set_input(**inputs)
        times = self.run_individual(
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
        )
        self.debug_datum.record(times, self._run_and_keep())
        self.debug_datum.display_debug_result(sort_by_time)

    def _run_and_keep(self) -> list[list[np.ndarray | None]]:
        """Copies of every node's results, taken right after the node has run, because a later node may reuse
        their memory."""
        self._last_executed = -1
        kept: list[list[np.ndarray | None]] = []
        for nid in range(self.num_nodes):
            self.execute_node(nid)
            arrays: list[np.ndarray | None] = []
            for k in range(self.num_results(nid)):
                try:
                    arrays.append(self.get_node_output(nid, k))
                except DocumentError:  # arrays do not have this dtype
                    arrays.append(None)
            kept.append(arrays)
        return kept

    def exit(self) -> None:
        """Remove the dumped files."""
        self.debug_datum.remove()
