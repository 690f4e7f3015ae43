"""How much memory does planning save? Three networks, with separate memory for each value and with reuse."""

from __future__ import annotations

import numpy as np
from picture import bars

import graph_runtime as gr
from graph_runtime import study

rows = {}
for name in ("resnet50", "unet", "bert"):
    graph = study.workload(name).graph
    for reuse in ("off", "serial"):
        plan = gr.prepare(graph, ["cpu:0"], options=gr.Options.of(reuse=reuse)).plan
        inputs = np.unique(plan.sid[plan.graph.input_eids])
        parameters = int(plan.storage.extent[inputs].sum()) / 2**20
        rows[f"{name}, reuse {reuse}"] = {
            "inputs, parameters": parameters,
            "activations": max(plan.peak.values()) / 2**20 - parameters,
        }
bars("memory of a session on cpu:0", "MiB", rows)
