"""Measures this machine's constants of the host's roofline (graph_runtime/costs/cpu.py).

    python tests/tools/fit_cpu.py [--write] [--rounds N]

Prints them as JSON; --write makes them the packaged ones, graph_runtime/costs/weights/cpu.json.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from fit_common import date_of, write_weights

import graph_runtime as gr
from graph_runtime.graph import TensorType
from graph_runtime.ops import registry

# constant -> (op, input shapes, attributes): each as large as its limit is the one that shows
CASES = {
    "product_gflops": ("matmul", ((512, 512), (512, 512)), {}),
    "packed_gflops": ("dense", ((128, 768), (24, 768, 32)), {"packed": 768}),
    "depthwise_gflops": ("conv2d", ((1, 28, 28, 192), (6, 9, 32)), {
        "layout": "NHWC", "packed": 192, "group": 192, "kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
    "simple_gflops": ("layer_norm", ((256, 512), (512,), (512,)), {}),
    "function_gflops": ("exp", ((512, 512),), {}),
    "gb_per_s": ("add", ((4096, 2048), (4096, 2048)), {}),
    "call_ns": ("add", ((1,), (1,)), {}),
}
CHAIN = 64  # calls of one run, so that the run's own cost does not show


def seconds(op: str, shapes: tuple[tuple[int, ...], ...], attrs: dict, chain: int) -> float:
    """Least seconds of one call of the op, of several runs of ``chain`` calls."""
    builder = gr.GraphBuilder()
    inputs = [builder.input(f"x{i}", shape, "float32") for i, shape in enumerate(shapes)]
    for _ in range(chain):
        result = builder.op(op, *inputs, **attrs)
        inputs[0] = result if chain > 1 else inputs[0]
    builder.output(result)
    module = gr.create(builder, None, ["cpu:0"])
    draw = np.random.default_rng(0)
    module.set_input(**{f"x{i}": draw.standard_normal(s, np.float32) for i, s in enumerate(shapes)})
    took = []
    for _ in range(40):
        start = time.perf_counter()
        module.run()
        took.append(time.perf_counter() - start)
    return min(took) / chain


def measure() -> dict[str, float]:
    found = {}
    for name, (op, shapes, attrs) in CASES.items():
        ns = seconds(op, shapes, attrs, CHAIN if name == "call_ns" else 1) * 1e9
        types = [TensorType("float32", s) for s in shapes]
        entry = registry.require(op)
        given = entry.decode(attrs)
        outputs = entry.infer(types, given)
        work = entry.bytes_moved(types, outputs) if name == "gb_per_s" else entry.flops(types, outputs, given)
        found[name] = float(f"{ns if name == 'call_ns' else work / ns:.3g}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make these the packaged constants")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    options = parser.parse_args()
    rounds = [measure() for _ in range(options.rounds)]
    found = {name: (min if name == "call_ns" else max)(r[name] for r in rounds) for name in CASES}
    print(json.dumps(found))
    if options.write:
        source = "tests/tools/fit_cpu.py on a host of 2 cores with AVX2, 2 threads"
        write_weights("cpu", {"source": source, "date": date_of(), "machine": {**found, "basis": "assumed"}})


if __name__ == "__main__":
    main()
