"""Nodes that few files have, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(11)


def _f(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


HEADS = {n: _f(1, 2, 4, 8) for n in "qkv"}
HALVES = {n: a.astype(np.float16) for n, a in HEADS.items()}
LOW = np.where(np.tril(np.ones((4, 4))) > 0, 0, np.finfo(np.float32).min)
PAIR = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}
VOLUME = {"x": _f(1, 4, 3, 2, 3), "w": _f(4, 3, 2, 3, 2), "b": _f(6)}
UNEVEN = {"dilations": [2, 1, 3], "strides": [1, 2, 2], "pads": [1, 0, 3, 0, 1, 0]}
EACH = {"x": _f(2, 3, 4)} | {n: RNG.random((3, 4)).astype(np.float32) + 0.5 for n in "sbmv"}

# name: (opset, op, inputs, attributes, outputs)
CASES = {
    "a window larger than the image": (12, "MaxPool", {"x": _f(1, 2, 1, 3)}, PAIR, 1),
    "its places": (12, "MaxPool", {"x": _f(1, 2, 1, 3)}, PAIR, 2),
    "its mean": (19, "AveragePool", {"x": _f(1, 2, 1, 3)}, PAIR, 1),
    "its mean of padding": (19, "AveragePool", {"x": _f(1, 2, 1, 3)}, PAIR | {"count_include_pad": 1}, 1),
    "a padded one": (12, "MaxPool", {"x": _f(1, 2, 1, 3)}, PAIR | {"pads": [0, 1, 0, 1]}, 1),
    "one dimension": (
        12,
        "MaxPool",
        {"x": _f(1, 2, 2)},
        {"kernel_shape": [4], "strides": [3], "ceil_mode": 1},
        1,
    ),
    "three dimensions": (
        12,
        "MaxPool",
        {"x": _f(1, 2, 1, 3, 2)},
        {"kernel_shape": [2, 2, 3], "strides": [2, 2, 2], "ceil_mode": 1},
        1,
    ),
    "holes": (
        12,
        "MaxPool",
        {"x": _f(1, 2, 4, 3)},
        {"kernel_shape": [3, 2], "strides": [3, 3], "dilations": [2, 2], "ceil_mode": 1},
        1,
    ),
    "a mask of halves": (23, "Attention", HEADS | {"m": _f(4, 4, dtype=np.float16)}, {}, 1),
    "a mask of doubles": (23, "Attention", HEADS | {"m": _f(4, 4, dtype=np.float64)}, {"is_causal": 1}, 1),
    "a mask of integers": (23, "Attention", HEADS | {"m": np.tril(np.ones((4, 4), np.int64))}, {}, 1),
    "a wider mask": (23, "Attention", HALVES | {"m": _f(4, 4)}, {"softcap": 5.0}, 1),
    "a low wider mask": (23, "Attention", HALVES | {"m": LOW.astype(np.float32)}, {}, 1),
    "groups of volumes": (11, "ConvTranspose", VOLUME, {"group": 2}, 1),
    "dilated volumes": (11, "ConvTranspose", VOLUME | {"b": _f(3)}, UNEVEN, 1),
    "both": (11, "ConvTranspose", VOLUME, UNEVEN | {"group": 2, "output_padding": [0, 1, 1]}, 1),
    "statistics of each element": (7, "BatchNormalization", EACH, {"spatial": 0, "epsilon": 1e-3}, 1),
}


def _peer(proto, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    data = proto.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_as_onnxruntime(kit, case, constant):
    opset, op, inputs, attrs, count = CASES[case]
    code, outputs = onnx.helper.np_dtype_to_tensor_dtype, [f"y{i}" for i in range(count)]
    feeds = {n: a for n, a in inputs.items() if not constant or n in "xq"}
    weights = {n: a for n, a in inputs.items() if n not in feeds}
    given = {n: (code(a.dtype), a.shape) for n, a in feeds.items()}
    proto = kit.make([(op, list(inputs), outputs, attrs)], given, outputs, weights, opset=opset)
    first = next(iter(inputs.values()))
    for info, kind in zip(proto.graph.output, (code(first.dtype), kit.INT64), strict=False):
        info.type.tensor_type.elem_type = kind
    bound = 4e-3 if first.dtype == np.float16 else 2e-5
    for found, wanted in zip(kit.run(kit.load(proto), feeds), _peer(proto, feeds), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)
