"""Fifty runs at random sizes of each of six models, with buckets, beside ONNX Runtime. Padding is NaN."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402

INT, FLOAT = TensorProto.INT64, TensorProto.FLOAT
WIDTH, WORDS = 16, 40
RNG = np.random.default_rng(23)
BUCKETS = {"b": (1, 4), "n": (8, 24)}


class Network:
    """Nodes over x, and weights as they are asked for."""

    def __init__(self):
        self.nodes, self.weights = [], {}

    def op(self, kind, *inputs, made="", **attrs):
        made = made or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [made], **attrs))
        return made

    def hold(self, array):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def weight(self, *shape):
        return self.hold((RNG.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def model(self, inputs, outputs):
        infos = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
        made = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs]
        held = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "net", infos, made, held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def encoder():
    """Words, attention with a mask over padded ones, and the greatest of each feature."""
    net = Network()
    x = net.op("Gather", net.weight(WORDS, WIDTH), "ids")
    shown = net.op("Cast", net.op("Unsqueeze", "mask", net.hold([1])), to=FLOAT)
    far = net.op("Mul", net.op("Sub", net.hold(np.float32(1)), shown), net.hold(np.float32(-1e4)))
    q, k, v = (net.op("MatMul", x, net.weight(WIDTH, WIDTH)) for _ in range(3))
    scores = net.op("Add", net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 1])), far)
    x = net.op("Add", x, net.op("MatMul", net.op("Softmax", scores, axis=-1), v))
    net.op("LayerNormalization", x, net.weight(WIDTH), net.weight(WIDTH), made="y")
    net.op("ReduceMax", "y", axes=[1], keepdims=0, made="top")
    inputs = [("ids", INT, ["b", "n"]), ("mask", INT, ["b", "n"])]
    return net.model(inputs, [("y", FLOAT, ["b", "n", WIDTH]), ("top", FLOAT, ["b", WIDTH])])


def speech():
    """Convolutions over time, the mean and the spread of the steps."""
    net = Network()
    c = net.op("Relu", net.op("Conv", "x", net.weight(WIDTH, 8, 5), pads=[2, 2]))
    c = net.op("Sigmoid", net.op("Conv", c, net.weight(WIDTH, 1, 3), pads=[2, 0], group=WIDTH), made="y")
    mean = net.op("ReduceMean", c, axes=[2], keepdims=1)
    gap = net.op("Sub", c, mean)
    net.op("ReduceMean", net.op("Mul", gap, gap), axes=[2], keepdims=0, made="spread")
    return net.model(
        [("x", FLOAT, ["b", 8, "n"])], [("y", FLOAT, ["b", WIDTH, "n"]), ("spread", FLOAT, ["b", WIDTH])]
    )


def recurrent():
    """An LSTM of which only the batch may be padded: its steps are computed one after another."""
    net = Network()
    w, r = (
        net.hold(RNG.standard_normal((1, 4 * 8, 8)).astype(np.float32) / 4),
        net.hold(RNG.standard_normal((1, 4 * 8, 8)).astype(np.float32) / 4),
    )
    net.nodes.append(helper.make_node("LSTM", ["x", w, r], ["steps", "h", ""], hidden_size=8))
    net.op("Squeeze", "h", net.hold([0]), made="y")
    return net.model([("x", FLOAT, [6, "b", 8])], [("y", FLOAT, ["b", 8])])


def decoder():
    """One step over a cache whose length changes: an axis that is a sum."""
    net = Network()
    q, k = (net.op("MatMul", "x", net.weight(WIDTH, WIDTH)) for _ in range(2))
    net.op("Concat", "cache", k, axis=1, made="next")
    scores = net.op("MatMul", q, net.op("Transpose", "next", perm=[0, 2, 1]))
    net.op("MatMul", net.op("Softmax", scores, axis=-1), "next", made="y")
    return net.model(
        [("x", FLOAT, ["b", 1, WIDTH]), ("cache", FLOAT, ["b", "n", WIDTH])],
        [("y", FLOAT, ["b", 1, WIDTH]), ("next", FLOAT, ["b", "n + 1", WIDTH])],
    )


def ranking():
    """The best of a list, sums along it, and an index of the greatest."""
    net = Network()
    net.op("Squeeze", net.op("MatMul", "x", net.weight(8, 1)), net.hold([2]), made="scores")
    net.op("CumSum", "scores", net.hold(np.int64(1)), made="sums")
    net.op("ArgMax", "scores", axis=1, keepdims=0, made="best")
    net.op("Softmax", "scores", axis=1, made="shares")
    return net.model(
        [("x", FLOAT, ["b", "n", 8])],
        [
            ("sums", FLOAT, ["b", "n"]),
            ("best", INT, ["b"]),
            ("shares", FLOAT, ["b", "n"]),
        ],
    )


def pooled():
    """A net over rows, gelu by its parts, the mean over them, a product of rows with rows."""
    net = Network()
    x = net.op("Gemm", net.op("Reshape", "x", net.hold([-1, 8])), net.weight(8, WIDTH), net.weight(WIDTH))
    x = net.op("Mul", x, net.op("Sigmoid", net.op("Mul", x, net.hold(np.float32(1.7)))))
    shape = net.op("Concat", net.op("Shape", "x", start=0, end=2), net.hold([WIDTH]), axis=0)
    x = net.op("Reshape", x, shape)
    net.op("ReduceMean", x, axes=[1], keepdims=0, made="mean")
    net.op("MatMul", x, net.op("Transpose", x, perm=[0, 2, 1]), made="near")
    return net.model(
        [("x", FLOAT, ["b", "n", 8])], [("mean", FLOAT, ["b", WIDTH]), ("near", FLOAT, ["b", "n", "n"])]
    )


def feed(proto, sizes):
    found = {}
    for info in proto.graph.input:
        kind = info.type.tensor_type
        shape = [sizes.get(d.dim_param, d.dim_value) for d in kind.shape.dim]
        if kind.elem_type == INT:
            found[info.name] = RNG.integers(0, 2 if info.name == "mask" else WORDS, shape)
            found[info.name].reshape(-1)[0] = 1
        else:
            found[info.name] = RNG.standard_normal(shape).astype(np.float32)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("build", [encoder, speech, recurrent, decoder, ranking, pooled])
def test_fifty_random_sizes_equal_onnxruntime(build):
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = build()
    theirs = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = {d.dim_param for info in proto.graph.input for d in info.type.tensor_type.shape.dim} - {""}
    ours = gr.create(proto, dims={n: BUCKETS[n] for n in names}, compile=False)
    ours._bucketed.fill = lambda dtype: np.nan if dtype.kind == "f" else 10**6
    for _ in range(50):
        given = feed(proto, {"b": int(RNG.integers(1, 6)), "n": int(RNG.integers(1, 28))})
        ours.run(**given)
        for i, want in enumerate(theirs.run(None, given)):
            np.testing.assert_allclose(ours.get_output(i).numpy(), want, rtol=2e-4, atol=2e-5)
    done = ours.stats()
    assert done["bucket_runs"] + done["exact_runs"] == 50
    assert done["bucket_runs"] >= 25, done["reasons"]
    assert all("there is no bucket of" in reason for reason in done["reasons"].values()), done["reasons"]
