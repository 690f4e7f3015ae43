"""Convolutions of 3 x 3 taps at stride 1 by Winograd's tiles, tap by tap, and in ONNX Runtime, as JSON lines.

    python tests/bench/bench_winograd.py [--shapes CxOxSIZE[xGROUP],...] [--threads 1] [--repeats 30]

One convolution and its relu each, of an image of SIZE x SIZE pixels and C channels to O channels. All three
are timed in turns by the clock of the process, least of ``repeats``; what threads of a peer spin is in its
time. A line has the us, the ratio of tiles to taps and to the peer, whether the rule
(ir/ops/products/winograd.py) takes tiles, and for both of ours the root of the mean squared error against
float64, relative to the result's.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import onnx
import onnxruntime
from machine import machine
from onnx import helper, numpy_helper

import graph_runtime as gr
from graph_runtime.binding import core
from graph_runtime.ir.ops import registry
from graph_runtime.ir.ops.products.packed import pack_float_convolution
from graph_runtime.ir.ops.products.winograd import pack_winograd, winograd_pays

SHAPES = (
    "16x16x224,32x16x224,64x32x112,64x64x56,128x32x56,128x128x28,256x256x14,512x512x7,16x64x55,48x192x13,"
    "128x128x56x16,8x8x64,8x64x64,16x1x64,3x64x224,64x64x8"
)
PADS = (1, 1, 1, 1)


def ours(x, w, bias, group: int, tiles: bool):
    """A loaded module: images with channels last, weights in panels or for tiles."""
    b = gr.GraphBuilder()
    packed = (pack_winograd if tiles else pack_float_convolution)(w, group)
    y = b.op(
        "conv2d",
        b.input("x", x.shape),
        b.param("w", packed),
        b.param("b", bias),
        layout="NHWC",
        packed=len(w),
        kernel_shape=(3, 3),
        pads=PADS,
        group=group,
        winograd=tiles,
    )
    b.output(b.op("relu", y))
    module = gr.create(b, compile=False)
    module.set_input(x=x)
    return module


def theirs(x, w, bias, group: int, threads: int):
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=PADS, group=group),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "conv",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"x": x})


def compare(c: int, o: int, size: int, group: int, threads: int, repeats: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, c, size, size)).astype(np.float32)
    w = (rng.standard_normal((o, c // group, 3, 3)) / np.sqrt(9 * c / group)).astype(np.float32)
    bias = rng.standard_normal(o).astype(np.float32)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    modules = {"tiles": ours(last, w, bias, group, True), "taps": ours(last, w, bias, group, False)}
    runs = {name: module.run for name, module in modules.items()}
    runs["onnxruntime"] = theirs(x, w, bias, group, threads)
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats + 1):
        for name, run in runs.items():
            start = time.process_time()
            run()
            least[name] = min(least[name], time.process_time() - start)
    op, attrs = registry.require("conv2d"), {"pads": PADS, "group": group}
    (exact,) = op.reference([a.astype(np.float64) for a in (x, w, bias)], op.decode(attrs))
    exact = np.maximum(exact, 0).transpose(0, 2, 3, 1)
    line: dict[str, object] = {"shape": [c, o, size, group], "threads": threads}
    line |= {f"{name}_us": round(seconds * 1e6, 1) for name, seconds in least.items()}
    line |= {f"to_{name}": round(least["tiles"] / least[name], 3) for name in ("taps", "onnxruntime")}
    line["by_rule"] = winograd_pays(w.shape, (1, o, size, size), op.decode(attrs))
    for name, module in modules.items():
        error = module.get_output(0).numpy() - exact
        line[f"{name}_error"] = float(f"{np.sqrt(np.mean(error**2) / np.mean(exact**2)):.2e}")
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=30)
    given = parser.parse_args()
    core.pool_set_threads(given.threads)
    print(json.dumps({"machine": machine("numpy", "onnxruntime")}), flush=True)
    for text in given.shapes.split(","):
        c, o, size, *group = map(int, text.split("x"))
        print(json.dumps(compare(c, o, size, *(group or [1]), given.threads, given.repeats)), flush=True)


if __name__ == "__main__":
    main()
