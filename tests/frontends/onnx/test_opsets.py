"""Ops as older opsets have them, and what the backend test suite leaves out, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 3, 4, 6)).astype(np.float32)
FOUR = {n: RNG.random(3).astype(np.float32) + 0.5 for n in "sbmv"}

# (opset, op, inputs after x, attributes)
CASES = [
    (7, "Add", {"w": X[:, :, :1]}, {}),
    (7, "Gemm", {"w": X[0, 0].T.copy(), "c": X[0, 0, :, :4]}, {"alpha": 0.5}),
    (7, "BatchNormalization", FOUR, {"epsilon": 1e-3}),
    (7, "Upsample", {}, {"scales": [1.0, 1.0, 2.0, 1.5]}),
    (7, "Softmax", {}, {"axis": 2}),
    (7, "LogSoftmax", {}, {}),
    (7, "Hardmax", {}, {"axis": 3}),
    (7, "Dropout", {}, {"ratio": 0.3}),
    (7, "Pad", {}, {"pads": [0, 1, 2, 0, 0, 0, 1, 3], "value": 1.5}),
    (7, "Slice", {}, {"starts": [1, -3], "ends": [9, -1], "axes": [1, 3]}),
    (7, "Clip", {}, {"min": -0.5}),
    (7, "ReduceSum", {}, {"axes": [-1, 1], "keepdims": 0}),
    (7, "ReduceMax", {}, {"axes": [0]}),
    (7, "AveragePool", {}, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    (7, "GlobalLpPool", {}, {"p": 3}),
    (7, "LRN", {}, {"size": 3}),
    (7, "Unsqueeze", {}, {"axes": [0, 3]}),
    (7, "Flatten", {}, {"axis": 2}),
    (7, "Tile", {"w": np.array([1, 2, 1, 3])}, {}),
    (7, "MeanVarianceNormalization", {}, {}),
    (8, "MaxPool", {}, {"kernel_shape": [2, 2], "strides": [2, 1]}),
    (8, "Expand", {"w": np.array([5, 1, 3, 1, 6])}, {}),
    (8, "Sum", {"w": X[0], "c": X[0, 0]}, {}),
    (9, "Upsample", {"w": np.array([1, 1, 3, 2], np.float32)}, {"mode": "nearest"}),
    (9, "Shrink", {}, {"bias": 0.2, "lambd": 0.7}),
    (9, "EyeLike", None, {"k": 1}),
    (10, "Resize", {"w": np.array([1, 1, 0.5, 2], np.float32)}, {"mode": "nearest"}),
    (10, "Resize", {"w": np.array([1, 1, 2, 1.5], np.float32)}, {"mode": "linear"}),
    (10, "Slice", {"a": np.array([3]), "b": np.array([-9]), "c": np.array([2]), "d": np.array([-2])}, {}),
    (
        11,
        "Resize",
        {"roi": np.zeros(0, np.float32), "w": np.array([1, 1, 2.6, 0.7], np.float32)},
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "tf_half_pixel_for_nn",
            "nearest_mode": "floor",
        },
    ),
    (11, "Clip", {"a": np.array(-1, np.float32), "b": np.array(1, np.float32)}, {}),
    (11, "DepthToSpace", None, {"blocksize": 2, "mode": "CRD"}),
    (11, "CumSum", {"w": np.array(2)}, {}),
    (11, "Unsqueeze", {}, {"axes": [-1]}),
    (12, "ReduceMin", {}, {"keepdims": 0}),
    (12, "Pow", {"w": np.array(2, np.int64)}, {}),
    (13, "Squeeze", None, {}),
    (13, "ReduceSum", {"w": np.array([1])}, {"keepdims": 0}),
    (16, "PRelu", {"w": X[0, :, :1, :1]}, {}),
    (17, "LayerNormalization", {"w": X[0, 0], "c": X[0, 1]}, {"axis": 2}),
    (18, "ReduceL2", {}, {}),
    (18, "Split", {}, {"axis": 3, "num_outputs": 3}),
    (20, "Gelu", {}, {"approximate": "tanh"}),
    (18, "Pad", {"w": np.array([1, 1]), "c": np.array(2, np.float32), "d": np.array([3])}, {}),
]
OTHER_INPUT = {
    "EyeLike": X[0, 0],
    "DepthToSpace": X.reshape(2, 12, 2, 3),
    "Squeeze": X[:1, :1],
    "Gemm": X[0, 0],
}


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[1]}-{c[0]}")
def test_ops_agree_with_onnxruntime(kit, case):
    opset, op, weights, attrs = case
    x, weights = OTHER_INPUT.get(op, X), weights or {}
    outputs = ["y", "y1", "y2"] if op == "Split" else ["y"]
    proto = kit.make([(op, ["x", *weights], outputs, attrs)], {"x": x.shape}, outputs, weights, opset=opset)
    proto.ir_version = 8
    for info in proto.graph.output:
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    for found, wanted in zip(kit.run(kit.load(proto), {"x": x}), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
