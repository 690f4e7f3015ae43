"""What do smaller numbers buy? One product in four formats on an n150: time, memory and error."""

from __future__ import annotations

import numpy as np
from picture import bars

import graph_runtime as gr
from graph_runtime.testing import Comparison, compare_arrangements

b = gr.GraphBuilder()
b.output(b.op("matmul", b.input("x", (256, 1024)), b.input("w", (1024, 1024)), name="product"))
graph, rng = b.build(), np.random.default_rng(0)
inputs = {
    name: rng.standard_normal(shape).astype(np.float32)
    for name, shape in (("x", (256, 1024)), ("w", (1024, 1024)))
}
rows = {}
for format in ("f32", "bf16", "bfp8_b", "bfp4_b"):
    options = gr.Options.of(formats={"tt": format})
    plan = gr.prepare(graph, ["tt:0=n150"], options=options).plan
    report = compare_arrangements(graph, None, ["tt:0=n150"], inputs=inputs, formats={"tt": format})[
        "as given"
    ]
    assert isinstance(report, Comparison)
    rows[format] = {"time": gr.simulate(plan).latency_ns / 1e3}
    print(
        f"{format}: {int(plan.storage.nbytes.sum()) / 2**20:.2f} MiB, error {report.worst:.1e} of the squares"
    )
bars("a product of 256x1024 and 1024x1024 on n150", "us, predicted", rows)
