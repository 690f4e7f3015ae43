"""Quantized graphs as files have them, good and bad: grids, products of integers, few bits. What is
no sense is refused with its place; all else is what ONNX's formulas give in numpy, on hosts and on tt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import GraphRuntimeError  # noqa: E402

pytestmark = pytest.mark.core
BYTES = ("uint8", "int8")
WHOLE = (*BYTES, "uint16", "int16")
DEVICES = ("cpu:0", "tt:0")
EXAMPLES = settings(max_examples=15, deadline=None, derandomize=True)


def model(op, arrays, attrs, fed=("x",), domain=""):
    """A model of one node: ``arrays`` {name: array} in the order of its inputs, None where one is left out;
    those of ``fed`` are inputs, the others constants."""
    names = [name if value is not None else "" for name, value in arrays.items()]
    node = helper.make_node(op, names, ["y"], name="here", domain=domain, **attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(arrays[n].dtype), arrays[n].shape)
        for n in fed
    ]
    known = [
        numpy_helper.from_array(np.asarray(v), n) for n, v in arrays.items() if v is not None and n not in fed
    ]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")], known)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run(op, arrays, attrs=None, fed=("x",), domain="", device="cpu:0"):
    made, devices, other = model(op, arrays, attrs or {}, fed, domain), ["cpu:0"], {}
    if device == "tt:0":  # which has no grids: quantize and dequantize stay on the host
        devices, other = ["tt:0", "cpu:0"], {"fallback": "host", "formats": {"tt": "f32"}}
    module = gr.create(made, devices=devices, compile=False, **other)
    module.run(**{name: arrays[name] for name in fed})
    return module.get_output(0).numpy()


def to_grid(x, scale, zero, dtype):
    """saturate(round(x / scale) + zero); a NaN becomes the least number."""
    info = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        made = np.rint(x / scale) + zero
    return np.clip(np.where(np.isnan(made), info.min, made), info.min, info.max).astype(dtype)


def drawn(data, dtype, shape, name="numbers"):
    info, seed = np.iinfo(dtype), data.draw(st.integers(0, 2**31), label=name)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def near(got, wanted, steps=0):
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert np.abs(got.astype(np.int64) - wanted.astype(np.int64)).max(initial=0) <= steps


# ---------------------------------------------------------------- grids


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scale", [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 1e-39, -0.02, 1e30, 3e38, 0.1])
def test_any_scale_of_a_grid(scale, dtype, device):
    x = np.array([-1e10, -2.5, -0.5, -0.0, 0, 0.5, 1.5, 2.5, 3.3, 1e10], np.float32)
    grid = {"scale": np.float32(scale), "zero": np.array(3, dtype)}
    near(run("QuantizeLinear", {"x": x, **grid}, device=device), to_grid(x, np.float32(scale), 3, dtype))
    info = np.iinfo(dtype)
    numbers = np.array([info.min, 2, 3, 4, info.max], dtype)
    with np.errstate(all="ignore"):
        wanted = (numbers.astype(np.float32) - 3) * np.float32(scale)
    got = run("DequantizeLinear", {"x": numbers, **grid}, device=device)
    np.testing.assert_array_equal(got, wanted)


@st.composite
def grids(draw):
    """(shape of x, axis, block size, shape of the scale)."""
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=4)))
    axis, how = (
        draw(st.integers(-len(shape), len(shape) - 1)),
        draw(st.sampled_from(("one", "axis", "block"))),
    )
    if how == "one" or shape[axis] == 0:
        return shape, axis, 0, draw(st.sampled_from(((), (1,))))
    if how == "axis":
        return shape, axis, 0, (shape[axis],)
    block = draw(st.integers(1, shape[axis] + 2))
    return (
        shape,
        axis,
        block,
        tuple(-(-n // block) if d == axis % len(shape) else n for d, n in enumerate(shape)),
    )


def spread(values, shape, axis, block):
    """A scale or zero point beside x."""
    if values.size == 1 and not block:
        return values.reshape(())
    if not block:
        return values.reshape(-1, *(1,) * (len(shape) - axis % len(shape) - 1))
    return np.repeat(values, block, axis).take(range(shape[axis]), axis)


@pytest.mark.parametrize("device", DEVICES)
@EXAMPLES
@given(data=st.data())
def test_grids_of_any_shape(device, data):
    shape, axis, block, own = data.draw(grids())
    dtype = data.draw(st.sampled_from(WHOLE if device == "cpu:0" else BYTES))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    zero = drawn(data, dtype, own) if data.draw(st.booleans()) or dtype != "uint8" else None
    scale = np.asarray(rng.uniform(0.01, 0.1, own), np.float32)
    attrs = {"axis": axis, **({"block_size": block} if block else {})}
    at = spread(scale, shape, axis, block)
    point = 0 if zero is None else spread(np.asarray(zero), shape, axis, block).astype(np.int64)
    x = rng.standard_normal(shape).astype(np.float32) * 4
    grid = {"scale": scale, "zero": zero}
    near(run("QuantizeLinear", {"x": x, **grid}, attrs, device=device), to_grid(x, at, point, dtype))
    numbers = drawn(data, dtype, shape, "x")
    wanted = (numbers.astype(np.int64) - point).astype(np.float32) * at
    got = run("DequantizeLinear", {"x": numbers, **grid}, attrs, device=device)
    np.testing.assert_array_equal(got, wanted)


# ---------------------------------------------------------------- products


def product_grid(data, k):
    """Scales of both operands, one of the result that uses its range, and its zero point."""
    a, b = (np.float32(data.draw(st.floats(0.005, 0.1))) for _ in range(2))
    return a, b, np.float32(a * b * 60 * max(k, 1) ** 0.5)


@pytest.mark.parametrize("device", DEVICES)
@EXAMPLES
@given(data=st.data())
def test_products_of_any_size(device, data):
    """Sums are exact, so on hosts the bytes are; on tt they are sums of float32, whose ties may differ."""
    m, k, n = (data.draw(st.integers(least, 70), label=at) for at, least in (("m", 0), ("k", 1), ("n", 0)))
    if device != "cpu:0":
        m, n = max(m, 1), max(n, 1)
    types = [data.draw(st.sampled_from(BYTES)) for _ in range(3)]
    many, known = data.draw(st.booleans()), data.draw(st.booleans())
    x, w = drawn(data, types[0], (m, k), "x"), drawn(data, types[1], (k, n), "w")
    a, b, y = product_grid(data, k)
    own = data.draw(st.sampled_from(((n,), (1, n)))) if many else ()
    scales = np.asarray(np.random.default_rng(n).uniform(0.5, 1, own) * b, np.float32)
    zeros = drawn(data, types[1], own, "zeros") if data.draw(st.booleans()) else np.zeros((), types[1])
    parts = [x, a, np.array(5, types[0]), w, scales, zeros, y, np.array(9, types[2])]
    arrays = dict(zip(("x", "sa", "za", "w", "sb", "zb", "sy", "zy"), parts, strict=True))
    got = run("QLinearMatMul", arrays, fed=("x",) if known else ("x", "w"), device=device)
    sums = (x.astype(np.int64) - 5) @ (w.astype(np.int64) - zeros.reshape(-1).astype(np.int64))
    real = sums * np.float64(a) * scales.reshape(-1) / np.float64(y)
    wanted = to_grid(real, 1.0, 9, types[2])
    tie = np.abs(np.abs(real - np.rint(real)) - 0.5) < 1e-3  # scales are float32: a tie may go either way
    near(np.where(tie, wanted, got), wanted, 0 if device == "cpu:0" else 1)


@pytest.mark.parametrize("device", DEVICES)
@EXAMPLES
@given(data=st.data())
def test_convolutions_of_any_size(device, data):
    group = data.draw(st.sampled_from((1, 0)))  # 0: one channel a group
    c, o = data.draw(st.integers(1, 37)), data.draw(st.integers(1, 37))
    o, inner = (c, 1) if group == 0 else (o, c)
    r, s = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    h, wide = data.draw(st.integers(r, 9)), data.draw(st.integers(s, 9))
    types = [data.draw(st.sampled_from(BYTES)) for _ in range(3)]
    x, w = drawn(data, types[0], (1, c, h, wide), "x"), drawn(data, types[1], (o, inner, r, s), "w")
    a, b, y = product_grid(data, inner * r * s)
    own = (o,) if data.draw(st.booleans()) else ()
    scales = np.asarray(np.random.default_rng(o).uniform(0.5, 1, own) * b, np.float32)
    bias = drawn(data, "int16", (o,), "bias").astype(np.int32)
    parts = [x, a, np.array(7, types[0]), w, scales, np.zeros((), types[1]), y, np.array(9, types[2]), bias]
    arrays = dict(zip(("x", "sa", "za", "w", "sb", "zb", "sy", "zy", "bias"), parts, strict=True))
    pad = data.draw(st.integers(0, 1))
    got = run("QLinearConv", arrays, {"group": c if group == 0 else 1, "pads": [pad] * 4}, device=device)
    image = np.pad(x.astype(np.int64) - 7, ((0, 0), (0, 0), (pad, pad), (pad, pad)))[0]
    sums = np.zeros((o, h + 2 * pad - r + 1, wide + 2 * pad - s + 1), np.int64) + bias[:, None, None]
    for p in range(r):
        for q in range(s):
            part, tap = image[:, p : p + sums.shape[1], q : q + sums.shape[2]], w[:, :, p, q].astype(np.int64)
            sums += part * tap[:, 0, None, None] if group == 0 else np.einsum("chw,oc->ohw", part, tap)
    real = sums * np.float64(a) * scales.reshape(-1, 1, 1) / np.float64(y)
    wanted = to_grid(real, 1.0, 9, types[2])[None]
    tie = np.abs(np.abs(real - np.rint(real)) - 0.5) < 1e-3
    near(np.where(tie, wanted, got), wanted, 0 if device == "cpu:0" else 1)


@pytest.mark.parametrize("scale", [np.inf, -np.inf])
@pytest.mark.parametrize("place", ["sa", "sb"])
def test_an_infinite_scale_meets_sums_not_their_parts(scale, place):
    """Of parts, one that is 0 would make NaN of its sum: ONNX's result is the bound on the sum's side."""
    arrays = {
        "x": np.array([[3, 4, 9], [3, 1, 0]], np.uint8),
        **{"sa": np.float32(0.1), "za": np.uint8(3), "w": np.array([[1, 0], [1, -1], [2, 0]], np.int8)},
        **{"sb": np.float32(0.1), "zb": np.int8(0), "sy": np.float32(1), "zy": np.uint8(9)},
        place: np.float32(scale),
    }
    sums = (arrays["x"].astype(int) - 3) @ arrays["w"].astype(int)
    wanted = np.where(np.sign(sums) * np.sign(scale) > 0, 255, 0)
    np.testing.assert_array_equal(run("QLinearMatMul", arrays), wanted)


# ---------------------------------------------------------------- weights of few bits


def few_bits_arrays(data, bits, block, k, n, zeros):
    blocks = -(-k // block)
    arrays = {
        "x": np.random.default_rng(k).standard_normal((data.draw(st.integers(1, 20)), k)).astype(np.float32),
        "w": drawn(data, "uint8", (n, blocks, block * bits // 8), "w"),
        "s": np.random.default_rng(n).uniform(-0.1, 0.1, (n, blocks)).astype(np.float32),
    }
    if zeros == "bytes":
        arrays["z"] = drawn(data, "uint8", (n, -(-blocks * bits // 8)), "z")
    if zeros == "floats":
        arrays["z"] = np.random.default_rng(7).uniform(0, 1 << bits, (n, blocks)).astype(np.float32)
    return arrays


def levels_of(packed, bits):
    """Levels of each row of bytes, the lowest bits first."""
    parts = [(packed.astype(np.int64) >> at) & ((1 << bits) - 1) for at in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1)


@pytest.mark.parametrize("device", DEVICES)
@EXAMPLES
@given(data=st.data())
def test_products_of_few_bits_of_any_size(device, data):
    """Of an odd count of blocks, the last byte of a column's zero points is half used."""
    bits, block = data.draw(st.sampled_from((2, 4, 8))), data.draw(st.sampled_from((16, 32, 128)))
    k, n = data.draw(st.integers(1, 150)), data.draw(st.integers(1, 70))
    zeros = data.draw(st.sampled_from(("", "bytes", "floats")))
    arrays = few_bits_arrays(data, bits, block, k, n, zeros)
    level = data.draw(st.sampled_from((0, 1, 4)))
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": level}
    got = run("MatMulNBits", arrays, attrs, domain="com.microsoft", device=device)
    blocks, middle = arrays["s"].shape[1], np.full(arrays["s"].shape, 1 << (bits - 1), np.float64)
    if zeros:
        middle = levels_of(arrays["z"], bits)[:, :blocks] if zeros == "bytes" else arrays["z"].astype(float)
    numbers = levels_of(arrays["w"].reshape(n, -1), bits).reshape(n, blocks, block) - middle[..., None]
    wide = (numbers * arrays["s"][..., None]).reshape(n, -1)[:, :k]
    wanted = arrays["x"].astype(float) @ wide.T
    # float32 sums of k products, each at most as large as the greatest
    allowed = 1e-6 * k * max(1.0, np.abs(wide).max()) * 4
    if level == 4:  # x may be rounded to 8 bits, at most 1/254 of the greatest of a block away
        greatest = np.abs(arrays["x"].astype(float)).max(axis=-1, keepdims=True)
        allowed = allowed + greatest / 254 * np.abs(wide).sum(axis=1)
    assert (np.abs(got - wanted) <= allowed).all()


