"""com.microsoft's ops, as ONNX Runtime's optimizer, quantizer and genai write them, against ONNX Runtime:
they have no other definition."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from graph_runtime.base.errors import GraphRuntimeError  # noqa: E402
from graph_runtime.frontends.onnx import load_model  # noqa: E402
from graph_runtime.frontends.onnx.dynamic import begin_file, open_dynamic  # noqa: E402
from graph_runtime.run.factory import create  # noqa: E402

_RNG = np.random.default_rng(7)


def _f(*shape, scale=1.0):
    return (_RNG.standard_normal(shape) * scale).astype(np.float32)


def _u8(*shape):
    return _RNG.integers(0, 256, shape).astype(np.uint8)


def _i8(*shape):
    """Of seven bits: above those ONNX Runtime saturates sums of two products where the CPU has no VNNI."""
    return _RNG.integers(-64, 64, shape).astype(np.int8)


def _s(value):
    return np.float32(value)


def _z(value, dtype=np.uint8):
    return np.array(value, dtype)


def _i(*values):
    return np.array(values, np.int32)


def _angles(positions, half):
    angle = np.arange(positions)[:, None] / 10000 ** (np.arange(half) / half)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


_A = (_u8(2, 3, 6, 6), _s(0.02), _z(120))
_GQA = {"num_heads": 4, "kv_num_heads": 2}
_QKV = (_f(2, 5, 64), _f(2, 5, 32), _f(2, 5, 32))
_STEP = (_f(2, 1, 64), _f(2, 1, 32), _f(2, 1, 32), _f(2, 2, 6, 16), _f(2, 2, 6, 16), _i(6, 6), _i(7))
_IDS = _RNG.integers(0, 9, (2, 5)).astype(np.int32)

# (op, inputs, attributes, number of outputs; those that are named are compared)
_CASES = {
    "skip": (
        "SkipLayerNormalization",
        [_f(2, 3, 8), _f(2, 3, 8), _f(8), _f(8), _f(8)],
        {"epsilon": 1e-5},
        "y,,,s",
    ),
    "skip-broadcast": ("SkipLayerNormalization", [_f(2, 3, 8), _f(1, 3, 8), _f(8)], {}, "y"),
    "skip-rms": ("SkipSimplifiedLayerNormalization", [_f(2, 3, 8), _f(2, 3, 8), _f(8), _f(8)], {}, "y,,,s"),
    "rms": ("ai.onnx:SimplifiedLayerNormalization", [_f(2, 3, 8), _f(8)], {"epsilon": 1e-6}, "y"),
    "embed": (
        "EmbedLayerNormalization",
        [_IDS, _IDS % 2, _f(9, 8), _f(7, 8), _f(2, 8), _f(8), _f(8), (_IDS > 2).astype(np.int32)],
        {"epsilon": 1e-5, "mask_index_type": 1},
        "y,mask,total",
    ),
    "embed-plain": (
        "EmbedLayerNormalization",
        [_IDS, None, _f(9, 8), _f(7, 8), None, _f(8), _f(8)],
        {},
        "y,mask",
    ),
    "fast-gelu": ("FastGelu", [_f(2, 8), _f(8)], {}, "y"),
    "bias-gelu": ("BiasGelu", [_f(2, 8), _f(8)], {}, "y"),
    "gelu": ("Gelu", [_f(2, 8)], {}, "y"),
    "quick-gelu": ("QuickGelu", [_f(2, 8)], {"alpha": 1.5}, "y"),
    "conv-relu": ("FusedConv", [_f(1, 3, 6, 6), _f(4, 3, 3, 3), _f(4)], {"activation": "Relu"}, "y"),
    "conv-add": ("FusedConv", [_f(1, 3, 6, 6), _f(4, 3, 3, 3), _f(4), _f(1, 4, 4, 4)], {}, "y"),
    "conv-clip": (
        "FusedConv",
        [_f(1, 3, 6, 6), _f(4, 3, 3, 3)],
        {"activation": "Clip", "activation_params": [-0.5, 0.7], "pads": [1, 1, 1, 1]},
        "y",
    ),
    "conv-leaky": (
        "FusedConv",
        [_f(1, 3, 6, 6), _f(4, 3, 3, 3)],
        {"activation": "LeakyRelu", "activation_params": [0.2]},
        "y",
    ),
    "matmul": ("FusedMatMul", [_f(2, 4, 3), _f(2, 4, 5)], {"transA": 1, "alpha": 0.5}, "y"),
    "matmul-batch": ("FusedMatMul", [_f(4, 2, 3), _f(2, 5, 3)], {"transBatchA": 1, "transB": 1}, "y"),
    "gemm": (
        "FusedGemm",
        [_f(3, 4), _f(4, 5), _f(5)],
        {"activation": "LeakyRelu", "activation_alpha": 0.3},
        "y",
    ),
    "gemm-relu": ("FusedGemm", [_f(3, 4), _f(5, 4), _f(5)], {"activation": "Relu", "transB": 1}, "y"),
    "nbits": (
        "MatMulNBits",
        [_f(2, 40), _u8(6, 2, 16), _f(6, 2, scale=0.1)],
        {"K": 40, "N": 6, "bits": 4, "block_size": 32},
        "y",
    ),
    "nbits-zero": (
        "MatMulNBits",
        [_f(3, 2, 64), _u8(6, 2, 16), _f(6, 2, scale=0.1), _u8(6, 1)],
        {"K": 64, "N": 6, "bits": 4, "block_size": 32},
        "y",
    ),
    "nbits-8": (
        "MatMulNBits",
        [_f(3, 64), _u8(6, 2, 32), _f(6, 2, scale=0.1)],
        {"K": 64, "N": 6, "bits": 8, "block_size": 32},
        "y",
    ),
    "add": ("QLinearAdd", [*_A, _u8(3, 6, 6), _s(0.03), _z(7), _s(0.04), _z(99)], {}, "y"),
    "mul": ("QLinearMul", [*_A, _u8(2, 3, 1, 1), _s(0.03), _z(7), _s(0.05), _z(99)], {}, "y"),
    "add-i8": (
        "QLinearAdd",
        [_i8(8), _s(0.1), _z(5, np.int8), _i8(8), _s(0.2), _z(-9, np.int8), _s(0.25)],
        {},
        "y",
    ),
    "concat": ("QLinearConcat", [_s(0.05), _z(90), *_A, _u8(2, 2, 6, 6), _s(0.01), _z(3)], {"axis": 1}, "y"),
    "sigmoid": ("QLinearSigmoid", [*_A, _s(1 / 256), _z(0)], {}, "y"),
    "leaky": ("QLinearLeakyRelu", [*_A, _s(0.02), _z(100)], {"alpha": 0.1}, "y"),
    "softmax": (
        "QLinearSoftmax",
        [_u8(3, 9), _s(0.05), _z(9), _s(1 / 256), _z(0)],
        {"axis": -1, "opset": 13},
        "y",
    ),
    "global": ("QLinearGlobalAveragePool", [*_A, _s(0.02), _z(100)], {"channels_last": 0}, "y"),
    "global-last": ("QLinearGlobalAveragePool", [*_A, _s(0.02), _z(100)], {"channels_last": 1}, "y"),
    "average": (
        "QLinearAveragePool",
        [*_A, _s(0.02), _z(100)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        "y",
    ),
    "to-float": (
        "MatMulIntegerToFloat",
        [_u8(3, 8), _i8(8, 5), _s(0.02), np.abs(_f(5)), _z(100), _i8(5), _f(5)],
        {},
        "y",
    ),
    "dynamic": ("DynamicQuantizeMatMul", [_f(3, 8), _i8(8, 5), _s(0.02), _z(4, np.int8), _f(5)], {}, "y"),
    "qgemm": (
        "QGemm",
        [_u8(3, 8), _s(0.02), _z(100), _i8(5, 8), _s(0.03), _z(2, np.int8), _i(*range(5)), _s(0.1), _z(99)],
        {"transB": 1, "alpha": 1.0},
        "y",
    ),
    "qgemm-float": (
        "QGemm",
        [_u8(3, 8), _s(0.02), _z(100), _i8(8, 5), _s(0.03), _z(2, np.int8), _i(*range(5))],
        {"alpha": 0.5},
        "y",
    ),
    "q": ("QuantizeLinear", [_f(3, 5), _s(0.02), _z(100)], {}, "y"),
    "q-16": ("QuantizeLinear", [_f(3, 5), _s(0.001), _z(100, np.uint16)], {}, "y"),
    "dq": ("DequantizeLinear", [_u8(3, 5), _f(3), _u8(3)], {"axis": 0}, "y"),
    "attention": ("Attention", [_f(2, 5, 12), _f(12, 48), _f(48), _i(5, 3)], {"num_heads": 2}, "y"),
    "attention-2d": (
        "Attention",
        [_f(2, 5, 12), _f(12, 48), _f(48), np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], np.int32)],
        {"num_heads": 2},
        "y,present",
    ),
    "attention-ends": (
        "Attention",
        [_f(2, 5, 12), _f(12, 48), _f(48), _i(5, 3, 1, 0)],
        {"num_heads": 2},
        "y",
    ),
    "attention-past": (
        "Attention",
        [_f(2, 3, 12), _f(12, 48), _f(48), None, _f(2, 2, 2, 4, 8)],
        {"num_heads": 2, "unidirectional": 1},
        "y,present",
    ),
    "attention-sizes": (
        "Attention",
        [_f(2, 5, 12), _f(12, 40), _f(40), None, None, _f(2, 2, 5, 5)],
        {"num_heads": 2, "qkv_hidden_sizes": [16, 16, 8], "scale": 0.3},
        "y",
    ),
    "mha": ("MultiHeadAttention", [_f(2, 5, 16), _f(2, 7, 16), _f(2, 7, 16), _f(48)], {"num_heads": 2}, "y"),
    "mha-mask": (
        "MultiHeadAttention",
        [_f(2, 5, 16), _f(2, 7, 16), _f(2, 7, 16), None, (_RNG.random((2, 7)) > 0.3).astype(np.int32)],
        {"num_heads": 2},
        "y",
    ),
    "mha-heads": (
        "MultiHeadAttention",
        [_f(2, 5, 16), _f(2, 2, 7, 8), _f(2, 2, 7, 8)],
        {"num_heads": 2},
        "y",
    ),
    "mha-past": (
        "MultiHeadAttention",
        [
            _f(2, 3, 16),
            _f(2, 3, 16),
            _f(2, 3, 16),
            None,
            None,
            _f(2, 2, 3, 7),
            _f(2, 2, 4, 8),
            _f(2, 2, 4, 8),
        ],
        {"num_heads": 2},
        "y,k,v",
    ),
    "mha-causal": (
        "MultiHeadAttention",
        [_f(2, 5, 16), _f(2, 5, 16), _f(2, 5, 16)],
        {"num_heads": 2, "unidirectional": 1},
        "y",
    ),
    "rotary": ("RotaryEmbedding", [_f(2, 3, 16), np.array([[0, 1, 2], [4, 5, 6]]), *_angles(8, 4)], {}, "y"),
    "rotary-from": (
        "RotaryEmbedding",
        [_f(2, 2, 3, 8), np.array([3]), *_angles(8, 4)],
        {"interleaved": 1},
        "y",
    ),
    "gqa": ("GroupQueryAttention", [*_QKV, None, None, _i(4, 4), _i(5)], _GQA, "y,k,v"),
    "gqa-rotary": (
        "GroupQueryAttention",
        [*_QKV, None, None, _i(4, 4), _i(5), *_angles(16, 8)],
        {**_GQA, "do_rotary": 1},
        "y,k,v",
    ),
    "gqa-packed": (
        "GroupQueryAttention",
        [_f(2, 5, 128), None, None, None, None, _i(4, 4), _i(5)],
        _GQA,
        "y,k,v",
    ),
    "gqa-step": ("GroupQueryAttention", [*_STEP], _GQA, "y,k,v"),
    "gqa-step-rotary": (
        "GroupQueryAttention",
        [*_STEP, *_angles(16, 8)],
        {**_GQA, "do_rotary": 1, "rotary_interleaved": 1},
        "y,k,v",
    ),
    "gqa-window": ("GroupQueryAttention", [*_STEP], {**_GQA, "local_window_size": 3}, "y,k,v"),
    "gqa-softcap": ("GroupQueryAttention", [*_STEP], {**_GQA, "softcap": 2.0}, "y,k,v"),
}
_CONSTANT = {"MatMulNBits": (1, 2, 3)}  # inputs that must be weights


def _model(op, inputs, attrs, outputs):
    domain, _, name = op.rpartition(":")
    fixed = _CONSTANT.get(op, ())
    named = [None if a is None else f"i{k}" for k, a in enumerate(inputs)]
    names = outputs.split(",")
    node = helper.make_node(
        name, [n or "" for n in named], names, name="n", domain="" if domain else "com.microsoft", **attrs
    )

    def described(name, array):
        kind = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
        return helper.make_tensor_value_info(name, kind, np.shape(array))

    given = [(n, a) for n, a in zip(named, inputs, strict=True) if n]
    runtime = {n: np.asarray(a) for k, (n, a) in enumerate(given) if k not in fixed}
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in given if n not in runtime]
    made = [onnx.ValueInfoProto(name=n) for n in names if n]
    graph = helper.make_graph([node], "g", [described(n, a) for n, a in runtime.items()], made, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), runtime


def _run(model, values, devices=("cpu:0",)):
    session = create(load_model(model), devices=list(devices), compile=False)
    for name, value in values.items():
        session.set_input(name, value)
    session.run()
    return [session.get_output(i).numpy() for i in range(session.get_num_outputs())]


@pytest.mark.parametrize("case", _CASES)
def test_as_onnx_runtime(case):
    ort = pytest.importorskip("onnxruntime")
    model, values = _model(*_CASES[case])
    ort.set_default_logger_severity(4)
    wanted = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, values
    )
    for got, expected in zip(_run(model, values), wanted, strict=True):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        if np.issubdtype(expected.dtype, np.integer):  # ONNX Runtime rounds in its own order of operations
            assert np.abs(got.astype(np.int64) - expected.astype(np.int64)).max() <= 1
        else:
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)


def test_every_converter_is_compared():
    """But for those with files of their own (the first four), NhwcConv, which ONNX Runtime has for int8 and
    XNNPACK alone, and FusedMatMul's former name."""
    from graph_runtime.frontends.onnx.context import table

    compared = {case[0].rpartition(":")[2] for case in _CASES.values()}
    apart = {"DynamicQuantizeLSTM", "GatherBlockQuantized", "Inverse", "Tokenizer"}
    alone = apart | {"NhwcConv", "TransposeMatMul"}
    assert {op for domain, op in table() if domain == "com.microsoft"} == compared | alone


