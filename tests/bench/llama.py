"""A decoder with the shape of Llama 3 8B as an ONNX file whose weights are absent: what an estimate needs.

    python tests/bench/llama.py llama.onnx
    graph-runtime estimate llama.onnx --board n150,p150 --dtype bfp8_b --batch 32

One step of decoding: 32 layers, 4096 wide, 32 heads of 128 that share 8 heads of keys and values, a
feed-forward of 14336, 128256 words, and caches of ``past`` positions for an open batch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx
from onnx import TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Net:
    """Nodes and weights of a model that is being written."""

    def __init__(self, data: str):
        self.nodes, self.weights, self.data, self.offset = [], [], data, 0

    def weight(self, name: str, *shape: int) -> str:
        """A weight in the external file, which is never written."""
        tensor = TensorProto(name=name, data_type=FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        length = 4
        for size in shape:
            length *= size
        for key, value in (("location", self.data), ("offset", self.offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.offset += length
        self.weights.append(tensor)
        return name

    def ints(self, name: str, *values: int) -> str:
        self.weights.append(helper.make_tensor(name, INT64, [len(values)], values))
        return name

    def scalar(self, name: str, value: float) -> str:
        self.weights.append(helper.make_tensor(name, FLOAT, [], [value]))
        return name

    def op(self, op: str, out: str, *inputs: str, **attrs) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=out, **attrs))
        return out


def rms_norm(net: Net, out: str, x: str, width: int) -> str:
    square = net.op("Mul", f"{out}.square", x, x)
    mean = net.op("ReduceMean", f"{out}.mean", square, axes=[-1], keepdims=1)
    root = net.op("Sqrt", f"{out}.root", net.op("Add", f"{out}.shifted", mean, "eps"))
    return net.op("Mul", out, net.op("Div", f"{out}.scaled", x, root), net.weight(f"{out}.weight", width))


def linear(net: Net, out: str, x: str, k: int, n: int) -> str:
    return net.op("MatMul", out, x, net.weight(f"{out}.weight", k, n))


def rotate(net: Net, out: str, x: str) -> str:
    """x * cos + (-second half, first half) * sin"""
    halves = [f"{out}.a", f"{out}.b"]
    net.nodes.append(helper.make_node("Split", [x, "halves"], halves, name=f"{out}.split", axis=3))
    turned = net.op("Concat", f"{out}.turned", net.op("Neg", f"{out}.neg", halves[1]), halves[0], axis=3)
    straight = net.op("Mul", f"{out}.cos", x, "cos")
    return net.op("Add", out, straight, net.op("Mul", f"{out}.sin", turned, "sin"))


def attention(net: Net, p: str, x: str, width: int, heads: int, groups: int, size: int) -> str:
    """Grouped-query attention of one position over a cache: [B, groups, past, size] for keys and values."""
    q = linear(net, f"{p}.q", x, width, heads * size)
    k, v = (linear(net, f"{p}.{name}", x, width, groups * size) for name in "kv")
    q = rotate(net, f"{p}.q_rope", net.op("Reshape", f"{p}.q_heads", q, "per_group_q"))
    k = rotate(net, f"{p}.k_rope", net.op("Reshape", f"{p}.k_heads", k, "per_group_kv"))
    v = net.op("Reshape", f"{p}.v_heads", v, "per_group_kv")
    keys = net.op("Concat", f"{p}.present_k", f"{p}.past_k", k, axis=2)
    values = net.op("Concat", f"{p}.present_v", f"{p}.past_v", v, axis=2)
    scores = net.op("MatMul", f"{p}.scores", q, net.op("Transpose", f"{p}.keys_t", keys, perm=[0, 1, 3, 2]))
    weights = net.op("Softmax", f"{p}.weights", net.op("Mul", f"{p}.scaled", scores, "scale"), axis=-1)
    mixed = net.op("Reshape", f"{p}.mixed", net.op("MatMul", f"{p}.heads", weights, values), "flat")
    return linear(net, f"{p}.o", mixed, heads * size, width)


def feed_forward(net: Net, p: str, x: str, width: int, hidden: int) -> str:
    gate = linear(net, f"{p}.gate", x, width, hidden)
    silu = net.op("Mul", f"{p}.silu", gate, net.op("Sigmoid", f"{p}.sigmoid", gate))
    gated = net.op("Mul", f"{p}.gated", silu, linear(net, f"{p}.up", x, width, hidden))
    return linear(net, f"{p}.down", gated, hidden, width)


def _cache(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, ["batch", *shape])


def decoder(
    layers: int = 32,
    width: int = 4096,
    heads: int = 32,
    groups: int = 8,
    hidden: int = 14336,
    words: int = 128256,
    past: int = 2048,
    data: str = "llama.data",
) -> onnx.ModelProto:
    """The model; its weights are said to be in the file ``data``, which need not exist."""
    net, size = Net(data), width // heads
    net.scalar("eps", 1e-5)
    net.scalar("scale", size**-0.5)
    net.ints("per_group_q", -1, groups, heads // groups, size)
    net.ints("per_group_kv", -1, groups, 1, size)
    net.ints("flat", -1, 1, width)
    net.ints("halves", size // 2, size // 2)
    x = net.op("Gather", "embedded", net.weight("embedding.weight", words, width), "token")
    inputs = [
        helper.make_tensor_value_info("token", INT64, ["batch", 1]),
        *(helper.make_tensor_value_info(name, FLOAT, [1, 1, 1, size]) for name in ("cos", "sin")),
    ]
    outputs = [helper.make_tensor_value_info("logits", FLOAT, ["batch", 1, words])]
    for i in range(layers):
        p = f"layer{i}"
        mixed = attention(net, p, rms_norm(net, f"{p}.norm1", x, width), width, heads, groups, size)
        x = net.op("Add", f"{p}.residual1", x, mixed)
        x = net.op(
            "Add",
            f"{p}.residual2",
            x,
            feed_forward(net, p, rms_norm(net, f"{p}.norm2", x, width), width, hidden),
        )
        inputs += [_cache(f"{p}.past_{k}", groups, past, size) for k in "kv"]
        outputs += [_cache(f"{p}.present_{k}", groups, past + 1, size) for k in "kv"]
    linear(net, "logits", rms_norm(net, "norm", x, width), width, words)
    graph = helper.make_graph(net.nodes, "llama", inputs, outputs, net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--past", type=int, default=2048)
    options = parser.parse_args()
    onnx.save(decoder(layers=options.layers, past=options.past), options.output)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