# ---------------------------------------------------------------- what is refused


def _product(**other):
    arrays = {
        **{"x": np.ones((3, 5), np.uint8), "sa": np.float32(0.1), "za": np.uint8(3)},
        **{"w": np.ones((5, 7), np.int8), "sb": np.float32(0.1), "zb": np.int8(0)},
        **{"sy": np.float32(1), "zy": np.uint8(9)},
    }
    return "QLinearMatMul", {**arrays, **other}, {}


def _convolution(attrs=None, **other):
    _, arrays, _ = _product(x=np.ones((1, 4, 6, 5), np.uint8), w=np.ones((6, 4, 3, 3), np.int8))
    return "QLinearConv", {**arrays, **other}, attrs or {}


def _few(attrs=None, **other):
    arrays = {"x": np.ones((2, 40), np.float32), "w": np.ones((6, 3, 8), np.uint8)}
    arrays |= {"s": np.ones((6, 3), np.float32)}
    how = {"K": 40, "N": 6, "bits": 4, "block_size": 16, **(attrs or {})}
    return "MatMulNBits", {**arrays, **other}, how


def _grid(op, attrs=None, **other):
    x = np.ones((2, 3, 4), np.float32 if op == "QuantizeLinear" else np.uint8)
    return op, {"x": x, "scale": np.float32(0.1), "zero": np.uint8(1), **other}, attrs or {}


