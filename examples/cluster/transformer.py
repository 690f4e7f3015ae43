"""A transformer's encoder, cut over two nodes: its first half on one, its second half on the other.

    python examples/cluster/transformer.py        needs the extra: pip install -e '.[cluster]'

Ray starts both nodes on this machine; on two machines only the address of connect() differs
(docs/cluster.md). Eight sequences are in progress at once, so that both nodes work at the same time. Exits
with 1 if a result differs from that of a local run.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import graph_runtime as gr

LAYERS, TOKENS, WIDTH, INNER = 4, 64, 128, 512
RUNS = 32


def encoder() -> gr.GraphBuilder:
    """``LAYERS`` layers, each with attention of one head and a feed-forward part: float32 [TOKENS, WIDTH] in
    and out. The nodes of layer i are named layer<i>_..."""
    rng = np.random.default_rng(0)
    builder = gr.GraphBuilder()

    def weight(name: str, rows: int, columns: int) -> Any:
        values = rng.standard_normal((rows, columns)) / rows**0.5
        return builder.param(name, values.astype(np.float32))

    value = builder.input("tokens", (TOKENS, WIDTH))
    for i in range(LAYERS):
        name = f"layer{i}"
        q, k, v = (
            builder.op("matmul", value, weight(f"{name}_w{part}", WIDTH, WIDTH), name=f"{name}_{part}")
            for part in "qkv"
        )
        turned = builder.op("transpose", k, name=f"{name}_turned")
        scores = builder.op(
            "softmax", builder.op("matmul", q, turned, name=f"{name}_scores"), name=f"{name}_soft"
        )
        mixed = builder.op("matmul", scores, v, name=f"{name}_mixed")
        value = builder.op("add", value, mixed, name=f"{name}_attended")
        wide = builder.op("matmul", value, weight(f"{name}_up", WIDTH, INNER), name=f"{name}_wide")
        bent = builder.op("tanh", wide, name=f"{name}_bent")
        narrow = builder.op("matmul", bent, weight(f"{name}_down", INNER, WIDTH), name=f"{name}_narrow")
        value = builder.op("add", value, narrow, name=f"{name}_out")
    builder.output(value)
    return builder


def main() -> int:
    """0 if all results are right, else 1."""
    local = gr.create(encoder(), devices="cpu:0")
    rng = np.random.default_rng(1)
    sequences = [rng.standard_normal((TOKENS, WIDTH)).astype(np.float32) for _ in range(RUNS)]
    second = {f"layer{i}_*": "node1/cpu:0" for i in range(LAYERS // 2, LAYERS)}
    with gr.cluster.connect("local", nodes=2) as cluster:
        print("devices", ", ".join(cluster.devices))
        link = cluster.interconnect.link("node0", "node1")
        print(f"node0 > node1: {link.latency_ns / 1e3:.0f} us, {link.gb_per_s:.1f} GB/s")
        module = gr.create(
            encoder(), devices=["node0/cpu:0", "node1/cpu:0"], place={"*": "node0/cpu:0", **second}
        )
        start = time.perf_counter()
        runs = [module.run_async(tokens=tokens) for tokens in sequences]
        results = gr.gather([run.outputs[0] for run in runs])
        print(f"{RUNS / (time.perf_counter() - start):.0f} sequences a second, up to 8 under way")
    worst = 0.0
    for tokens, result in zip(sequences, results, strict=True):
        local.run(tokens=tokens)
        worst = max(worst, float(np.abs(result - local.get_output(0).numpy()).max()))
    print(f"largest difference to the same graph on this machine alone: {worst:.1e}")
    return int(worst > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
