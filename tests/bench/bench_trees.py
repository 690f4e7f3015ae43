"""Ensembles of trees beside ONNX Runtime: forests and boosters of random trees, rows of several batches.

python tests/bench/bench_trees.py  ->  a JSON line each: us, least of several in turn
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import graph_runtime as gr

REPEATS = 9
FEATURES = 20


def forest(trees: int, depth: int, classes: int, seed: int = 0) -> Any:
    """A classifier of full trees, whose leaves give every class a weight, as scikit-learn's forests
    do; of one class a regressor, as boosters are."""
    rng = np.random.default_rng(seed)
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    every = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes")}
    every |= {"truenodeids": [], "falsenodeids": []}
    given: dict[str, list[Any]] = {"treeids": [], "nodeids": [], "ids": [], "weights": []}
    for tree in range(trees):
        at = np.arange(nodes)
        leaf = at >= inner
        every["treeids"] += [tree] * nodes
        every["nodeids"] += at.tolist()
        every["featureids"] += np.where(leaf, 0, rng.integers(0, FEATURES, nodes)).tolist()
        every["values"] += np.where(leaf, 0, rng.standard_normal(nodes)).tolist()
        every["modes"] += ["LEAF" if each else "BRANCH_LEQ" for each in leaf]
        every["truenodeids"] += np.where(leaf, 0, 2 * at + 1).tolist()
        every["falsenodeids"] += np.where(leaf, 0, 2 * at + 2).tolist()
        for node in range(inner, nodes):
            given["treeids"] += [tree] * classes
            given["nodeids"] += [node] * classes
            given["ids"] += list(range(classes))
            given["weights"] += (rng.random(classes) / trees).tolist()
    kind, op = ("target", "Regressor") if classes == 1 else ("class", "Classifier")
    attrs = {f"nodes_{name}": values for name, values in every.items()}
    attrs |= {f"{kind}_{name}": values for name, values in given.items()}
    attrs |= {"n_targets": 1} if classes == 1 else {"classlabels_int64s": list(range(classes))}
    names = ["y"] if classes == 1 else ["label", "y"]
    node = helper.make_node(f"TreeEnsemble{op}", ["x"], names, domain="ai.onnx.ml", **attrs)
    made = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name == "label" else TensorProto.FLOAT, None)
        for name in names
    ]
    given_x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])
    graph = helper.make_graph([node], "trees", [given_x], made)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def seconds(call: Any, least: float = 0.02) -> float:
    """Of one call, of as many as take ``least`` seconds."""
    count = 0
    start = time.perf_counter()
    while (took := time.perf_counter() - start) < least:
        call()
        count += 1
    return took / count


def row(name: str, proto: Any, batch: int) -> None:
    x = np.random.default_rng(1).standard_normal((batch, FEATURES)).astype(np.float32)
    peer = onnxruntime.InferenceSession(proto.SerializeToString())
    module = gr.create(proto, dims={"n": batch})
    module.run(x=x)
    wanted = peer.run(None, {"x": x})[-1]
    got = module.get_output(module.get_num_outputs() - 1).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    ours, theirs = [], []
    for _ in range(REPEATS):
        ours.append(seconds(lambda: module.run(x=x)))
        theirs.append(seconds(lambda: peer.run(None, {"x": x})))
    us = {"graph_runtime": round(min(ours) * 1e6, 1), "onnxruntime": round(min(theirs) * 1e6, 1)}
    ratio = round(min(ours) / min(theirs), 2)
    print(json.dumps({"bench": "trees", "what": name, "batch": batch, "us": us, "ratio": ratio}), flush=True)


if __name__ == "__main__":
    for name, trees, depth, classes in (
        ("forest", 100, 8, 3),
        ("deep forest", 100, 12, 2),
        ("booster", 300, 6, 1),
    ):
        proto = forest(trees, depth, classes)
        for batch in (1, 10, 100, 2000):
            row(name, proto, batch)
