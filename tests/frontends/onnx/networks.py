"""Small networks with random weights, as exporters write them: ResNet block, BERT layer, decoder step."""

from __future__ import annotations

import numpy as np


class Net:
    """Nodes, weights and inputs in the making. Each method returns the name of its result."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs = [], {}, {}

    def input(self, name, array):
        self.inputs[name] = array
        return name

    def weight(self, *shape, scale=0.3, offset=0.0):
        name = f"w{len(self.weights)}"
        self.weights[name] = (self.rng.standard_normal(shape) * scale + offset).astype(np.float32)
        return name

    def const(self, value, dtype=np.float32):
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def op(self, op, *inputs, to=None, **attrs):
        name = to or f"{op.lower()}{len(self.nodes)}"
        if op == "Cast":
            attrs = {"to": attrs["as_type"]}
        self.nodes.append((op, list(inputs), [name], attrs))
        return name

    def linear(self, x, rows, columns):
        return self.op("Add", self.op("MatMul", x, self.weight(rows, columns)), self.weight(columns))

    def norm(self, x, size):
        scale, shift = self.weight(size, offset=1.0), self.weight(size)
        return self.op("LayerNormalization", x, scale, shift, epsilon=1e-5)

    def batch_norm(self, x, channels):
        params = [self.weight(channels, offset=1.0), self.weight(channels), self.weight(channels)]
        self.weights[name := f"v{len(self.weights)}"] = self.rng.random(channels).astype(np.float32) + 0.5
        return self.op("BatchNormalization", x, *params, name)

    def gelu(self, x):
        half = self.op("Mul", x, self.const(0.5))
        grown = self.op("Add", self.op("Erf", self.op("Div", x, self.const(np.sqrt(2)))), self.const(1.0))
        return self.op("Mul", half, grown)

    def heads(self, x, batch, length, heads, size):
        shape = self.const([batch, length, heads, size], np.int64)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attend(self, q, k, v, size, bias=None):
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Div", scores, self.const(np.sqrt(size)))
        scores = scores if bias is None else self.op("Add", scores, bias)
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), v)

    def joined(self, x, batch, length, wide):
        shape = self.const([batch, length, wide], np.int64)
        return self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), shape)


def resnet_block():
    """Two convolutions with norms and a residual, then pooled to classes."""
    net = Net(1)
    x = net.input("x", net.rng.standard_normal((2, 3, 17, 17)).astype(np.float32))
    x = net.op("Conv", x, net.weight(8, 3, 7, 7), strides=[2, 2], pads=[3, 3, 3, 3])
    x = net.op(
        "MaxPool",
        net.op("Relu", net.batch_norm(x, 8)),
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    )
    y = net.op("Relu", net.batch_norm(net.op("Conv", x, net.weight(8, 8, 3, 3), pads=[1, 1, 1, 1]), 8))
    y = net.batch_norm(net.op("Conv", y, net.weight(8, 8, 3, 3), pads=[1, 1, 1, 1]), 8)
    y = net.op("GlobalAveragePool", net.op("Relu", net.op("Add", x, y)))
    net.op("Gemm", net.op("Flatten", y), net.weight(5, 8), net.weight(5), to="y", transB=1)
    return net, ["y"]


def bert_layer():
    """Embeddings, attention with a padding mask, a feed-forward network with gelu."""
    net, batch, length, wide, heads = Net(2), 2, 6, 32, 4
    ids = net.input("ids", net.rng.integers(0, 50, (batch, length)))
    mask = net.input("mask", np.array([[1] * 6, [1] * 4 + [0] * 2]))
    x = net.op("Gather", net.weight(50, wide), ids)
    x = net.norm(net.op("Add", x, net.weight(length, wide)), wide)
    seen = net.op("Cast", net.op("Unsqueeze", mask, net.const([1, 2], np.int64)), as_type=1)
    bias = net.op("Mul", net.op("Sub", net.const(1.0), seen), net.const(-10000.0))
    q, k, v = (net.heads(net.linear(x, wide, wide), batch, length, heads, wide // heads) for _ in range(3))
    mixed = net.joined(net.attend(q, k, v, wide // heads, bias), batch, length, wide)
    x = net.norm(net.op("Add", x, net.linear(mixed, wide, wide)), wide)
    inner = net.gelu(net.linear(x, wide, 2 * wide))
    x = net.norm(net.op("Add", x, net.linear(inner, 2 * wide, wide)), wide)
    net.op("Tanh", net.op("Gather", x, net.const(0, np.int64), axis=1), to="pooled")
    return net, ["pooled"]


def decoder_step():
    """One token with a cache of keys and values that grows by one."""
    net, past, wide, heads = Net(3), 5, 32, 4
    ids = net.input("ids", np.array([[7]]))
    old = [
        net.input(n, net.rng.standard_normal((1, heads, past, wide // heads)).astype(np.float32))
        for n in ("past_k", "past_v")
    ]
    table = net.weight(50, wide)
    x = net.op("Gather", table, ids)
    h = net.norm(x, wide)
    q, k, v = (net.heads(net.linear(h, wide, wide), 1, 1, heads, wide // heads) for _ in range(3))
    k = net.op("Concat", old[0], k, to="present_k", axis=2)
    v = net.op("Concat", old[1], v, to="present_v", axis=2)
    mixed = net.joined(net.attend(q, k, v, wide // heads), 1, 1, wide)
    x = net.op("Add", x, net.linear(mixed, wide, wide))
    h = net.linear(net.norm(x, wide), wide, 4 * wide)
    h = net.op("Mul", h, net.op("Sigmoid", h))
    x = net.norm(net.op("Add", x, net.linear(h, 4 * wide, wide)), wide)
    net.op("MatMul", x, net.op("Transpose", table, perm=[1, 0]), to="logits")
    return net, ["logits", "present_k", "present_v"]


NETWORKS = {f.__name__: f for f in (resnet_block, bert_layer, decoder_step)}