def _ones(*shape):
    return np.ones(shape, np.float32)


Q, D = "QuantizeLinear", "DequantizeLinear"
REFUSED = {
    "zero of floats": (_grid(Q, zero=np.float32(1)), "not a supported grid"),
    "zero of another type": (_grid(D, zero=np.int8(1)), "their types must be equal"),
    "numbers that are floats": (_grid(D, x=_ones(3), zero=_ones()), "not a supported grid"),
    "scale of integers": (_grid(D, scale=np.int32(1)), "it must be float32"),
    "axis": (_grid(Q, {"axis": 3}, scale=_ones(3), zero=np.ones(3, np.uint8)), "axis"),
    "scale of another length": (_grid(Q, scale=_ones(5), zero=np.ones(5, np.uint8)), "dimension 1"),
    "no scale": (_grid(D, scale=_ones(0), zero=np.ones(0, np.uint8)), "scale"),
    "scale of two axes": (_grid(Q, scale=_ones(3, 2), zero=np.ones((3, 2), np.uint8)), "scale"),
    "zero of another length": (_grid(D, scale=_ones(3), zero=np.ones(4, np.uint8)), "one shape"),
    "block less than 0": (_grid(Q, {"block_size": -1}, scale=_ones(2, 2, 4), zero=None), "must be positive"),
    "blocks that are too few": (
        _grid(Q, {"block_size": 2}, scale=_ones(2, 1, 4), zero=None),
        r"give one of shape \[2, 2, 4\]",
    ),
    "blocks beside others": (
        _grid(D, {"block_size": 2}, scale=_ones(1, 2, 4), zero=None),
        "give one of shape",
    ),
    "bits 3": (_few({"bits": 3}), "bits is 3, but must be 2, 4 or 8"),
    "bits 0": (_few({"bits": 0}), "bits is 0"),
    "block 8": (_few({"block_size": 8}), "must be a power of two from 16 on"),
    "block 24": (_few({"block_size": 24}), "must be a power of two"),
    "block 0": (_few({"block_size": 0}), "must be positive"),
    "K that does not fit": (_few({"K": 400}), "do not fit K 400"),
    "K below 0": (_few({"K": -40}), "must be positive"),
    "x of another K": (_few(x=np.ones((2, 41), np.float32)), "41"),
    "weights that are floats": (_few(w=_ones(6, 3, 8)), "must be uint8"),
    "weights of int8": (_few(w=np.ones((6, 3, 8), np.int8)), "must be uint8"),
    "scales of integers": (_few(s=np.ones((6, 3), np.int32)), "and floats"),
    "zeros a byte too many": (_few(z=np.ones((6, 3), np.uint8)), "whole bytes a column"),
    "zeros without their last byte": (_few(z=np.ones((6, 1), np.uint8)), "12 of uint8"),
    "zeros of integers": (_few(z=np.ones((6, 3), np.int32)), "or 18 floats"),
    "g_idx": (_few(z=None, g=np.zeros(48, np.int32)), "g_idx"),
    "scales of another length": (_product(sb=_ones(5)), "scale"),
    "scale of x of columns": (_product(sa=_ones(5)), ""),
    "sizes of a product": (_product(w=np.ones((4, 7), np.int8)), "4"),
    "scale of no numbers": (_product(sy=_ones(0)), ""),
    "result of int32": (_product(zy=np.int32(9)), "int32"),
    "scales of an image": (_convolution(sb=_ones(4)), "scale"),
    "bias of another length": (_convolution(bias=np.ones(5, np.int32)), ""),
    "bias that is floats": (_convolution(bias=_ones(6)), ""),
    "groups": (_convolution({"group": 3}), "group"),
    "no groups": (_convolution({"group": 0}), "group"),
    "strides of 0": (_convolution({"strides": [0, 1]}), "strides"),
    "pads of three": (_convolution({"pads": [1, 1, 1]}), "pads"),
    "dilated beyond the image": (_convolution({"dilations": [9, 9]}), ""),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_with_its_place(name, device):
    """The error is typed and names the node; a session beside it runs on."""
    (op, arrays, attrs), text = REFUSED[name]
    domain = "com.microsoft" if op == "MatMulNBits" else ""
    before = gr.create(model(*_product(), fed=("x",)), devices=["cpu:0"], compile=False)
    with pytest.raises(GraphRuntimeError, match=text or op) as caught:
        run(op, arrays, attrs, domain=domain, device=device)
    assert op in str(caught.value)
    before.run(x=np.full((3, 5), 23, np.uint8))
    np.testing.assert_array_equal(before.get_output(0).numpy(), np.full((3, 7), 10))


@pytest.mark.parametrize("name", REFUSED)
def test_onnx_runtime_refuses_it_too(name):
    ort = pytest.importorskip("onnxruntime")
    if name in ("no scale", "scale of no numbers", "result of int32", "bias that is floats", "g_idx"):
        pytest.skip("ONNX Runtime looks at it late or not at all, or serves it")
    (op, arrays, attrs), _ = REFUSED[name]
    made = model(op, arrays, attrs, domain="com.microsoft" if op == "MatMulNBits" else "")
    made.graph.output[0].type.tensor_type.elem_type = (
        TensorProto.FLOAT if op in (D, "MatMulNBits") else TensorProto.UINT8
    )
    options = ort.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(Exception, match=r"ONNXRuntime|Error"):
        ort.InferenceSession(made.SerializeToString(), options).run(None, {"x": arrays["x"]})


def test_a_dynamic_grid_is_compared_node_by_node():
    """Its scale and zero point have no dimensions, and stay so as the interpreter's values."""
    from graph_runtime.accuracy.compare import compare_prepared
    from graph_runtime.artifacts.prepare import prepare
    from graph_runtime.frontends.onnx import load_model

    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 9])],
        [numpy_helper.from_array(np.arange(360, dtype=np.int64).reshape(40, 9).astype(np.int8), "w")],
    )
    source = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    assert compare_prepared(prepare(source, "cpu:0"), nodes=True).ok
