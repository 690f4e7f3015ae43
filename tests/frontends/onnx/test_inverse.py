"""Inverse and Det beside numpy's, with matrices that need other rows first."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import UnsupportedOpError  # noqa: E402

_RNG = np.random.default_rng(4)


def _run(op, x, devices=("cpu:0",)):
    domain = "com.microsoft" if op == "Inverse" else ""
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [onnx.ValueInfoProto(name="y")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    module = gr.create(
        helper.make_model(graph, opset_imports=opsets, ir_version=9), devices=list(devices), compile=False
    )
    module.run(x=x)
    return module.get_output(0).numpy()


def _matrices(*shape, dtype="float64"):
    """Some of them have zeros where the first pivots would be."""
    x = _RNG.standard_normal(shape)
    x[..., 0, 0] = 0
    return x.astype(dtype)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 3, 9, 9), (33, 33)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-8), ("float32", 5e-3)])
def test_as_numpy(shape, dtype, tolerance):
    x = _matrices(*shape, dtype=dtype) if shape != (1, 1) else np.full((1, 1), 0.5, dtype)
    exact = np.linalg.inv(x.astype(np.float64))
    made = _run("Inverse", x)
    assert (made.dtype, made.shape) == (x.dtype, x.shape)
    assert np.abs(made - exact).max() <= tolerance * np.abs(exact).max()
    np.testing.assert_allclose(_run("Det", x), np.linalg.det(x.astype(np.float64)), rtol=max(tolerance, 1e-8))


def test_as_onnx_runtime():
    ort = pytest.importorskip("onnxruntime")
    x = _matrices(2, 4, 4, dtype="float32")
    graph = helper.make_graph(
        [helper.make_node("Inverse", ["x"], ["y"], domain="com.microsoft")],
        "g",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info("y", 1, x.shape)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(_run("Inverse", x), wanted, rtol=1e-4, atol=1e-5)


def test_what_has_no_inverse_has_the_determinant_0():
    singular = np.ones((3, 3))
    assert _run("Det", singular) == 0
    assert _run("Det", np.zeros((2, 4, 4))).tolist() == [0, 0]
    for x in (singular, np.zeros((2, 2))):
        assert not np.isfinite(_run("Inverse", x)).all()


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 0), (65, 65)])
def test_what_is_no_square_matrix_is_refused(shape):
    for op in ("Inverse", "Det"):
        with pytest.raises(UnsupportedOpError, match=r"square matrix|rows"):
            _run(op, np.zeros(shape))
