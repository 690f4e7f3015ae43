"""What is in files for TVM's graph executor, and do they run? They are made, inspected, run by TVM's API."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from picture import bars

import graph_runtime as gr
import graph_runtime.compat.tvm as tvm
from graph_runtime.compat.tvm.contrib import graph_executor

DIGITS = Path(__file__).resolve().parents[1] / "digits"
graph = gr.load_graph(DIGITS / "graph.json")
with tempfile.TemporaryDirectory() as folder:
    plan = gr.prepare(graph, ["cpu:0"]).plan
    library = gr.build_library([plan], Path(folder) / "deploy_lib.so")
    module = graph_executor.create(
        (DIGITS / "graph.json").read_text(), tvm.runtime.load_module(str(library)), tvm.cpu(0)
    )
    module.load_params((DIGITS / "params.bin").read_bytes())
    with np.load(DIGITS / "digits.npz") as data:
        images, labels = data["images"], data["labels"]
    name = next(n for n in graph.input_names if n not in gr.load_params(DIGITS / "params.bin"))
    kind = graph.entry_type(int(graph.input_eids[graph.input_names.index(name)]))
    module.set_input(name, (images[: kind.shape[0]] / 16).astype(np.float32).reshape(kind.shape))
    module.run()
    says = module.get_output(0).numpy().argmax(1)
    print(f"{(says == labels[: len(says)]).sum()} of {len(says)} digits are right")
print("inputs:", ", ".join(graph.input_names))
rows: dict[str, dict[str, float]] = {}
for nid in range(graph.num_nodes):
    node = graph.node(nid)
    if node.func is not None:
        made = sum(type_.nbytes for type_ in node.output_types) / 1024
        read = sum(type_.nbytes for type_ in node.input_types) / 1024
        rows[f"{node.name} ({node.func.name})"] = {"reads": read, "writes": made}
bars("functions of the artifact", "KiB", rows)
