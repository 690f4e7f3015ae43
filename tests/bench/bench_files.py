"""What an ONNX file costs until it can run, beside ONNX Runtime and IREE, as JSON lines.

    python tests/bench/bench_files.py MODEL.onnx ... [--dim NAME=SIZE ...] [--iree FOLDER] [--limit SECONDS]

Of each file: seconds to import and plan it, in a process that has loaded the package (import_plan), and CPU
seconds of that for 1,000 nodes; seconds of `graph-runtime compile` with an empty cache (compile); of ONNX
Runtime's session in a process of its own (onnxruntime); of iree-import-onnx and iree-compile for this host
(iree), whose tools are in ``--iree``, else on PATH. "_cpu" is the CPU time of the same, which other load on
the machine changes less. null: it is not there; text: why it failed. The aims, on two quiet cores: 1 s for
1,000 nodes, 15 s to compile.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare

COMPILE = "from graph_runtime.cli import main; main()"
SESSION = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1])"


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of a call and the processes that it starts."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    start, before = time.perf_counter(), used()
    call()
    return round(time.perf_counter() - start, 3), round(used() - before, 3)


def command(args: Sequence[str], limit: float, **env: str) -> tuple[float, float] | str:
    """Times of a process, or what it said last."""
    try:
        return timed(
            lambda: subprocess.run(
                args, check=True, capture_output=True, text=True, timeout=limit, env={**os.environ, **env}
            )
        )
    except subprocess.TimeoutExpired:
        return f"more than {limit:g} s"
    except subprocess.CalledProcessError as error:
        return (error.stderr.strip().splitlines() or [f"status {error.returncode}"])[-1][:200]


def iree(model: Path, folder: Path, tools: str | None, limit: float) -> tuple[float, float] | str | None:
    """Both tools after each other."""
    found = [shutil.which(name, path=tools) for name in ("iree-import-onnx", "iree-compile")]
    if None in found:
        return None
    steps = [
        [found[0], str(model), "-o", str(folder / "m.mlir")],
        [
            found[1],
            "--iree-hal-target-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host",
            str(folder / "m.mlir"),
            "-o",
            str(folder / "m.vmfb"),
        ],
    ]
    wall = cpu = 0.0
    for args in steps:
        taken = command(args, limit)
        if isinstance(taken, str):
            return taken
        wall, cpu = wall + taken[0], cpu + taken[1]
    return round(wall, 3), round(cpu, 3)


def measure(model: Path, dims: dict[str, int], tools: str | None, limit: float) -> dict[str, Any]:
    """One line."""
    nodes = len(onnx.load(model, load_external_data=False).graph.node)
    line: dict[str, Any] = {"model": model.stem, "nodes": nodes}

    def add(name: str, taken: tuple[float, float] | str | None) -> None:
        line[name] = taken if taken is None or isinstance(taken, str) else taken[0]
        if isinstance(taken, tuple):
            line[name + "_cpu"] = taken[1]

    options = gr.Options(dims=dims)
    try:
        taken = timed(lambda: prepare(gr.load_model(model, dims=dims), ["cpu:0"], options))
        line["import_plan_cpu_of_1000_nodes"] = round(1000 * taken[1] / max(nodes, 1), 3)
        add("import_plan", taken)
    except gr.GraphRuntimeError as error:
        add("import_plan", str(error)[:200])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bound = [item for key, size in dims.items() for item in ("--dim", f"{key}={size}")]
        args = [sys.executable, "-c", COMPILE, "compile", str(model), "-o", str(folder / "m.bundle"), *bound]
        add("compile", command(args, limit, GR_CACHE_DIR=str(folder / "cache")))
        add("onnxruntime", command([sys.executable, "-c", SESSION, str(model)], limit))
        add("iree", iree(model, folder, tools, limit))
    return line


def main() -> None:
    """Print a line a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--iree")
    parser.add_argument("--limit", type=float, default=300)
    args = parser.parse_args()
    dims = {name: int(size) for name, _, size in (text.rpartition("=") for text in args.dim)}
    small = onnx.helper.make_node("Relu", ["x"], ["y"])  # what is loaded once is no part of the first file
    info = [onnx.helper.make_tensor_value_info(name, 1, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([small], "g", info[:1], info[1:])
    prepare(gr.load_model(onnx.helper.make_model(graph)), ["cpu:0"])
    for model in args.models:
        print(json.dumps(measure(model, dims, args.iree, args.limit)), flush=True)


if __name__ == "__main__":
    main()
