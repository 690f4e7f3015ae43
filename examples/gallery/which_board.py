"""Which board is fastest for which network, and what bounds its slowest node?"""

from __future__ import annotations

from picture import bars

import graph_runtime as gr
from graph_runtime import study

BOARDS = ("n150", "p150", "e150")
rows = {}
for name in ("resnet50", "bert", "unet"):
    graph = study.workload(name).graph
    for board in BOARDS:
        timeline = gr.simulate(gr.prepare(graph, [f"tt:0={board}"]).plan)
        slowest = timeline.nodes()[0]
        dispatch = timeline.summary()["dispatch_ns"] / 1e3
        rows[f"{name} {board}"] = {
            "in kernels": timeline.latency_ns / 1e3 - dispatch,
            "in dispatch": dispatch,
        }
        print(f"{name} on {board}: slowest is {slowest['name']} ({slowest['op']}), {slowest['share']:.0%}")
bars("one run, all of it on a board", "us, predicted", rows)
