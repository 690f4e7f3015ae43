"""Measures this machine's constants of the host's roofline (graph_runtime/costs/cpu.py).

    python tests/tools/fit_cpu.py [--write] [--rounds N] [--ratios]

Prints them as JSON; --write makes them the packaged ones (graph_runtime/costs/weights/cpu.json).

--ratios: only rates of arithmetic, each in turns with packed_gflops, of one thread, by processor time; the
ratio times the packaged packed_gflops is printed. For machines that other work shares, and to bring one rate
up to date. Rates of instructions that not all hosts have (``instructions`` in that file) are written by hand.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
from fit_common import date_of, write_weights

import graph_runtime as gr
from graph_runtime.costs.weights_file import load
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import registry

DEPTHWISE = {"layout": "NHWC", "packed": 192, "group": 192, "kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
# constant -> (op, input shapes, attributes): each as large as its limit is the one that shows
CASES = {
    "product_gflops": ("matmul", ((512, 512), (512, 512)), {}),
    "packed_gflops": ("dense", ((128, 768), (24, 768, 32)), {"packed": 768}),
    "paired_gflops": ("dense", ((128, 768), (24, 384, 64)), {"packed": 768}),
    "quantized_gflops": ("quantized_dense", ((128, 768), (24, 194, 128), ()), {"packed": 768, "to": "int32"}),
    "levels_gflops": ("dense", ((128, 768), (24, 24, 640)), {"packed": 768, "levels": (4, 32)}),
    "depthwise_gflops": ("conv2d", ((1, 28, 28, 192), (6, 9, 32)), DEPTHWISE),
    "quantized_depthwise_gflops": (
        "quantized_conv2d",
        ((1, 28, 28, 192), (6, 5, 128), (), (192,)),
        {**DEPTHWISE, "to": "uint8", "zero": 7},
    ),
    "grouped_gflops": ("conv2d", ((1, 28, 28, 192), (6, 36, 32)), {**DEPTHWISE, "group": 48}),
    "simple_gflops": ("dequantize", ((128, 512), (), ()), {}),
    "function_gflops": ("sigmoid", ((128, 512),), {}),
    "scalar_gflops": ("sin", ((128, 512),), {}),
    "gb_per_s": ("add", ((4096, 2048), (4096, 2048)), {}),
    "call_ns": ("add", ((1,), (1,)), {}),
}
CHAIN = 64  # calls of one run, so that the run's own cost does not show
DTYPES = {  # of the inputs, where they are not all float32
    "paired_gflops": ("float32", "bfloat16"),
    "quantized_gflops": ("uint8", "int8", "uint8"),
    "quantized_depthwise_gflops": ("uint8", "int8", "uint8", "float32"),
    "levels_gflops": ("float32", "uint8"),
    "simple_gflops": ("uint8", "float32", "uint8"),
}
SOME = 60  # every integer: four such bytes, as scales among levels are, are 0.0115 and no denormal
MB = 1 << 20
CACHES = (4, 8, 16, 32)  # MB of weights that may be found in a cache
HOPS = 32


def seconds(
    op: str,
    shapes: tuple[tuple[int, ...], ...],
    attrs: dict,
    chain: int,
    dtypes: tuple[str, ...] = (),
    **options,
) -> float:
    """Least seconds of one call of the op, of several runs of ``chain`` calls."""
    builder = gr.GraphBuilder()
    dtypes = dtypes or ("float32",) * len(shapes)
    inputs = [builder.input(f"x{i}", *each) for i, each in enumerate(zip(shapes, dtypes, strict=True))]
    for _ in range(chain):
        result = builder.op(op, *inputs, **attrs)
        inputs[0] = result if chain > 1 else inputs[0]
    builder.output(result)
    return least(builder, ["cpu:0"], **options) / chain


def least(
    builder: gr.GraphBuilder, devices: list[str], clock: Callable[[], float] = time.perf_counter, **options
) -> float:
    """Least seconds of a run."""
    module = gr.create(builder, None, devices, **options)
    draw = np.random.default_rng(0)
    for name in module.get_input_info()[0]:
        there = module.get_input(name)
        kind = there.numpy().dtype
        made = draw.standard_normal(there.shape, np.float32) if kind.kind not in "iu" else SOME
        module.set_input(name, np.broadcast_to(made, there.shape).astype(kind))
    took = []
    for _ in range(40):
        start = clock()
        module.run()
        took.append(clock() - start)
    return min(took)


def weights() -> dict[str, float]:
    """How fast weights of so many MB come to a product of one row: from a cache, from memory, and up to how
    many MB they stay in one."""

    def gb_per_s(mb: int) -> float:
        k = 1024
        n = mb * MB // 4 // k
        return mb * MB / seconds("dense", ((1, k), (n // 32, k, 32)), {"packed": n}, 1) / 1e9

    cached, memory = gb_per_s(2), gb_per_s(128)
    kept = [mb for mb in CACHES if gb_per_s(mb) > (cached + memory) / 2]
    return {"weight_gb_per_s": memory, "cached_gb_per_s": cached, "cache_bytes": max(kept, default=2) * MB}


def handoffs() -> dict[str, float]:
    """ns from queue to queue, of nodes that pass a value to and fro between two devices: of short ones, whose
    threads never sleep, then of long ones."""

    def each(n: int, other: str) -> float:
        builder = gr.GraphBuilder()
        value, weight = builder.input("x", (1, n)), builder.input("w", (n // 32, n, 32))
        for at in range(HOPS):
            value = builder.op("dense", value, weight, packed=n, name=f"{'ab'[at % 2]}{at}")
        builder.output(value)
        return least(builder, ["cpu:0", "cpu:1"], place={"b*": other}, queues="threads") / HOPS * 1e9

    short, long = (each(n, "cpu:1") - each(n, "cpu:0") for n in (32, 1280))
    handoff = short / 2  # to the queue that copies, and on to the one that computes
    return {"handoff_ns": handoff, "wake_ns": max(long - handoff, handoff)}


def of_case(name: str, **options) -> float:
    """The constant that one case measures."""
    op, shapes, attrs = CASES[name]
    dtypes = DTYPES.get(name, ("float32",) * len(shapes))
    ns = seconds(op, shapes, attrs, CHAIN if name == "call_ns" else 1, dtypes, **options) * 1e9
    types = [TensorType(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=True)]
    entry = registry.require(op)
    given = entry.decode(attrs)
    outputs = entry.infer(types, given)
    work = entry.bytes_moved(types, outputs) if name == "gb_per_s" else entry.flops(types, outputs, given)
    return ns if name == "call_ns" else work / ns


def measure() -> dict[str, float]:
    return rounded({**{name: of_case(name) for name in CASES}, **weights(), **handoffs()})


def ratios(rounds: int) -> dict[str, float]:
    """Rates of arithmetic beside the packaged one of panels: medians of so many ratios of a thread."""
    thread = {"clock": time.thread_time, "threads": 1}
    names = [name for name in CASES if name.endswith("_gflops") and name != "packed_gflops"]
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, each in found.items():
            each.append(of_case(name, **thread) / of_case("packed_gflops", **thread))
    packed = load("cpu")["machine"]["packed_gflops"]
    return rounded({name: packed * float(np.median(each)) for name, each in found.items()})


def rounded(found: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make these the packaged constants")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--ratios", action="store_true", help="rates by their ratio to packed_gflops")
    options = parser.parse_args()
    packaged = load("cpu")
    if options.ratios:
        found, source = ratios(options.rounds), packaged["source"]
    else:
        rounds = [measure() for _ in range(options.rounds)]
        found = {name: (min if name.endswith("_ns") else max)(r[name] for r in rounds) for name in rounds[0]}
        source = "tests/tools/fit_cpu.py on a host of 2 cores with AVX-512, 2 threads"
    print(json.dumps(found))
    if options.write:
        machine = {**packaged["machine"], **found}
        write_weights("cpu", {**packaged, "source": source, "date": date_of(), "machine": machine})


if __name__ == "__main__":
    main()
