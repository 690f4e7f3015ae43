"""What compiling costs, as JSON lines.

    python tests/bench/bench_compile.py [--models DIR] [--names resnet50] [--devices cpu:0,tt:0] [--nodes N]

compile: a model to a bundle in a process of its own, with an empty cache (cold) and again (warm): seconds,
peak memory, bytes of the bundle. load: that bundle to a module, without importing. passes: a chain of many
nodes as a Model through every pass, by stage. The aims: ResNet-50 cold below 60 s and warm below 5 s on two
quiet cores, 10,000 nodes through all passes below 5 s, loading below 1 us a node.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.ir.model import Model

COMMAND = "from graph_runtime.cli import main; main()"


def compile_model(model: Path, out: Path, devices: list[str], cache: str) -> dict[str, float]:
    """Seconds and peak MiB of one graph-runtime compile."""
    args = [item for device in devices for item in ("--device", device)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", COMMAND, "compile", str(model), "-o", str(out), *args],
        check=True,
        env={**os.environ, "GR_CACHE_DIR": cache},
        stdout=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(seconds, 2),
        "peak_mib": after.ru_maxrss >> 10,
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
    }


def load_seconds(bundle: Path, repeat: int = 5) -> tuple[float, int]:
    """(median seconds of gr.load, nodes)."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        module = gr.load(bundle)
        times.append(time.perf_counter() - start)
    return statistics.median(times), module.session.graph.num_nodes


def bench_model(model: Path, devices: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "net.bundle"
        for state in ("cold", "warm"):
            row = compile_model(model, bundle, devices, f"{folder}/cache")
            size = sum(file.stat().st_size for file in bundle.iterdir())
            print(
                json.dumps(
                    {
                        "bench": "compile",
                        "model": model.stem,
                        "devices": devices,
                        "cache": state,
                        **row,
                        "bundle_mb": round(size / 1e6, 1),
                    }
                ),
                flush=True,
            )
        seconds, nodes = load_seconds(bundle)
        print(
            json.dumps(
                {
                    "bench": "load",
                    "model": model.stem,
                    "devices": devices,
                    "ms": round(seconds * 1e3, 2),
                    "nodes": nodes,
                    "us_per_node": round(seconds * 1e6 / nodes, 2),
                }
            ),
            flush=True,
        )


def chain(nodes: int) -> Model:
    """Blocks of matmul, bias, relu, a residual and elementwise tails, as a Model with constants."""
    b = gr.GraphBuilder()
    x, rng = b.input("x", (8, 64)), np.random.default_rng(0)
    w, bias = b.param("w", rng.standard_normal((64, 64)).astype("f4")), b.param("bias", np.zeros(64, "f4"))
    for _ in range(nodes // 8):
        y = b.op("relu", b.op("add", b.op("matmul", x, w), bias))
        y = b.op("tanh", b.op("multiply", y, x))
        x = b.op("softmax", b.op("add", b.op("exp", y), x))
    b.output(x)
    return Model.from_builder(b)


def bench_passes(nodes: int, devices: list[str]) -> None:
    model, marks, last = chain(nodes), {}, [time.perf_counter(), "import"]

    def tell(what: str, done: int, total: int) -> None:
        now = time.perf_counter()
        marks[last[1]] = marks.get(last[1], 0.0) + now - last[0]
        last[:] = now, what

    start = time.perf_counter()
    prepare(model, devices, tell=tell)
    tell("", 0, 0)
    print(
        json.dumps(
            {
                "bench": "passes",
                "nodes": model.graph.num_nodes,
                "devices": devices,
                "seconds": round(time.perf_counter() - start, 3),
                "stages": {name: round(value, 3) for name, value in marks.items()},
            }
        ),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, help="A folder of ONNX files.")
    parser.add_argument("--names", default="mlp,mobilenetv2,resnet50")
    parser.add_argument("--devices", default="cpu:0")
    parser.add_argument("--nodes", type=int, default=10_000)
    options = parser.parse_args()
    devices = options.devices.split(",")
    bench_passes(options.nodes, devices)
    for name in options.names.split(",") if options.models else ():
        bench_model(options.models / f"{name}.onnx", devices)


if __name__ == "__main__":
    main()