def test_nhwc_conv():
    """The same as a Conv with channels in front; its weights are [out, height, width, in]."""
    x, w, b = _f(1, 6, 5, 3), _f(4, 3, 3, 3), _f(4)
    attrs = {"pads": [1, 0, 1, 0], "strides": [2, 1]}
    model, values = _model("NhwcConv", [x, w.transpose(0, 2, 3, 1).copy(), b], attrs, "y")
    plain, moved = _model("ai.onnx:Conv", [x.transpose(0, 3, 1, 2).copy(), w, b], attrs, "y")
    wanted = _run(plain, moved)[0].transpose(0, 2, 3, 1)
    np.testing.assert_allclose(_run(model, values)[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", ["skip", "embed", "conv-relu", "mha-mask", "gqa-step", "nbits"])
def test_on_tt(case):
    """Compositions run where their ops do."""
    model, values = _model(*_CASES[case])
    for got, wanted in zip(_run(model, values, ("cpu:0", "tt:0")), _run(model, values), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0.05, atol=0.05)


def test_a_past_that_is_not_full():
    """Sequences of 6 and 3 real keys: each attends to its own, and the new key follows them."""
    model, values = _model("GroupQueryAttention", [*_STEP], _GQA, "y,k,v")
    both = _run(model, {**values, "i5": _i(6, 3), "i6": _i(7)})
    short, own = _model(
        "GroupQueryAttention",
        [a[1:2, :, :3] if a.ndim == 4 else a[1:2] for a in _STEP[:5]] + [_i(3), _i(4)],
        _GQA,
        "y,k,v",
    )
    alone = _run(short, own)
    np.testing.assert_allclose(both[0][1:], alone[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(both[1][1:, :, :4], alone[1])
    np.testing.assert_array_equal(both[2][1:, :, :4], alone[2])


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "text"),
    [
        (
            "MatMulNBits",
            [_f(2, 40), _u8(6, 2, 15), _f(6, 2)],
            {"K": 40, "N": 6, "block_size": 32},
            "do not fit K 40",
        ),
        (
            "MatMulNBits",
            [_f(2, 40), _u8(6, 2, 16), _f(6, 2)],
            {"K": 40, "N": 6, "block_size": 0},
            "must be positive",
        ),
        ("Attention", [_f(2, 5, 12), _f(12, 47)], {"num_heads": 2}, "do not fit 2 heads"),
        ("Attention", [_f(2, 5, 12), _f(12, 48), None, _i(1, 2, 3)], {"num_heads": 2}, "does not fit"),
        ("FusedConv", [_f(1, 3, 6, 6), _f(4, 3, 3, 3)], {"activation": "Selu"}, "'Selu'"),
        ("QLinearConcat", [_s(0.1), _z(3), _u8(2), _s(0.1)], {"axis": 0}, "three for each part"),
        ("MultiHeadAttention", [_f(2, 5, 16)], {"num_heads": 2}, "key and value are missing"),
        ("SkipLayerNormalization", [_f(2, 3, 8), _f(2, 4, 8), _f(8)], {}, "do not broadcast"),
    ],
)
def test_what_does_not_fit_is_refused(op, inputs, attrs, text):
    model, _ = _model(op, inputs, attrs, "y")
    with pytest.raises(GraphRuntimeError) as error:
        load_model(model)
    assert text in str(error.value)
    assert "'n'" in str(error.value)


@pytest.mark.parametrize(("dtype", "least"), [(np.int8, -128), (np.uint8, 0)])
def test_a_mask_on_an_infinite_grid_stays_one(kit, dtype, least):
    """As ONNX Runtime: -inf / inf is the least number of the grid."""
    x = np.array([-np.inf, 0, 5], np.float32)
    weights = {"s": np.float32(np.inf), "z": dtype(3)}
    model = kit.make([("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": x.shape}, ["y"], weights)
    (got,) = kit.run(kit.load(model), {"x": x})
    assert got.tolist() == [least, 3, 3]


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("by_column", [False, True])
def test_gemm_of_bytes_by_a_constant(swap, by_column):
    """QGemm by a weight that is known multiplies bytes; its sums are exact."""
    ort = pytest.importorskip("onnxruntime")
    rng, n, k = np.random.default_rng(swap), 37, 70
    columns = (n,) if by_column else ()
    known = {
        "a_scale": np.float32(0.02),
        "a_zero": np.uint8(131),
        "b": rng.integers(-64, 64, (n, k) if swap else (k, n)).astype(np.int8),
        "b_scale": rng.uniform(0.01, 0.02, columns).astype(np.float32),
        "b_zero": np.zeros(columns, np.int8) if by_column else np.int8(3),
        "c": rng.integers(-999, 999, (n,)).astype(np.int32),
    }
    node = helper.make_node("QGemm", ["a", *known], ["y"], domain="com.microsoft", transB=swap)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, (5, k))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    a = rng.integers(0, 256, (5, k)).astype(np.uint8)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"a": a})
    assert "quantized_dense" in {func.op for func in load_model(model).graph.funcs}
    module = create(model, devices=["cpu:0"], compile=False)
    module.run(a=a)
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-6, atol=1e-6)


