"""Where does L1 go in ResNet-50 on an n150? The nodes with the largest circular buffers."""

from __future__ import annotations

import numpy as np
from picture import bars

import graph_runtime as gr
from graph_runtime import study

plan = gr.prepare(study.workload("resnet50").graph, ["tt:0=n150"]).plan
l1 = plan.devices[0].descriptor.memory("l1")
assert plan.circular is not None
ops: dict[str, int] = {}
for nid in np.argsort(-plan.circular, kind="stable").tolist():
    node = plan.graph.node(nid)
    if node.func is not None and plan.circular[nid]:
        ops.setdefault(f"{node.op} {'x'.join(map(str, node.output_types[0].shape))}", nid)
rows = {
    label: {
        "circular buffers": int(plan.circular[nid]) / 1024,
        "free": (l1.available - int(plan.circular[nid])) / 1024,
    }
    for label, nid in list(ops.items())[:10]
}
print(f"each of {l1.banks} cores has {l1.usable:,} B, {l1.available:,} B of them for tensors and buffers")
bars("ResNet-50 on n150: L1 of a core", "KiB", rows)
