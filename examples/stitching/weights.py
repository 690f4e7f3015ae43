"""Weights are copied to the device once and used by 100 submissions: after that only activations move.

host                          tt:0
w1, w2 ----- once -----------> w1, w2 -------+
x(i)  ------ each iteration -> x(i) --- mlp --> y(i)      y(99) comes back
"""

from __future__ import annotations

import numpy as np
from common import bundle, expect, show

import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder

BATCH, WIDTH, HIDDEN, ITERATIONS = 32, 64, 128, 100


def mlp() -> GraphBuilder:
    """A program that computes relu(x @ w1) @ w2."""
    builder = GraphBuilder()
    x = builder.input("x", (BATCH, WIDTH))
    w1, w2 = builder.input("w1", (WIDTH, HIDDEN)), builder.input("w2", (HIDDEN, WIDTH))
    builder.output(builder.op("matmul", builder.op("relu", builder.op("matmul", x, w1)), w2))
    return builder


def main() -> None:
    rng = np.random.default_rng(0)
    w1, w2 = (rng.standard_normal(s).astype(np.float32) / 8 for s in ((WIDTH, HIDDEN), (HIDDEN, WIDTH)))
    batches = rng.standard_normal((ITERATIONS, BATCH, WIDTH)).astype(np.float32)
    model = bundle("mlp", {"mlp": mlp()})
    with rt.open_device("tt:0") as device, rt.stats() as counted:
        weights = [
            rt.to_layout(rt.create_borrowed_host_tensor(w), device, rt.get_layout(model, "mlp", i + 1))
            for i, w in enumerate((w1, w2))
        ]
        for batch in batches:
            x = rt.to_layout(rt.create_borrowed_host_tensor(batch), device, rt.get_layout(model, "mlp", 0))
            (y,) = rt.submit(device, model, "mlp", [x, *weights])
        result = rt.to_host(y).numpy()
    show("traffic of 100 iterations", counted)
    expect("host to device, bytes", counted.bytes("h2d"), w1.nbytes + w2.nbytes + batches.nbytes)
    expect("host to device, copies", counted.count("h2d"), 2 + ITERATIONS)
    expect("device to host, bytes", counted.bytes("d2h"), result.nbytes)
    expect("conversions at submit", counted.count("mismatch"), 0)
    error = np.abs(result - np.maximum(batches[-1] @ w1, 0) @ w2).max()
    print(f"largest difference to numpy: {error:.2g}")
    if not error < 1e-3:
        raise SystemExit("the result is wrong")


if __name__ == "__main__":
    main()
