"""Two input tensors used in turn: while the device computes on one, the next batch is copied into the other.
For comparison, the same work is timed with one tensor, step by step.

    copy queue     | x0 -> a | x1 -> b |   x2 -> a   |   x3 -> b ...
    compute queue            | f(a)          | f(b)          | f(a) ...
"""

from __future__ import annotations

import time

import numpy as np
from common import bundle, expect, show

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder

ROWS, WIDTH, BATCHES = 512, 512, 8


def model() -> GraphBuilder:
    """A program that computes relu(x @ w) twice."""
    builder = GraphBuilder()
    x, w = builder.input("x", (ROWS, WIDTH)), builder.input("w", (WIDTH, WIDTH))
    y = builder.op("relu", builder.op("matmul", x, w))
    z = builder.op("relu", builder.op("matmul", y, w))
    builder.output(builder.op("mean", z, axes=[1], keepdims=True))
    return builder


def run(
    device: rt.OpenDevice, program: rt.Bundle, batches: np.ndarray, weights: gr.Tensor, buffers: int
) -> tuple[float, list[np.ndarray]]:
    """(seconds, results of all batches), with ``buffers`` input tensors; with one, each step waits for the
    last."""
    layout = rt.get_layout(program, "f", "x")
    inputs = [rt.create_empty_tensor((ROWS, WIDTH), "float32", device, layout) for _ in range(buffers)]
    results: list[gr.Tensor] = []
    begin = time.perf_counter()
    for at, batch in enumerate(batches):
        x = inputs[at % buffers]
        rt.copy(x, rt.create_borrowed_host_tensor(batch))  # queued after the run that still reads x
        results += rt.submit(device, program, "f", [x, weights])
        if buffers == 1:
            rt.wait(results)
    values = rt.gather(results)
    return time.perf_counter() - begin, values


def main() -> None:
    rng = np.random.default_rng(3)
    batches = rng.standard_normal((BATCHES, ROWS, WIDTH)).astype(np.float32)
    w = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 16
    program = bundle("double_buffer", {"f": model()})
    with rt.open_device("tt:0") as device:
        weights = rt.to_layout(rt.create_borrowed_host_tensor(w), device, rt.get_layout(program, "f", "w"))
        run(device, program, batches[:1], weights, 1)  # loads the program before timing
        serial, one = run(device, program, batches, weights, 1)
        with rt.stats() as counted:
            overlapped, two = run(device, program, batches, weights, 2)
    show("traffic with two input tensors", counted)
    expect("host to device, bytes", counted.bytes("h2d"), batches.nbytes)
    expect("device to host, bytes", counted.bytes("d2h"), BATCHES * ROWS * 4)
    expect(
        "results that differ from those step by step",
        sum(not np.array_equal(a, b) for a, b in zip(one, two, strict=True)),
        0,
    )
    print(
        f"step by step {serial * 1e3:.1f} ms, overlapped {overlapped * 1e3:.1f} ms: "
        f"{serial / overlapped:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
