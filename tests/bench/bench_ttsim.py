"""Speed of the simulated matrix unit: products and convolutions on tt:0 beside our cpu float32 kernels.

    python tests/bench/bench_ttsim.py [--repeat 5] [--no-exact]

One JSON line a case: {"bench": "ttsim", "case", "arithmetic", "ms", "gflops", "cpu_ms", "ratio"}. ``ratio``
is the tt time by the cpu time of the same run of this script (fast with no word named: at most 2). Times are
the least of the repeats; inputs stay on the device.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

import graph_runtime as gr

FAST = {
    "": {},
    "LoFi": {"fidelity": "LoFi"},
    "HiFi2": {"fidelity": "HiFi2"},
    "HiFi3": {"fidelity": "HiFi3"},
    "HiFi4": {"fidelity": "HiFi4"},
    "HiFi2 bf16 Dst": {"fidelity": "HiFi2", "dst": "bf16"},
    "HiFi4 bf16 Dst": {"fidelity": "HiFi4", "dst": "bf16"},
}
EXACT = {"exact HiFi4": {"numerics": "exact"}, "exact LoFi": {"numerics": "exact", "fidelity": "LoFi"}}
CASES = {
    "matmul 1024": ("matmul", [(1024, 1024), (1024, 1024)], {}),
    "conv 3x3 64x56x56": ("conv2d", [(1, 64, 56, 56), (64, 64, 3, 3)], {"pads": (1, 1, 1, 1)}),
}
SMALL = {"matmul 128": ("matmul", [(128, 128), (128, 128)], {})}


def seconds(case, device: str, repeat: int, fmt: str | None = None, numerics: dict | None = None) -> float:
    """Least time of one run of a graph of one op."""
    op, shapes, attrs = case
    builder = gr.GraphBuilder()
    inputs = [builder.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    builder.output(builder.op(op, *inputs, **attrs))
    kind = device.partition(":")[0]
    module = gr.create(
        builder,
        None,
        device,
        formats={kind: fmt} if fmt else None,
        numerics={kind: numerics} if numerics else None,
    )
    rng = np.random.default_rng(0)
    for i, shape in enumerate(shapes):
        module.set_input(f"x{i}", rng.standard_normal(shape).astype(np.float32))
    return module.benchmark(repeat=repeat, number=1).min


def report(name: str, case, arithmetic: dict[str, dict], repeat: int, fmt: str = "bf16") -> None:
    op, shapes, _ = case
    flops = (
        2 * shapes[0][0] * shapes[0][1] * shapes[1][1]
        if op == "matmul"
        else 2 * np.prod(shapes[1]) * shapes[0][2] * shapes[0][3]
    )
    cpu = seconds(case, "cpu:0", repeat)
    for word, numerics in arithmetic.items():
        tt = seconds(case, "tt:0", repeat, fmt, numerics)
        print(
            json.dumps(
                {
                    "bench": "ttsim",
                    "case": f"{name} {fmt}",
                    "arithmetic": word or "default",
                    "ms": round(tt * 1e3, 3),
                    "gflops": round(float(flops) / tt * 1e-9, 2),
                    "cpu_ms": round(cpu * 1e3, 3),
                    "ratio": round(tt / cpu, 2),
                }
            ),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--no-exact", action="store_true")
    options = parser.parse_args()
    for name, case in CASES.items():
        report(name, case, FAST, options.repeat)
        for fmt in ("bfp8_b", "f32"):
            report(name, case, {"": {}}, options.repeat, fmt)
    if not options.no_exact:
        for name, case in SMALL.items():
            report(name, case, EXACT, options.repeat)


if __name__ == "__main__":
    main()
