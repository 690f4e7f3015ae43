"""Ops that mix elements of any type by weights (Resize, Upsample, GridSample, Gemm), against ONNX Runtime,
and against the standard where that takes no such type."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from graph_runtime.base.errors import UnsupportedOpError  # noqa: E402
from graph_runtime.frontends.onnx import load_model  # noqa: E402
from graph_runtime.frontends.onnx.budget import Budget  # noqa: E402
from graph_runtime.frontends.onnx.emitting import Emitting  # noqa: E402
from graph_runtime.frontends.onnx.tape import Tape  # noqa: E402
from graph_runtime.run.factory import create  # noqa: E402

_RNG = np.random.default_rng(11)
_INTEGERS = [np.dtype(sign + size) for sign in ("int", "uint") for size in ("8", "16", "32", "64")]


def _file(op, inputs, opset=19, **attrs):
    """(A file of one node, its inputs): ``inputs`` are arrays, constants as (array,), or None."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    given = {n: a for n, a in zip(names, inputs, strict=True) if isinstance(a, np.ndarray)}
    stored = [
        onnx.numpy_helper.from_array(a[0], n) for n, a in zip(names, inputs, strict=True) if type(a) is tuple
    ]
    code = helper.np_dtype_to_tensor_dtype
    ports = [helper.make_tensor_value_info(n, code(a.dtype), a.shape) for n, a in given.items()]
    made = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attrs)], "g", ports, [made], stored)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return proto.SerializeToString(), given


def _ours(file, given, devices=("cpu:0",)):
    module = create(load_model(file), devices=list(devices), compile=False)
    module.run(**given)
    return module.get_output(0).numpy()


def _theirs(file, given):
    (got,) = ort.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, given)
    return got


def _scaled(x, *by, **attrs):
    return _file("Resize", [x, None, (np.array([1, 1, *by], np.float32),)], **attrs)


@pytest.mark.parametrize("devices", [("cpu:0",), ("cpu:0", "tt:0")])
def test_a_row_of_bytes_is_mixed_between_its_samples(devices):
    file, given = _scaled(np.array([[[[120, 240, 241, 79]]]], np.uint8), 1, 2, mode="linear")
    got = _ours(file, given, devices)
    assert got.ravel().tolist() == [120, 150, 210, 240, 240, 200, 119, 79]
    np.testing.assert_array_equal(got, _theirs(file, given))


@pytest.mark.parametrize("dtype", _INTEGERS, ids=str)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("how", ["half_pixel", "align_corners", "asymmetric"])
def test_integers_are_weighted_as_the_standard_says(dtype, mode, how):
    info = np.iinfo(dtype)
    x = _RNG.integers(max(info.min, -(2**20)), min(info.max, 2**20), (1, 1, 5, 6), endpoint=True).astype(
        dtype
    )
    file, given = _scaled(x, 2, 0.5, mode=mode, coordinate_transformation_mode=how)
    sure = _scaled(x.astype(np.float64), 2, 0.5, mode=mode, coordinate_transformation_mode=how)
    (wide,) = ReferenceEvaluator(onnx.load_from_string(sure[0])).run(None, sure[1])
    # within one, because ONNX Runtime cuts off what the standard rounds; its scales are of float32
    wanted = np.clip(wide, info.min, info.max)
    assert (np.abs(_ours(file, given).astype(np.float64) - wanted) <= 1.001 + 1e-5 * np.abs(wide)).all()


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_bytes_with_antialias_round_after_each_axis_as_onnx_runtime(mode):
    x = _RNG.integers(0, 256, (1, 2, 8, 6)).astype(np.uint8)
    file, given = _scaled(x, 0.5, 2, mode=mode, antialias=1)
    np.testing.assert_array_equal(_ours(file, given), _theirs(file, given))


@pytest.mark.parametrize(("scale", "opset"), [(0.7, 19), (1.7, 19), (0.6, 10), (0.3, 10)])
def test_an_element_halfway_is_nearest_as_float32_has_it(scale, opset):
    x = np.arange(11, dtype=np.float32).reshape(1, 1, 1, 11)
    scales = (np.array([1, 1, 1, scale], np.float32),)
    file, given = _file("Resize", [x, None, scales] if opset > 10 else [x, scales], opset, mode="nearest")
    np.testing.assert_array_equal(_ours(file, given), _theirs(file, given))


def _grid(x, grid, **attrs):
    return _file("GridSample", [x, grid], 20, **attrs)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample_has_neighbours_beyond_each_border(padding, mode, corners):
    x = _RNG.standard_normal((1, 2, 4, 5))
    x[0, 0, 0, 0] = np.inf  # which what lies outside does not see
    grid = _RNG.uniform(-2, 2, (1, 6, 7, 2))
    file, given = _grid(x, grid, mode=mode, padding_mode=padding, align_corners=corners)
    np.testing.assert_allclose(_ours(file, given), _theirs(file, given), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "grid"),
    [("float16", "float32"), ("float64", "float32"), ("float32", "float64"), ("int32", "float32")],
)
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_grid_sample_takes_an_image_and_a_grid_of_two_types(dtype, grid, mode):
    x = (_RNG.standard_normal((1, 1, 4, 5)) * 50).astype(dtype)
    at = _RNG.uniform(-1, 1, (1, 3, 3, 2)).astype(grid)
    got = _ours(*_grid(x, at, mode=mode))
    wanted = _theirs(*_grid(x.astype(np.float64), at.astype(np.float64), mode=mode))
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=0.51 if dtype == "int32" else 2e-3)


@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_a_place_at_infinity_is_outside(padding):
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 2, 3)
    grid = np.array([[[[np.inf, 0], [-np.inf, 1e30]]]], np.float32)
    got = _ours(*_grid(x, grid, mode="linear", padding_mode=padding)).ravel()
    assert got.tolist() == ([0, 0] if padding == "zeros" else [4.5, 4])


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 1.0), (1.0, -1.5), (2.0, 3.0)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_gemm_of_integers_takes_fractions(dtype, alpha, beta):
    a, b, c = (_RNG.integers(-9, 9, shape).astype(dtype) for shape in ((2, 3), (3, 4), (4,)))
    got = _ours(*_file("Gemm", [a, b, c], alpha=alpha, beta=beta))
    np.testing.assert_array_equal(got, (alpha * (a @ b) + beta * c).astype(dtype))


@pytest.mark.parametrize(("op", "attrs"), [("ThresholdedRelu", {"alpha": -1.0}), ("Shrink", {"lambd": 0.0})])
def test_what_is_beyond_no_threshold_is_zero(op, attrs):
    file, given = _file(op, [np.array([np.nan, np.inf, -np.inf, -2, 0.5], np.float32)], **attrs)
    np.testing.assert_array_equal(_ours(file, given), _theirs(file, given))


def test_a_fraction_as_a_constant_of_integers_is_refused():
    context = Emitting()
    context.tape, context.what = Tape(budget=Budget(100)), "n"
    like = context.const(np.array([1], np.int32))
    with pytest.raises(UnsupportedOpError, match="a number that int32 cannot hold"):
        like.scalar(0.5)
