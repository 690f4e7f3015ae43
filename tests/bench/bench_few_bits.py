"""Products with weights of few bits (MatMulNBits) here and in ONNX Runtime, in one run, as JSON lines.

    python tests/bench/bench_few_bits.py [--rows 1,128] [--threads 1,2] [--bits 4,8] [--seconds 5]
        [--clock cpu] [--format bf16]

A model is a chain of products of the shape of a 1.1 B Llama's feed-forward part (2,048 by 5,632 and back,
blocks of 32), 185 MB of weights in 4 bits, so that they come from memory. A line has the least ms of each
runtime, GB of weights (levels and scales) a second and GFLOP/s of ours, what a plain read of memory by as
many threads gives (``read_gb_s``), our bytes a second over it, our time over ONNX Runtime's, and how far the
outputs are apart, relative to the greatest. accuracy_level 0: ONNX Runtime sums in float32; 4: it rounds rows
to 8 bits. With --format bf16 ours is told so, and ``of_bf16`` is its rate over that of such products with
weights in bf16.
Runs and the read take turns; spinning is off in ONNX Runtime. The clock is the wall's, or with --clock cpu
the processor time of all threads: what one thread takes on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from machine import machine

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
WIDTH, HIDDEN, COUNT, BLOCK = 2048, 5632, 32, 32


def chain(rows: int, bits: int, accuracy: int) -> bytes:
    """The model as an ONNX file."""
    from onnx import TensorProto, helper, numpy_helper

    rng, nodes, weights = np.random.default_rng(0), [], []
    for i in range(COUNT):
        k, n = (WIDTH, HIDDEN) if i % 2 == 0 else (HIDDEN, WIDTH)
        data = rng.integers(0, 256, (n, k // BLOCK, BLOCK * bits // 8), dtype=np.uint8)
        scales = (rng.random((n, k // BLOCK)) * 6 / (1 << bits) / k**0.5).astype(
            np.float32
        )  # x keeps its size
        weights += [numpy_helper.from_array(data, f"w{i}"), numpy_helper.from_array(scales, f"s{i}")]
        how = {"K": k, "N": n, "bits": bits, "block_size": BLOCK, "accuracy_level": accuracy}
        names = [f"x{i}", f"w{i}", f"s{i}"]
        nodes.append(helper.make_node("MatMulNBits", names, [f"x{i + 1}"], domain="com.microsoft", **how))
    ends = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [rows, WIDTH]) for i in (0, COUNT)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def floats(rows: int) -> bytes:
    """Two products of the chain with weights of float32."""
    from onnx import TensorProto, helper, numpy_helper

    rng, sizes = np.random.default_rng(0), (WIDTH, HIDDEN, WIDTH)
    weights = [
        numpy_helper.from_array((rng.standard_normal(s) / s[0] ** 0.5).astype(np.float32), f"w{i}")
        for i, s in enumerate(pairwise(sizes))
    ]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(2)]
    ends = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [rows, WIDTH]) for i in (0, 2)]
    graph = helper.make_graph(nodes, "floats", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def ours(model: bytes, x: np.ndarray, threads: int, form: str) -> Callable[[], np.ndarray]:
    import onnx

    import graph_runtime as gr

    formats = {"cpu": form} if form != "f32" else {}
    module = gr.create(onnx.load_from_string(model), devices=["cpu:0"], threads=threads, formats=formats)

    def run() -> np.ndarray:
        module.run(x0=x)
        return module.get_output(0).numpy()

    return run


def theirs(model: bytes, x: np.ndarray, threads: int) -> Callable[[], np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x0": x})[0]


def read(data: np.ndarray, threads: int) -> Callable[[], Any]:
    """A pass over ``data``, a part of it by each thread."""
    parts, pool = np.array_split(data, threads), ThreadPoolExecutor(threads)
    return parts[0].max if threads == 1 else lambda: list(pool.map(np.max, parts))


def least(runs: list[Callable[[], Any]], seconds: float, clock: Callable[[], float]) -> list[float]:
    """The least seconds of each, which take turns."""
    found, begin = [float("inf")] * len(runs), time.perf_counter()
    while time.perf_counter() - begin < seconds or float("inf") in found:
        for i, run in enumerate(runs):
            start = clock()
            run()
            found[i] = min(found[i], clock() - start)
    return found


def lines(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    facts, data = machine(), np.ones(1 << 25, np.uint32)  # 134 MB
    for bits in args.bits:
        for rows in args.rows:
            x = np.random.default_rng(1).standard_normal((rows, WIDTH)).astype(np.float32)
            for accuracy in (0, 4):
                model = chain(rows, bits, accuracy)
                for threads in args.threads:
                    runs = [ours(model, x, threads, args.format), theirs(model, x, threads)]
                    one, other = (run() for run in runs)
                    runs.append(read(data, threads))
                    if args.format == "bf16":
                        runs.append(ours(floats(rows), x, threads, args.format))
                    ms = [1e3 * s for s in least(runs, args.seconds, CLOCKS[args.clock])]
                    rate = data.nbytes / ms[2] / 1e6
                    products = COUNT * WIDTH * HIDDEN
                    gb_s = products * (bits / 8 + 4 / BLOCK) / ms[0] / 1e6
                    yield {
                        "bits": bits,
                        "rows": rows,
                        "threads": threads,
                        "accuracy_level": accuracy,
                        "ours_ms": round(ms[0], 3),
                        "onnxruntime_ms": round(ms[1], 3),
                        "ratio": round(ms[0] / ms[1], 3),
                        "gb_s": round(gb_s, 1),
                        "read_gb_s": round(rate, 1),
                        "of_read": round(gb_s / rate, 2),
                        "gflop_s": round(2 * rows * products / ms[0] / 1e6, 1),
                        **({"of_bf16": round(ms[3] * COUNT / 2 / ms[0], 3)} if len(ms) > 3 else {}),
                        "apart": float(np.abs(one - other).max() / np.abs(other).max()),
                        **facts,
                    }


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(n) for n in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=numbers, default=[1, 128])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--bits", type=numbers, default=[4, 8])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--format", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(args.threads)))
    for line in lines(args):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
