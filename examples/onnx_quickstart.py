"""A small convolutional network as an ONNX file, written without PyTorch, and an image for it.

    python examples/onnx_quickstart.py
    graph-runtime compile model.onnx -o model.bundle --device cpu:0 --device tt:0 --dim batch=1
    graph-runtime run model.bundle --input x=x.npy

Needs the extra onnx: pip install -e '.[onnx]'.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    fan_in = max(1, int(np.prod(shape[1:])))
    return numpy_helper.from_array((RNG.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32), name)


def network() -> onnx.ModelProto:
    """Two convolutions with relu and pooling, a fully connected layer, and softmax; the batch is open. The
    second convolution has enough work to be worth copies to another device."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], name="pool1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], name="conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], name="relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"], name="pool2"),
        helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["logits"], name="fc", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=-1),
    ]
    weights = [
        weight("w1", 32, 3, 3, 3),
        weight("b1", 32),
        weight("w2", 128, 32, 3, 3),
        weight("b2", 128),
        weight("w3", 10, 128),
        weight("b3", 10),
    ]
    graph = helper.make_graph(
        nodes,
        "quickstart",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 64, 64])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main() -> None:
    onnx.save(network(), "model.onnx")
    np.save("x.npy", RNG.standard_normal((1, 3, 64, 64)).astype(np.float32))
    print(
        "wrote model.onnx and x.npy; now\n"
        "    graph-runtime compile model.onnx -o model.bundle --device cpu:0 --device tt:0 --dim batch=1\n"
        "    graph-runtime run model.bundle --input x=x.npy"
    )


if __name__ == "__main__":
    main()