def _node(op, domain="com.microsoft", **attrs):
    inputs = [
        helper.make_tensor_value_info("x", 1, [1, 2, 6]),
        helper.make_tensor_value_info("w", 1, [6, 18]),
    ]
    node = helper.make_node(op, ["x", "w"] if op == "Attention" else ["x"], ["y"], domain=domain, **attrs)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets).SerializeToString()


@pytest.mark.parametrize(
    ("op", "domain", "words"),
    [
        ("FastGellu", "com.microsoft", "did you mean 'com.microsoft.FastGelu'"),
        ("FastGelu", "com.micrsoft", "FastGelu is an op of com.microsoft"),
        ("FastGellu", "com.micrsoft", "did you mean the domain 'com.microsoft'"),
        ("Relu", "com.microsoft", "Relu is an op of the default domain"),
    ],
)
def test_errors_say_which_op_of_a_foreign_domain_may_be_meant(op, domain, words):
    with pytest.raises(GraphRuntimeError, match=words):
        load_model(_node(op, domain))
    with pytest.raises(GraphRuntimeError, match=words):
        open_dynamic(begin_file(_node(op, domain)).file, {}, {})


@pytest.mark.parametrize(
    ("op", "attrs", "words"),
    [
        ("QuickGelu", {"alpha": "two"}, "attribute 'alpha' is 'two', .*QuickGelu takes a float"),
        (
            "Attention",
            {"num_heads": 2, "scale": "two"},
            "attribute 'scale' is 'two', .*Attention takes a float",
        ),
        ("Attention", {"num_heads": "2"}, "attribute 'num_heads' is '2', .*Attention takes an integer"),
        ("Attention", {"num_heads": 2, "qkv_hidden_sizes": 3}, "'qkv_hidden_sizes' is 3, .* takes a list"),
    ],
)
def test_errors_name_the_attribute_of_a_wrong_type(op, attrs, words):
    with pytest.raises(GraphRuntimeError, match=words):
        load_model(_node(op, **attrs))
