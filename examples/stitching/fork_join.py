"""The program of IREE's discussion of an eager mode (#8878), without changes:

    t0 = a(); t1 = a(); t2 = b(t0, t1); export t2; t3 = a function of the host(t2); import t3 as t4; c(t4, t0)

There is one transfer to the host and one back: t0 and t1 never leave the device, and only the export waits.
"""

from __future__ import annotations

import numpy as np
from common import bundle, expect, show

import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder

SHAPE = (64, 64)


def a() -> GraphBuilder:
    """A program that computes relu of a constant."""
    builder = GraphBuilder()
    seed = builder.param("seed", np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(SHAPE))
    builder.output(builder.op("relu", seed))
    return builder


def two(op: str) -> GraphBuilder:
    """A program that applies an op to two inputs."""
    builder = GraphBuilder()
    builder.output(builder.op(op, builder.input("x", SHAPE), builder.input("y", SHAPE)))
    return builder


def on_the_host(t2: np.ndarray) -> np.ndarray:
    """A function that no device has: a cumulative sum."""
    return np.cumsum(t2, axis=1, dtype=np.float32)


def main() -> None:
    programs = bundle("fork_join", {"a": a(), "b": two("add"), "c": two("multiply")})
    with rt.open_device("tt:0") as device:
        for name in "abc":
            rt.load_program(device, programs, name)
        with rt.stats() as counted:
            (t0,) = rt.submit(device, programs, "a", [])
            (t1,) = rt.submit(device, programs, "a", [])
            (t2,) = rt.submit(device, programs, "b", [t0, t1])
            t3 = on_the_host(rt.to_host(t2).numpy())
            t4 = rt.to_layout(rt.create_borrowed_host_tensor(t3), device, rt.get_layout(programs, "c", 0))
            (result,) = rt.submit(device, programs, "c", [t4, t0])
        values = rt.to_host(result).numpy()
    show("traffic up to the last submit", counted)
    expect("copies to the host", counted.count("d2h"), 1)
    expect("copies to the device", counted.count("h2d"), 1)
    seed = np.maximum(np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(SHAPE), 0)
    error = np.abs(values - on_the_host(seed + seed) * seed).max()
    print(f"largest difference to numpy: {error:.2g}")
    if not error < 1e-3:
        raise SystemExit("the result is wrong")


if __name__ == "__main__":
    main()
