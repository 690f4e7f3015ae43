"""Memory and time of many sizes of one model: an encoder of BERT's kind as an ONNX file of open sizes, run at
twenty of them, each runtime in a process of its own.

    python tests/bench/bench_sizes.py [--layers 6] [--sizes 20] [--buckets]

A JSON line each: megabytes resident after the imports and as further growth after the first and the last
size, CPU seconds of the first size and of each new one (median), of a size met before (least), and the most
that outputs differ from those of ONNX Runtime, where that is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

VOCABULARY, WIDTH, HEADS, LONGEST = 30522, 384, 12, 512


class Encoder:
    """Nodes and weights of ids [b, s], mask [b, s] -> hidden states [b, s, WIDTH]."""

    def __init__(self, layers: int):
        self.nodes: list[Any] = []
        self.weights: dict[str, np.ndarray] = {}
        self.rng = np.random.default_rng(0)
        shape = self.op("Shape", "ids", start=1, end=2)
        table = self.op("Slice", self.weight(LONGEST, WIDTH), self.whole(0), shape)
        x = self.op("Add", self.op("Gather", self.weight(VOCABULARY, WIDTH), "ids"), table)
        x = self.norm(x)
        shown = self.op("Unsqueeze", self.op("Cast", "mask", to=1), self.whole(1, 2))
        far = self.op("Mul", self.op("Sub", self.number(1), shown), self.number(-1e4))
        for _ in range(layers):
            x = self.norm(self.op("Add", x, self.attention(x, far)))
            y = self.dense(self.op("Gelu", self.dense(x, 4 * WIDTH)), WIDTH, 4 * WIDTH)
            x = self.norm(self.op("Add", x, y))
        self.op("Identity", x, made="hidden")

    def op(self, kind: str, *inputs: str, made: str = "", **attributes: Any) -> str:
        from onnx import helper

        made = made or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [made], **attributes))
        return made

    def hold(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = array
        return name

    def weight(self, *shape: int) -> str:
        return self.hold(self.rng.standard_normal(shape).astype(np.float32) * np.float32(0.05))

    def whole(self, *numbers: int) -> str:
        return self.hold(np.array(numbers, np.int64))

    def number(self, value: float) -> str:
        return self.hold(np.array(value, np.float32))

    def norm(self, x: str) -> str:
        return self.op("LayerNormalization", x, self.hold(np.ones(WIDTH, np.float32)), self.weight(WIDTH))

    def dense(self, x: str, out: int, width: int = WIDTH) -> str:
        return self.op("Add", self.op("MatMul", x, self.weight(width, out)), self.weight(out))

    def attention(self, x: str, far: str) -> str:
        heads = self.whole(0, 0, HEADS, WIDTH // HEADS)
        q, k, v = (
            self.op("Transpose", self.op("Reshape", self.dense(x, WIDTH), heads), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = self.op("Mul", self.op("MatMul", q, k), self.number((WIDTH / HEADS) ** -0.5))
        seen = self.op("MatMul", self.op("Softmax", self.op("Add", scores, far)), v)
        joined = self.op("Reshape", self.op("Transpose", seen, perm=[0, 2, 1, 3]), self.whole(0, 0, WIDTH))
        return self.dense(joined, WIDTH)

    def write(self, path: Path) -> None:
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        whole = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"]) for n in ("ids", "mask")]
        hidden = [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["b", "s", WIDTH])]
        held = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "encoder", whole, hidden, held)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def ours(path: str, buckets: bool) -> tuple[Callable[[dict[str, np.ndarray]], np.ndarray], Callable[[], Any]]:
    import graph_runtime as gr

    dims = {"b": (1, 4), "s": (32, 128)} if buckets else {}
    module = gr.create(path, dims=dims, threads=1)

    def run(feed: dict[str, np.ndarray]) -> np.ndarray:
        module.run(**feed)
        return module.get_output(0).numpy()

    return run, module.stats


def theirs(path: str) -> tuple[Callable[[dict[str, np.ndarray]], np.ndarray], Callable[[], Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    return lambda feed: session.run(None, feed)[0], lambda: None


def measure(path: str, runtime: str, count: int, out: Path) -> dict[str, Any]:
    """In a process of its own. Outputs of all sizes go to ``out``."""
    rng, before = np.random.default_rng(1), megabytes()
    start = time.process_time()
    run, stats = theirs(path) if runtime == "onnxruntime" else ours(path, runtime == "buckets")
    seconds, found, first = [], [], 0.0
    feeds = []
    for i in range(count):
        shape = (1 + i % 4, 5 + 6 * i)
        feeds.append({"ids": rng.integers(0, VOCABULARY, shape), "mask": np.ones(shape, np.int64)})
        found.append(np.array(run(feeds[-1])))
        seconds.append(time.process_time() - start)
        first = first or megabytes() - before
        start = time.process_time()
    last, again = megabytes() - before, []
    for _ in range(5):
        start = time.process_time()
        run(feeds[-1])
        again.append(time.process_time() - start)
    np.savez(out, *found)
    line = {"first_mb": first, "last_mb": last, "first_s": seconds[0], "again_s": min(again)}
    line = {name: round(value, 4) for name, value in line.items()}
    return line | {"new_size_s": round(statistics.median(seconds[1:]), 4), "stats": stats()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--sizes", type=int, default=20)
    parser.add_argument("--buckets", action="store_true", help="also with buckets of both dimensions")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        path, runtime, out = asked.child
        print(json.dumps(measure(path, runtime, asked.sizes, Path(out))))
        return
    print(json.dumps({"bench": "sizes", **machine("onnxruntime")}), flush=True)
    runtimes = [*(["onnxruntime"] if find_spec("onnxruntime") else []), "graph_runtime"]
    runtimes += ["buckets"] if asked.buckets else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.onnx"
        Encoder(asked.layers).write(path)
        wanted: list[np.ndarray] = []
        for runtime in runtimes:
            out = Path(folder) / f"{runtime}.npz"
            child = [sys.executable, __file__, "--sizes", str(asked.sizes)]
            done = subprocess.run([*child, "--child", path, runtime, out], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{runtime}: {done.stderr}")
            line = {"bench": "sizes", "runtime": runtime, "file_mb": round(path.stat().st_size / 1e6, 1)}
            line |= json.loads(done.stdout)
            made = [array for _, array in sorted(np.load(out).items(), key=lambda each: int(each[0][4:]))]
            wanted = wanted or made
            line["differs"] = float(max(np.abs(a - b).max() for a, b in zip(made, wanted, strict=True)))
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
