"""Functions shared by simplex.py and duplex.py: they write a graph.json by hand, and run it on three pairs of
devices."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import graph_runtime as gr

SHAPE = [4]
# (d, h): the device that adds, the device that subtracts
PAIRS = (("cpu:0", "tt:0"), ("tt:0", "cpu:0"), ("tt:0", "tt:1"))
DL_TYPE = {"cpu": 1, "tt": 12}  # DLDeviceType, as in device_index


Node = dict[str, Any]  # a node of graph.json


def null(name: str) -> Node:
    """A graph input."""
    return {"op": "null", "name": name, "inputs": []}


def call(op: str, name: str, *inputs: int) -> Node:
    """A node that calls an op on the outputs of the nodes with these ids."""
    attrs = {
        "func_name": "__copy" if op == "__copy" else f"example_{op}",
        "num_inputs": str(len(inputs)),
        "num_outputs": "1",
        "flatten_data": "0",
    }
    if op != "__copy":
        attrs["gr.op"] = op
    return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[nid, 0, 0] for nid in inputs]}


def document(nodes: list[Node], storage_id: list[int], on: list[str]) -> str:
    """The graph.json of a chain of one-output nodes whose last one is the output.

    ``on`` is the device of each node; it is stored as its type, device_index, and its number within that
    type, device_id.
    """
    count = len(nodes)
    attrs = {
        "storage_id": ["list_int", storage_id],
        "device_index": ["list_int", [DL_TYPE[device.split(":")[0]] for device in on]],
        "device_id": ["list_int", [int(device.split(":")[1]) for device in on]],
        "dltype": ["list_str", ["float32"] * count],
        "shape": ["list_shape", [SHAPE] * count],
    }
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [nid for nid, node in enumerate(nodes) if node["op"] == "null"],
            "node_row_ptr": list(range(count + 1)),
            "heads": [[count - 1, 0, 0]],
            "attrs": attrs,
        },
        indent=1,
    )


def run(graph: str, library: str | Path, devices: list[str], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The output of one run; ``graph`` is JSON text or a path."""
    module = gr.create(graph, library, devices)
    module.set_input(**inputs)
    module.run()
    return module.get_output(0).numpy()


def show(write: Callable[[str, str], str], expected: Callable[..., np.ndarray], names: str) -> None:
    """Run the graph that ``write(d, h)`` returns on every pair of devices, from memory and from disk.

    Each result must equal ``expected(*inputs)``, bit by bit; ``names`` has one letter per input.
    """
    rng = np.random.default_rng(0)
    inputs = {name: rng.random(SHAPE, dtype=np.float32) for name in names}
    want = expected(*inputs.values())
    with tempfile.TemporaryDirectory() as folder:
        for d, h in PAIRS:
            text, devices = write(d, h), [h, d]
            file, library = Path(folder, "deploy.json"), Path(folder, f"{d}-{h}.so".replace(":", ""))
            file.write_text(text)
            gr.build_library([gr.prepare(text, devices).plan], library)
            for where, graph in (("memory", text), ("disk", str(file))):
                got = run(graph, library, devices, inputs)
                np.testing.assert_array_equal(got, want)
                print(f"add on {d:5}  subtract on {h:5}  from {where:6}  {got}")
