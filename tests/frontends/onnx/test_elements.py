"""Integers of 4 and 2 bits, and floats of 8 and 4, as inputs, outputs and constants: all casts against
ml_dtypes, and what moves them. The backend suite has more of them."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ml_dtypes = pytest.importorskip("ml_dtypes")

from onnx import helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import GraphRuntimeError, InputError  # noqa: E402
from graph_runtime.frontends.onnx.elements import ELEMENTS  # noqa: E402

SMALL = [name for name in ELEMENTS if name != "string"]
FLOATS = [name for name in SMALL if name.startswith("float")]
INTS = [name for name in SMALL if name not in FLOATS]


def _model(nodes, inputs, outputs, initial=()):
    """``inputs``, ``outputs``: {name: TensorProto.DataType}."""
    made = [
        [helper.make_tensor_value_info(name, kind, None) for name, kind in each.items()]
        for each in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "elements", *made, list(initial))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


def _run(model, **values):
    module = gr.create(model, compile=False)
    module.run(**values)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def _cast(x, source, to, **attrs):
    node = helper.make_node("Cast", ["x"], ["y"], to=to, **attrs)
    return _run(_model([node], {"x": source}, {"y": to}), x=x)[0]


def _numbers():
    rng = np.random.default_rng(3)
    spread = rng.standard_normal(300) * 10.0 ** rng.uniform(-8, 6, 300)
    whole = [0, -0.0, 1, -1, 448, 464, 465, 240, 248, 57344, 61440, 65536, 6, 5, 7, np.inf, -np.inf, np.nan]
    return np.concatenate([spread, whole]).astype(np.float32)


@pytest.mark.parametrize("name", FLOATS)
def test_floats_become_codes_and_back(name):
    x, element = _numbers(), ELEMENTS[name]
    dtype = element.numpy()
    if name.endswith("e8m0fnu"):
        x = np.abs(x[np.isfinite(x) & (x != 0)])
        wanted = np.exp2(np.floor(np.log2(x.astype(np.float64)))).astype(dtype)
        got = _cast(x, 1, element.code, round_mode="down")
    else:
        got = _cast(x, 1, element.code, saturate=0)
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = x.astype(dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))
    back = _cast(got, element.code, 1)
    np.testing.assert_array_equal(back, got.astype(np.float32))


@pytest.mark.parametrize(
    "name", [name for name in FLOATS if name.startswith("float8_e") and "8m0" not in name]
)
def test_saturation_keeps_the_greatest_number(name):
    element = ELEMENTS[name]
    got = _cast(np.float32([1e9, -1e9, np.inf, -np.inf]), 1, element.code).astype(np.float32)
    most = float(ml_dtypes.finfo(element.numpy()).max)
    np.testing.assert_array_equal(got, [most, -most, most, -most])


@pytest.mark.parametrize("name", INTS)
def test_integers_move_and_keep_their_upper_bits(name):
    element = ELEMENTS[name]
    low, high = element.range
    x = np.arange(low, high + 1).astype(np.int8)[:3]  # an odd count
    held = numpy_helper.from_array(x.astype(element.numpy()), "w")
    nodes = [
        helper.make_node("Concat", ["x", "w"], ["a"], axis=0),
        helper.make_node("Gather", ["a", "at"], ["y"]),
        helper.make_node("Cast", ["y"], ["z"], to=6),
    ]
    at = numpy_helper.from_array(np.array([5, 0, 4]), "at")
    model = _model(nodes, {"x": element.code}, {"y": element.code, "z": 6}, [held, at])
    y, z = _run(model, x=x.astype(element.numpy()))
    assert y.dtype == element.numpy()
    assert z.tolist() == [int(x[2]), int(x[0]), int(x[1])] == y.astype(int).tolist()
    wrapped = _cast(np.arange(-20, 20, dtype=np.int32), 6, element.code).astype(np.int64)
    size = 1 << element.bits
    np.testing.assert_array_equal(wrapped, (np.arange(-20, 20) - low) % size + low)


@pytest.mark.parametrize("name", ["int4", "uint2", "float8_e4m3fn", "float4_e2m1fn"])
def test_blocks_are_quantized_and_back(name):
    element = ELEMENTS[name]
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    scale = np.random.default_rng(1).uniform(0.1, 1, (4, 2)).astype(np.float32)
    attrs = {"axis": 1, "block_size": 3}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=element.code, **attrs),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"], **attrs),
    ]
    model = _model(nodes, {"x": 1}, {"q": element.code, "y": 1}, [numpy_helper.from_array(scale, "s")])
    q, y = _run(model, x=x)
    wide = x / np.repeat(scale, 3, axis=1)
    if element.kind == "int":
        wide = np.clip(np.rint(wide), *element.range)
    wanted = wide.astype(element.numpy()).astype(np.float32)
    np.testing.assert_array_equal(q.astype(np.float32), wanted)
    np.testing.assert_allclose(y, wanted * np.repeat(scale, 3, axis=1), rtol=1e-6)


def test_numbers_that_fit_are_taken_and_others_are_refused():
    code = ELEMENTS["int4"].code
    module = gr.create(_model([helper.make_node("Identity", ["x"], ["y"])], {"x": code}, {"y": code}))
    module.run(x=np.array([-8, 7]))
    assert module.get_output(0).numpy().astype(int).tolist() == [-8, 7]
    with pytest.raises(InputError):
        module.run(x=np.array([8]))
    module.run(x=np.array([1, 2, 3]))


def test_arithmetic_takes_no_small_elements():
    code = ELEMENTS["float8_e5m2"].code
    model = _model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": code}, {"y": code})
    with pytest.raises(GraphRuntimeError, match="does not support elements of float8_e5m2"):
        gr.create(model).run(x=np.zeros(2, ml_dtypes.float8_e5m2))
