"""Is a second board worth it? ResNet-50 on one, two and four boards, placed for the most runs per second."""

from __future__ import annotations

from picture import bars

import graph_runtime as gr
from graph_runtime import study

work = study.workload("resnet50")
rows = {}
for count in (1, 2, 4):
    devices = [f"tt:{i}=n150" for i in range(count)]
    options = gr.Options.of(placement="mincut", objective="throughput")
    plan = gr.prepare(work.graph, devices, options=options).plan
    timeline = gr.simulate(plan, runs=16, inputs=work.inputs)
    rows[f"{count} x n150"] = {"runs a second": timeline.throughput}
    print(f"{count} boards: {timeline.throughput:,.0f} runs a second, a run takes {timeline.latency_ns:,} ns")
    for queue in timeline.summary()["queues"]:
        print(f"  {queue['queue']:<14} busy {queue['utilisation']:.0%}")
bars("ResNet-50 cut over n150 boards", "runs a second", rows)
