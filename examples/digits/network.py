"""Describe the digit network with GraphBuilder and write graph.json. The file has no parameter values;
params.bin has them.

    python examples/digits/network.py [FILE]        default: graph.json beside this script

The file names no devices: planning decides later where each node runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from graph_runtime import GraphBuilder

BATCH = 60


def digit_network(batch: int = BATCH) -> GraphBuilder:
    """image float32 [batch, 1, 8, 8] in 0..1 -> probabilities float32 [batch, 10]."""
    b = GraphBuilder()
    x = b.input("image", (batch, 1, 8, 8))
    for name, channels, filters in (("conv1", 1, 16), ("conv2", 16, 32)):
        weight = b.param(f"{name}.weight", (filters, channels, 3, 3))
        x = b.op("conv2d", x, weight, b.param(f"{name}.bias", (filters,)), pads=[1, 1, 1, 1], name=name)
        x = b.op("relu", x, name=f"{name}.relu")
    x = b.op("max_pool2d", x, kernel_shape=[2, 2], strides=[2, 2], name="pool")
    x = b.op("flatten", x, name="flatten")
    x = b.op("dense", x, b.param("fc1.weight", (64, 512)), b.param("fc1.bias", (64,)), name="fc1")
    x = b.op("relu", x, name="fc1.relu")
    x = b.op("dense", x, b.param("fc2.weight", (10, 64)), b.param("fc2.bias", (10,)), name="fc2")
    b.output(b.op("softmax", x, axis=-1, name="softmax"))
    return b


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("graph.json")
    target.write_text(digit_network().to_json(), encoding="utf-8")
