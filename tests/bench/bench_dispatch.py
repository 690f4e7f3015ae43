"""What one node of run() costs, as JSON lines: chains and diamonds of tiny adds, a bare C loop beside.

    python tests/bench/bench_dispatch.py [--sizes 100,1000,10000] [--rounds 15] [--no-peers]

ns/node is GraphModule.run() from Python, all in, over the number of adds. Peers take turns with it: a C loop
over function pointers, numpy with out=, ONNX Runtime without optimisations where it is installed. Medians,
and the least, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from chains import WIDTH, adds, expected, graph_json, inputs, storage
from graph_runtime.codegen.build import build_library

import graph_runtime as gr
from graph_runtime.plan import plan

LOOP = r"""
#include <stdint.h>
typedef void (*kernel)(const float *, const float *, float *);
static void add16(const float *restrict a, const float *restrict b, float *restrict o) {
  for (int i = 0; i < 16; ++i) o[i] = a[i] + b[i];
}
kernel volatile chosen = add16;
void loop(float **args, int64_t n) {
  kernel f = chosen;
  for (int64_t i = 0; i < n; ++i) f(args[3 * i], args[3 * i + 1], args[3 * i + 2]);
}
"""


def c_loop(kind: str, count: int, folder: Path) -> Callable[[], object]:
    """The floor: an indirect call per node over a table of pointers."""
    (folder / "loop.c").write_text(LOOP)
    subprocess.run(
        ["cc", "-O3", "-march=x86-64-v3", "-shared", "-fPIC", folder / "loop.c", "-o", folder / "loop.so"],
        check=True,
    )
    loop = ctypes.CDLL(str(folder / "loop.so")).loop
    loop.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    names, rows = list(inputs(kind)), adds(kind, count)
    sid = storage(rows, names)
    buffers = gr.aligned_empty((max(sid.values()) + 1, WIDTH))
    buffers[...] = 0
    first, stride = buffers.ctypes.data, buffers.strides[0]
    table = np.array(
        [[first + stride * sid[value] for value in (left, right, out)] for out, left, right in rows],
        np.uint64,
    )
    address = table.ctypes.data

    def run() -> object:
        loop(address, count)
        return table, buffers  # both are kept alive by this closure

    return run


def numpy_loop(kind: str, count: int) -> Callable[[], object]:
    names, rows = list(inputs(kind)), adds(kind, count)
    sid = storage(rows, names)
    buffers = [np.zeros(WIDTH, np.float32) for _ in range(max(sid.values()) + 1)]
    calls = [(buffers[sid[left]], buffers[sid[right]], buffers[sid[out]]) for out, left, right in rows]

    def run() -> None:
        add = np.add
        for left, right, out in calls:
            add(left, right, out)

    return run


def onnxruntime(kind: str, count: int) -> Callable[[], object] | None:
    """ONNX Runtime, optimisations off, one thread; None where it or onnx is not installed."""
    try:
        import onnxruntime as ort
        from onnx import TensorProto, helper
    except ImportError:
        return None
    rows, values = adds(kind, count), inputs(kind)
    info = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH])
        for name in [*values, rows[-1][0]]
    }
    calls = [helper.make_node("Add", [left, right], [out]) for out, left, right in rows]
    graph = helper.make_graph(calls, "g", [info[name] for name in values], [info[rows[-1][0]]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, values)


def ours(kind: str, count: int, folder: Path, device: str = "cpu:0") -> Callable[[], object]:
    text = graph_json(kind, count)
    library = None
    if device == "cpu:0":
        library = build_library([plan(gr.load_graph(text), [device])], folder / "adds.so")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # null:0 replaces the cpu that the graph asks for
        module = gr.create(text, library, device)
    module.run(**inputs(kind))
    if device == "cpu:0":
        np.testing.assert_array_equal(module.get_output(0).numpy(), expected(kind, count))
    return module.run


def race(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each, in turn; each turn repeats for about 20 ms."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            calls = max(1, int(0.02 / max(time.perf_counter() - start, 1e-7)))
            start = time.perf_counter()
            for _ in range(calls):
                run()
            if turn:
                times[name].append((time.perf_counter() - start) / calls)
    return times


def report(times: dict[str, list[float]], scale: float) -> dict[str, dict[str, float]]:
    """{"median": {name: value}, "least": ...}, seconds multiplied by scale."""
    return {
        what: {name: round(choose(seconds) * scale, 2) for name, seconds in times.items()}
        for what, choose in (("median", statistics.median), ("least", min))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-peers", action="store_true", help="only the C loop beside")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one = race(
            {"graph_runtime": ours("chain", 1, folder), "null_device": ours("chain", 1, folder, "null:0")},
            options.rounds,
        )
        print(json.dumps({"bench": "run of one node", "ns": report(one, 1e9)}), flush=True)
        for kind in ("chain", "diamond"):
            for count in map(int, options.sizes.split(",")):
                runs = {
                    "graph_runtime": ours(kind, count, folder),
                    "c_loop": c_loop(kind, count, folder),
                    "null_device": ours(kind, count, folder, "null:0"),
                }
                if not options.no_peers:
                    peers = {"numpy_loop": numpy_loop(kind, count), "onnxruntime": onnxruntime(kind, count)}
                    runs |= {peer: run for peer, run in peers.items() if run is not None}
                times = race(runs, options.rounds)
                print(
                    json.dumps(
                        {
                            "bench": "dispatch",
                            "graph": kind,
                            "nodes": count,
                            "ns_per_node": report(times, 1e9 / count),
                        }
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
