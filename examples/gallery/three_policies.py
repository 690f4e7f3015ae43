"""Where do three placement policies run BERT on a host and an n150, and what do the copies cost?"""

from __future__ import annotations

from picture import bars

import graph_runtime as gr
from graph_runtime import study

bert = study.workload("bert")
rows = {}
for policy in ("single", "greedy", "mincut"):
    placed = gr.place(bert.graph, ["cpu:0", "tt:0=n150"], placement=policy, inputs=bert.inputs)
    said = placed.summary()
    rows[policy] = {row["device"]: row["ns"] / 1e3 for row in said["devices"]}
    rows[policy]["copies"] = sum(row["ns"] for row in said["copies"]) / 1e3
    serial = said["predictions"][0]
    nodes = ", ".join(f"{row['nodes']} nodes on {row['device']}" for row in said["devices"])
    print(f"{policy}: {nodes}; at most {serial['gap_percent']} % above the best that can be")
bars("BERT on cpu:0 and tt:0=n150", "us, one after the other", rows)
