"""Seconds that rewriting takes: a network of many layers as exporters write it, simplified and fused.

python tests/bench/bench_rewrite.py [--nodes 10000]    one JSON line
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

import graph_runtime as gr
from graph_runtime.ir.model import Model
from graph_runtime.rewrite import fuse, simplify

WIDTH, TOKENS, HEADS = 64, 16, 4
LAYER = 49  # nodes of a layer


class Writer(gr.GraphBuilder):
    """Layers as PyTorch exports them: activations, norms and biases written out."""

    def weight(self, *shape):
        return self.param(f"w{len(self.params)}", np.full(shape, 0.01, np.float32))

    def number(self, value):
        return self.param(f"c{len(self.params)}", np.float32(value))

    def linear(self, x, rows, columns):
        return self.op("add", self.op("matmul", x, self.weight(rows, columns)), self.weight(columns))

    def norm(self, x):
        centred = self.op("subtract", x, self.op("mean", x, axes=[-1], keepdims=True))
        variance = self.op("mean", self.op("power", centred, self.number(2)), axes=[-1], keepdims=True)
        root = self.op("sqrt", self.op("add", variance, self.number(1e-5)))
        return self.op(
            "add",
            self.op("multiply", self.op("divide", centred, root), self.weight(WIDTH)),
            self.weight(WIDTH),
        )

    def gelu(self, x):
        gate = self.op("erf", self.op("divide", x, self.number(2**0.5)))
        gate = self.op("add", gate, self.number(1))
        return self.op("multiply", self.op("multiply", x, gate), self.number(0.5))

    def heads(self, x, perm):
        return self.op("transpose", self.op("reshape", x, shape=[1, TOKENS, HEADS, -1]), perm=perm)

    def layer(self, x):
        q, k, v = (self.linear(x, WIDTH, WIDTH) for _ in range(3))
        q, k, v = self.heads(q, [0, 2, 1, 3]), self.heads(k, [0, 2, 3, 1]), self.heads(v, [0, 2, 1, 3])
        scores = self.op("divide", self.op("matmul", q, k), self.number(4))
        mixed = self.op("transpose", self.op("matmul", self.op("softmax", scores), v), perm=[0, 2, 1, 3])
        mixed = self.op("reshape", mixed, shape=[1, TOKENS, WIDTH])
        x = self.norm(self.op("add", x, self.linear(mixed, WIDTH, WIDTH)))
        inner = self.linear(self.gelu(self.linear(x, WIDTH, WIDTH)), WIDTH, WIDTH)
        return self.norm(self.op("add", x, inner))


def network(nodes: int) -> Model:
    """A transformer of at least so many nodes."""
    b = Writer()
    x = b.input("x", (1, TOKENS, WIDTH))
    for _ in range(-(-nodes // LAYER)):
        x = b.layer(x)
    b.output(x)
    return Model.from_builder(b)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    model = network(parser.parse_args().nodes)
    calls = int((model.graph.func_id >= 0).sum())
    start = time.perf_counter()
    simple = simplify(model, ["cpu:0"])
    middle = time.perf_counter()
    fused = fuse(simple, ["cpu:0"])
    end = time.perf_counter()
    left = int((fused.graph.func_id >= 0).sum())
    print(
        json.dumps(
            {
                "nodes": calls,
                "after": left,
                "notes": len(fused.notes),
                "simplify_s": round(middle - start, 3),
                "fuse_s": round(end - middle, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
