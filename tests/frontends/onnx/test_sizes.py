"""Sizes of outputs where ONNX's node tests have no case: they are those that ONNX's shape inference says."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from graph_runtime.base.errors import GraphError  # noqa: E402


def _inferred(proto):
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    return tuple(dim.dim_value for dim in inferred.graph.output[0].type.tensor_type.shape.dim)


@pytest.mark.parametrize("how", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_never_grows_a_transposed_convolution(kit, how):
    """A kernel of 2 that moves by 3 leaves the last step short: padding below zero does not fill it."""
    weight = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    node = ("ConvTranspose", ["x", "w"], ["y"], {"auto_pad": how, "strides": [3, 1]})
    proto = kit.make([node], {"x": (1, 1, 2, 2)}, ["y"], {"w": weight})
    (y,) = kit.run(kit.load(proto), {"x": np.ones((1, 1, 2, 2), np.float32)})
    full = np.array([[1, 3, 2], [3, 7, 4], [0, 0, 0], [1, 3, 2], [3, 7, 4]], np.float32)
    assert y.shape == _inferred(proto) == (1, 1, 5, 2)
    np.testing.assert_array_equal(y[0, 0], full[:, :2] if how == "SAME_UPPER" else full[:, 1:])


@pytest.mark.parametrize("how", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_an_image_that_is_scaled_to_nothing_is_empty(kit, how):
    node = ("Resize", ["x", "", "scales"], ["y"], {"mode": "linear", "coordinate_transformation_mode": how})
    proto = kit.make([node], {"x": (1, 2, 1, 4)}, ["y"], {"scales": np.array([1, 1, 0.5, 2], np.float32)})
    (y,) = kit.run(kit.load(proto), {"x": np.ones((1, 2, 1, 4), np.float32)})
    assert y.shape == _inferred(proto) == (1, 2, 0, 8)


@pytest.mark.parametrize(
    ("dtype", "start", "limit", "delta"),
    [("int64", 2**60 + 1, 2**60 + 4, 1), ("int64", 2**60 + 4, 2**60, -3), ("float16", 0, 3000, 8)],
)
def test_ranges_are_exact(kit, dtype, start, limit, delta):
    values = {name: np.asarray(v, dtype) for name, v in (("a", start), ("b", limit), ("c", delta))}
    (y,) = kit.run(kit.load(kit.make([("Range", ["a", "b", "c"], ["y"])], {}, ["y"], values)), {})
    np.testing.assert_array_equal(y, np.array([*range(start, limit, delta)], dtype))


def _resize(scales):
    return (("Resize", ["x", "", "v"], ["y"], {"mode": "linear"}), (1, 1, 4, 4), np.array(scales, np.float32))


@pytest.mark.parametrize(
    ("node", "shape", "value"),
    [
        _resize([1, 1, 1e9, 1]),
        _resize([1, 1, -1, 1]),
        _resize([1, 1, 0, 1]),
        _resize([1, 1, np.inf, 1]),
        _resize([1, 1, np.nan, 1]),
        (("Resize", ["x", "", "", "v"], ["y"]), (1, 1, 4, 4), np.array([1, 1, 2**40, 4])),
        (
            ("Resize", ["x", "", "", "v"], ["y"], {"mode": "cubic"}),
            (1, 1, 2**20, 1),
            np.array([1, 1, 2**20 + 1, 1]),
        ),
        (("OneHot", ["x", "d", "v"], ["y"]), (4,), np.array([0, 1], np.float32)),
    ],
)
def test_sizes_that_no_image_has_are_refused_at_once(kit, node, shape, value):
    proto = kit.make([node], {"x": shape}, ["y"], {"v": value, "d": np.array(2**50)})
    with pytest.raises(GraphError, match="1 node"):  # UnsupportedOpError, or too much for so small a file
        kit.load(proto)


def test_an_attribute_that_stands_twice_is_refused(kit):
    proto = kit.make([("Softmax", ["x"], ["y"], {"axis": 0})], {"x": (2, 3)}, ["y"])
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("axis", 1))
    with pytest.raises(GraphError, match="occurs twice"):
        kit.load(proto)


def test_sizes_that_a_tool_does_not_know_are_no_name(kit):
    """Paddle's exporter writes "?" for each of them, and they differ."""
    proto = kit.make([("Relu", ["x"], ["y"])], {"x": (1, 3, 48, 192)}, ["y"])
    for dim in proto.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = "?"
    model = kit.load(proto, dims={"x.2": 4, "x.3": 5})
    x = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5) - 30
    np.testing.assert_array_equal(kit.run(model, {"x": x})[0], np.maximum(x, 0))
