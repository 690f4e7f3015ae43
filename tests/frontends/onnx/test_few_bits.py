"""Integers of 4 bits, two in a byte: weights that are dequantized, grids that are quantized to, rows that are
gathered. Against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import GraphError, GraphRuntimeError, UnsupportedOpError  # noqa: E402
from graph_runtime.frontends.onnx import load_model  # noqa: E402

INT4, UINT4 = TensorProto.INT4, TensorProto.UINT4
_RNG = np.random.default_rng(11)


def _packed(levels):
    flat = np.asarray(levels).reshape(-1).astype(np.int64) & 15
    flat = np.append(flat, np.zeros(flat.size % 2, np.int64))
    return (flat[::2] | flat[1::2] << 4).astype(np.uint8).tobytes()


def _few(name, code, levels):
    tensor = TensorProto(name=name, data_type=code, dims=np.shape(levels))
    tensor.raw_data = _packed(levels)
    return tensor


def _levels(code, *shape):
    return _RNG.integers(-8, 8, shape) if code == INT4 else _RNG.integers(0, 16, shape)


def _float(name, value):
    return onnx.numpy_helper.from_array(np.asarray(value, np.float32), name)


def _model(nodes, inputs, initial, out=TensorProto.FLOAT, domains=()):
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in inputs.items()
    ]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", out, None)], initial)
    opsets = [helper.make_opsetid("", 21), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _compare(model, values, atol=1e-6):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()  # its optimizer would quantize what is multiplied by such weights, too
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (wanted,) = ort.InferenceSession(model.SerializeToString(), options).run(None, values)
    module = gr.create(model, compile=False)
    module.run(**values)
    got = module.get_output(0).numpy()
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("code", [INT4, UINT4])
@pytest.mark.parametrize("shape", [(6, 8), (5, 3)])
@pytest.mark.parametrize("how", ["tensor", "axis", "block"])
def test_weights_of_4_bits(code, shape, how):
    """An odd count ends in half a byte."""
    n, k = shape
    scales = {"tensor": (), "axis": (k,), "block": (-(-n // 2), k)}[how]
    attrs = {"tensor": {}, "axis": {"axis": 1}, "block": {"axis": 0, "block_size": 2}}[how]
    x = _RNG.standard_normal((2, n)).astype(np.float32)
    model = _model(
        [
            helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["wide"], **attrs),
            helper.make_node("MatMul", ["x", "wide"], ["y"]),
        ],
        {"x": x},
        [
            _few("w", code, _levels(code, *shape)),
            _float("scale", _RNG.random(scales) + 0.1),
            _few("zero", code, _levels(code, *scales)),
        ],
    )
    _compare(model, {"x": x})


@pytest.mark.parametrize("code", [INT4, UINT4])
def test_a_grid_of_4_bits_saturates(code):
    x = np.linspace(-3, 3, 33, dtype=np.float32)
    model = _model(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
        ],
        {"x": x},
        [_float("scale", 0.2), _few("zero", code, np.array(3))],
    )
    _compare(model, {"x": x})


@pytest.mark.parametrize("kind", ["int4", "uint4", "bytes", "bytes without zeros", "8 bits"])
def test_gathered_rows(kind):
    rows, columns, block = 9, 32, 16
    code = {"int4": INT4, "uint4": UINT4}.get(kind)
    indices = np.array([[0, 8, 3], [1, 1, 7]])
    zeros = [] if kind.endswith("zeros") or kind == "8 bits" else ["zero"]
    bits = 8 if kind == "8 bits" else 4
    width = columns * bits // 8
    if code:
        data, zero = (_few(n, code, _levels(code, rows, c)) for n, c in (("w", columns), ("zero", 2)))
    else:
        data, zero = (
            onnx.numpy_helper.from_array(_RNG.integers(0, 256, (rows, c)).astype(np.uint8), n)
            for n, c in (("w", width), ("zero", 1))
        )
    node = helper.make_node(
        "GatherBlockQuantized",
        ["w", "i", "scale", *zeros],
        ["y"],
        domain="com.microsoft",
        block_size=block,
        bits=bits,
        gather_axis=0,
        quantize_axis=1,
    )
    initial = [data, _float("scale", _RNG.random((rows, 2)) + 0.1), *([zero] if zeros else [])]
    _compare(_model([node], {"i": indices}, initial, domains=["com.microsoft"]), {"i": indices})


def test_ops_that_compute_do_not_get_integers_of_4_bits():
    """As int8 they would not wrap and saturate where 4 bits do."""
    model = _model(
        [helper.make_node("Abs", ["w"], ["q"]), helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)],
        {"x": np.zeros((2, 2), np.int8)},
        [_few("w", INT4, np.ones((2, 2)))],
    )
    with pytest.raises(UnsupportedOpError, match="does not support elements of int4"):
        load_model(model)


@pytest.mark.parametrize(("dims", "length"), [((3,), 1), ((3,), 3), ((4,), 0), ((-3,), 2), ((2**40,), 2)])
def test_sizes_that_contradict_each_other_are_refused(dims, length):
    tensor = TensorProto(name="w", data_type=INT4, raw_data=b"\x21" * length)
    tensor.dims.extend(dims)
    model = _model(
        [helper.make_node("DequantizeLinear", ["w", "scale"], ["y"])], {}, [tensor, _float("scale", 1.0)]
    )
    with pytest.raises(GraphError):
        load_model(model)


def test_a_program_has_no_input_of_4_bits():
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["x", "scale"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", INT4, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [_float("scale", 1.0)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(GraphRuntimeError, match="x' has elements of int4, for which a graph has no dtype"):
        load_model(model)


def _product(bits, rows, zeros, block=16, k=100, n=37, **how):
    """MatMulNBits; its packed weights, and its inputs."""
    blocks = -(-k // block)
    weights = _RNG.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = _RNG.uniform(0.01, 0.2, (n, blocks)) * 16 / (1 << bits)
    initial = [onnx.numpy_helper.from_array(weights, "w"), _float("s", scales)]
    if zeros == "packed":
        few = _RNG.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8)
        initial.append(onnx.numpy_helper.from_array(few, "z"))
    elif zeros == "floats":
        initial.append(_float("z", _RNG.uniform(0, 1 << bits, (n, blocks))))
    names = ["x", "w", "s", *(["z"] if zeros else [])]
    how |= {"K": k, "N": n, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **how)
    values = {"x": _RNG.standard_normal((*rows, k)).astype(np.float32)}
    return _model([node], values, initial, domains=["com.microsoft"]), values


def _weights(model, bits):
    """float64 [n, blocks * block] of a _product."""
    data, scales, *zeros = (onnx.numpy_helper.to_array(i) for i in model.graph.initializer)

    def levels(packed):
        return np.stack([packed >> at & ((1 << bits) - 1) for at in range(0, 8, bits)], -1)

    n, blocks, _ = data.shape
    middle = levels(zeros[0]).reshape(n, -1)[:, :blocks] if zeros else np.full((n, blocks), 1 << (bits - 1))
    whole = levels(data).reshape(n, blocks, -1) - middle[..., None].astype(np.float64)
    return (whole * scales[..., None]).reshape(n, -1)


def _weight_types(module):
    graph = module.session.plan.graph
    return [str(graph.entry_type(eid)) for eid in graph.input_eids.tolist()]


@pytest.mark.parametrize("zeros", ["", "packed", "floats"])
@pytest.mark.parametrize("rows", [(1,), (2, 9)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_read_weights_of_few_bits_as_they_are(bits, rows, zeros, tmp_path):
    """No plan has them as floats, nor does a bundle."""
    if bits in (2, 8) and zeros == "floats":
        pytest.skip("ONNX Runtime takes no such zeros")
    model, values = _product(bits, rows, zeros)
    _compare(model, values, atol=3e-5)  # sums of 100 products of up to 3, in another order
    module = gr.create(model, compile=False)
    module.run(**values)
    blocks, heads = 7, 256 if zeros or bits == 2 else 128
    assert f"uint8[2, {blocks}, {heads + 16 * max(bits, 4) * 4}]" in _weight_types(module)
    gr.build_bundle(model, "cpu:0", tmp_path / "m.bundle", compile=False)
    again = gr.load(tmp_path / "m.bundle")
    again.run(**values)
    np.testing.assert_array_equal(again.get_output(0).numpy(), module.get_output(0).numpy())


@pytest.mark.parametrize("zeros", ["", "packed"])
@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("bits", [4, 8])
def test_accuracy_level_4_lets_rows_be_rounded(bits, rows, zeros):
    """By half a step of 1/127 of the greatest of a block, as ONNX Runtime does; other levels let nothing."""
    for level in (0, 1, 4):
        model, values = _product(bits, (rows,), zeros, accuracy_level=level)
        module = gr.create(model, compile=False)
        module.run(**values)
        graph = module.session.plan.graph
        (attrs,) = (f.attrs for f in graph.funcs if f is not None and f.op == "dense")
        assert attrs["narrow"] is (level == 4)
        x = values["x"]
        w = _weights(model, bits)
        whole = np.pad(x, ((0, 0), (0, w.shape[1] - x.shape[1]))).reshape(rows, -1, 16)
        step = np.repeat(np.abs(whole).max(2) / 127, 16, axis=1)
        error = np.abs(module.get_output(0).numpy() - whole.reshape(rows, -1) @ w.T)
        assert (error <= (step / 2 @ np.abs(w).T if level == 4 else 0) + 1e-4).all()


@pytest.mark.parametrize("code", [INT4, UINT4])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("shape", "attrs", "scales"),
    [
        ((48, 40), {"axis": 0, "block_size": 16}, (3, 40)),
        ((40, 48), {"axis": 1, "block_size": 16}, (40, 3)),
        ((48, 40), {"axis": 1}, (40,)),
    ],
)
def test_so_do_products_of_dequantized_weights(code, zeros, shape, attrs, scales):
    """Blocks along k, or a scale for each column."""
    turned = shape[0] == 40
    values = {"x": _RNG.standard_normal((3, 48)).astype(np.float32)}
    names = ["w", "s", *(["z"] if zeros else [])]
    nodes = [
        helper.make_node("DequantizeLinear", names, ["wide"], **attrs),
        helper.make_node("Gemm", ["x", "wide"], ["y"], transB=1)
        if turned
        else helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    initial = [_few("w", code, _levels(code, *shape)), _float("s", _RNG.uniform(0.01, 0.2, scales))]
    if zeros:
        initial.append(_few("z", code, _levels(code, *scales)))
    model = _model(nodes, values, initial)
    _compare(model, values, atol=1e-5)
    module = gr.create(model, compile=False)
    assert any(t.startswith("uint8[2, ") for t in _weight_types(module)), _weight_types(module)
