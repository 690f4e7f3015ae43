"""What a flow costs over a program of fixed sizes, and an iteration of a loop, beside ONNX Runtime.

python tests/bench/bench_flows.py  ->  a JSON line each: us, least of several
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import graph_runtime as gr

REPEATS, CALLS = 60, 100  # a few hundred us each: less than what a busy machine gives a process at once


def least(call: Callable[[], Any], calls: int = CALLS) -> float:
    """Seconds of a call, the least mean of several."""
    call()
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def value(name: str, shape: Any = None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **constants: Any) -> Any:
    init = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "bench", inputs, outputs, init)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def peer(proto: Any, feed: dict[str, np.ndarray]) -> Callable[[], Any] | None:
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return lambda: session.run(None, feed)


def row(name: str, calls: dict[str, Callable[[], Any] | None], count: int, per: int = 1) -> None:
    us = {key: round(least(call, count) * 1e6 / per, 2) for key, call in calls.items() if call}
    print(json.dumps({"bench": "flows", "what": name, "us": us}), flush=True)


def a_run() -> None:
    """One relu of 16 numbers: all but the runtime's own work is nothing."""
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 8])], [value("y", ["n", 8])])
    x = np.ones((2, 8), np.float32)
    flow, fixed = gr.create(proto), gr.create(proto, dims={"n": 2})
    row(
        "run",
        {
            "flow": lambda: flow.run(x=x),
            "fixed": lambda: fixed.run(x=x),
            "onnxruntime": peer(proto, {"x": x}),
        },
        CALLS,
    )


def an_iteration(trips: int = 1000) -> None:
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", "w"], ["a"]),
            helper.make_node("Tanh", ["a"], ["s2"]),
            helper.make_node("Identity", ["c"], ["c2"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [1, 8])],
        [value("c2", [], TensorProto.BOOL), value("s2", [1, 8])],
    )
    proto = model(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
        [value("n", [], TensorProto.INT64), value("x", [1, 8])],
        [value("y", [1, 8])],
        w=np.eye(8, dtype=np.float32),
    )
    feed = {"n": np.array(trips), "x": np.ones((1, 8), np.float32)}
    flow = gr.create(proto)
    row("iteration", {"flow": lambda: flow.run(**feed), "onnxruntime": peer(proto, feed)}, 1, trips)


if __name__ == "__main__":
    a_run()
    an_iteration()
