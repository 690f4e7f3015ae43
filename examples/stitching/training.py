"""A training loop on the device: one program computes the gradient, another updates the weights in place.

batch --> gradient(x, y, w) --> loss, g --> update(w, g, rate)
                      ^                        |  written in place
                      +------------------------+
"""

from __future__ import annotations

import numpy as np
from common import bundle, expect, show

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder

BATCH, FEATURES, STEPS, RATE = 64, 32, 40, 0.05


def gradient() -> GraphBuilder:
    """A program that computes the mean squared error of x @ w, and its gradient."""
    builder = GraphBuilder()
    x, y = builder.input("x", (BATCH, FEATURES)), builder.input("y", (BATCH, 1))
    w = builder.input("w", (FEATURES, 1))
    error = builder.op("subtract", builder.op("matmul", x, w), y)
    loss = builder.op("mean", builder.op("multiply", error, error), axes=[0, 1], keepdims=True)
    scale = builder.param("scale", np.full((1, 1), 2 / BATCH, np.float32))
    slope = builder.op("multiply", builder.op("matmul", builder.op("transpose", x), error), scale)
    builder.output(loss, slope)
    return builder


def update() -> GraphBuilder:
    """A program that writes w - rate * g into w."""
    builder = GraphBuilder()
    w, g = builder.input("w", (FEATURES, 1)), builder.input("g", (FEATURES, 1))
    rate = builder.param("rate", np.full((1, 1), RATE, np.float32))
    new = builder.op("subtract", w, builder.op("multiply", g, rate))
    builder.output(new)
    builder.alias(new, w)
    return builder


def address(tensor: gr.Tensor) -> int:
    """Address of the tensor's memory in each bank of the device."""
    assert tensor.buffer is not None  # the tensor has memory of its own
    return tensor.buffer.addr


def main() -> None:
    rng = np.random.default_rng(2)
    truth = rng.standard_normal((FEATURES, 1)).astype(np.float32)
    batches = rng.standard_normal((STEPS, BATCH, FEATURES)).astype(np.float32)
    programs = bundle("training", {"gradient": gradient(), "update": update()})
    with rt.open_device("tt:0") as device:
        for name in ("gradient", "update"):
            rt.load_program(device, programs, name)
        with rt.stats() as counted:

            def push(array: np.ndarray, index: str) -> gr.Tensor:
                return rt.to_layout(
                    rt.create_owned_host_tensor(array), device, rt.get_layout(programs, "gradient", index)
                )

            w = push(np.zeros((FEATURES, 1), np.float32), "w")
            begin, losses = address(w), []
            for batch in batches:
                x, y = push(batch, "x"), push(batch @ truth, "y")
                loss, g = rt.submit(device, programs, "gradient", [x, y, w])
                (w,) = rt.submit(device, programs, "update", [w, g])  # the old tensor is donated
                losses.append(loss)
            values = [float(v[0, 0]) for v in rt.gather(losses)]
            moved = address(w) - begin
        learned = rt.to_host(w).numpy()
    show(f"traffic of {STEPS} steps", counted)
    print(f"loss {values[0]:.3f} -> {values[-1]:.5f}, weights off by {np.abs(learned - truth).max():.2g}")
    expect("host to device, bytes", counted.bytes("h2d"), truth.nbytes + batches.nbytes + STEPS * BATCH * 4)
    expect("device to host, bytes: the losses", counted.bytes("d2h"), STEPS * 4)
    expect("address of the weights, moved by", moved, 0)
    if not values[-1] < 0.01 * values[0]:
        raise SystemExit("it does not learn")


if __name__ == "__main__":
    main()
