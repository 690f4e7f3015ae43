"""What error does bf16 give a network of eight layers against float32, and which layers cause it?"""

from __future__ import annotations

import numpy as np
from picture import bars

import graph_runtime as gr
from graph_runtime.testing import Comparison, compare_arrangements

rng = np.random.default_rng(0)
b = gr.GraphBuilder()
x = b.input("x", (64, 128))
values = {"x": rng.standard_normal((64, 128)).astype(np.float32)}
for i in range(8):
    values[f"w{i}"] = (rng.standard_normal((128, 128)) / 9).astype(np.float32)
    x = b.op("tanh", b.op("matmul", x, b.input(f"w{i}", (128, 128)), name=f"layer {i}"), name=f"tanh {i}")
b.output(x)
options = {"inputs": values, "nodes": True, "formats": {"tt": "bf16"}}
report = compare_arrangements(b.build(), None, ["tt:0"], **options)["as given"]
assert isinstance(report, Comparison)
alone = {row.name: row.nmse for row in report.isolated}
added = {row.name: row.nmse for row in report.accumulated}
print(f"worst output: normalised squared error {report.worst:.2e}, allowed {report.bound:.0e}")
rows = {
    f"layer {i}": {
        "of its own": 1e6 * alone[f"layer {i}"],
        "handed on": 1e6 * max(added[f"layer {i}"] - alone[f"layer {i}"], 0),
    }
    for i in range(8)
}
bars("error of bf16 by layer", "1e-6 of the squares", rows)
