"""Runs a second of one module by several threads, as JSON lines: create(concurrent=N), beside one thread.

    python tests/bench/bench_concurrent.py [--concurrent 4] [--threads 1] [--rows 64] [--size 512]

``ratio``: runs a second of all threads over those of one, best of ``repeat`` rounds in turn; ``core_ratio``:
the same of processor time a run, which other work on the machine moves less; ``cores``: that all threads had.
Each value is compared with that of one thread, to the bit. ``onnxruntime``: InferenceSession.run the same.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from machine import machine

import graph_runtime as gr
import graph_runtime.compat.onnxruntime as ort

LAYERS, RUNS = 8, 40


def network(rows: int, size: int) -> gr.GraphBuilder:
    rng = np.random.default_rng(0)
    builder = gr.GraphBuilder()
    x = builder.input("x", (rows, size))
    for at in range(LAYERS):
        w = builder.param(f"w{at}", rng.standard_normal((size, size)).astype(np.float32) / size**0.5)
        x = builder.op("tanh", builder.op("matmul", x, w))
    builder.output(x)
    return builder


def onnx_network(rows: int, size: int) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    rng, nodes, weights, x = np.random.default_rng(0), [], [], "x"
    for at in range(LAYERS):
        w = rng.standard_normal((size, size)).astype(np.float32) / size**0.5
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{at}"))
        nodes += [
            helper.make_node("MatMul", [x, f"w{at}"], [f"m{at}"]),
            helper.make_node("Tanh", [f"m{at}"], [f"t{at}"]),
        ]
        x = f"t{at}"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "layers", ports[:1], ports[1:], weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    ).SerializeToString()


def timed(
    run: Callable[[np.ndarray], np.ndarray], values: list[np.ndarray], wanted: list[bytes], count: int
) -> tuple[float, float]:
    """(seconds, processor seconds) of a run, by ``count`` threads."""
    differs = []

    def work(number: int) -> None:
        for i in range(RUNS):
            at = (i + number) % len(values)
            if run(values[at]).tobytes() != wanted[at]:
                differs.append(at)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    begin, used = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    assert not differs, f"{len(differs)} runs have other bits than one thread's"
    return seconds / RUNS / count, used / RUNS / count


def by_module(module: gr.GraphModule, value: np.ndarray) -> np.ndarray:
    module.run(x=value)
    return module.get_output(0).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--concurrent", type=int, default=4)
    parser.add_argument(
        "--threads", type=int, default=1, help="of the pool that loops of a run are spread over"
    )
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    graph, words = network(options.rows, options.size), {"threads": options.threads}
    one = partial(by_module, gr.create(graph, **words))
    many = partial(by_module, gr.create(graph, concurrent=options.concurrent, **words))
    session = ort.InferenceSession(onnx_network(options.rows, options.size))
    rng = np.random.default_rng(1)
    values = [rng.standard_normal((options.rows, options.size)).astype(np.float32) for _ in range(4)]
    cases = {"create": (one, many)}
    cases["onnxruntime"] = (lambda value: session.run(None, {"x": value})[0],) * 2
    for name, (alone, together) in cases.items():
        wanted = [alone(value).tobytes() for value in values]
        timed(together, values, wanted, options.concurrent)  # all sessions are there, and warm
        rounds = [
            (timed(alone, values, wanted, 1), timed(together, values, wanted, options.concurrent))
            for _ in range(options.repeat)
        ]
        (wall, used), (walls, useds) = (
            tuple(map(min, zip(*side, strict=True))) for side in zip(*rounds, strict=True)
        )
        line = {"bench": "concurrent", "case": name, **vars(options), "ms": round(wall * 1e3, 3)}
        line |= {"ratio": round(wall / walls, 2), "core_ratio": round(used / useds, 2)}
        line |= {"cores": round(max(b[1] / b[0] for _, b in rounds), 2)}
        print(json.dumps({**line, "machine": machine("numpy")}), flush=True)


if __name__ == "__main__":
    main()
