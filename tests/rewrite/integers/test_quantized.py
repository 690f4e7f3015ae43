"""Quantized graphs on hosts: what runs in integers, that it is exact, and what is left in float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.errors import GraphError
from graph_runtime.ir.model import Model
from graph_runtime.ir.ops import registry
from graph_runtime.ir.ops.products.byte_panels import (
    pack_bytes,
    pack_convolution,
    unpack_bytes,
    unpack_convolution,
)

pytestmark = pytest.mark.core
RNG = np.random.default_rng(23)


def ops_of(prepared):
    graph = prepared.plan.graph
    return [graph.funcs[f].op for f in graph.func_id.tolist() if f >= 0]


class Network:
    """A builder of quantized graphs: every tensor of bytes has a scale and a zero point."""

    def __init__(self):
        self.b = gr.GraphBuilder()

    def known(self, value, dtype="float32"):
        return self.b.param(f"p{len(self.b.params)}", np.asarray(value, dtype))

    def real(self, x, scale, zero, dtype="uint8", axis=0):
        return self.b.op("dequantize", x, self.known(scale), self.known(zero, dtype), axis=axis)

    def on_grid(self, x, scale, zero, dtype="uint8"):
        return self.b.op("quantize", x, self.known(scale), self.known(zero, dtype))

    def weight(self, shape, dtype="int8", scale=0.01, zero=0):
        numbers = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape)
        return self.real(self.known(numbers, dtype), scale, zero, dtype)

    def model(self, *outputs):
        for output in outputs:
            self.b.output(output)
        return Model.from_builder(self.b)


def run(model, *inputs):
    """(what is prepared for the host, its results)."""
    prepared = prepare(model, "cpu:0")
    module = gr.create(model, None, "cpu:0")
    module.run(**dict(zip(model.input_names, inputs, strict=True)))
    return prepared, [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def convolution(group=1, dtype="uint8", weight_dtype="int8", zero=0, relu=False):
    n = Network()
    x = n.b.input("x", (2, 8, 9, 7), dtype)
    w = n.weight((40 if group == 1 else 8, 8 // group, 3, 3), weight_dtype, 0.01, zero)
    scale = np.float32(0.02) * np.float32(0.01)
    channels = 40 if group == 1 else 8
    bias = n.real(n.known(RNG.integers(-9000, 9000, channels), "int32"), scale, 0, "int32")
    y = n.b.op("conv2d", n.real(x, 0.02, 3, dtype), w, bias, pads=(1, 1, 1, 1), group=group)
    y = n.b.op("relu", y) if relu else y
    return n.model(n.on_grid(y, 0.6, 7, dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("weight_dtype", "zero"), [("int8", 0), ("uint8", 121)])
@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("relu", [False, True])
def test_a_convolution_between_grids_is_one_integer_node(dtype, weight_dtype, zero, group, relu):
    model = convolution(group, dtype, weight_dtype, zero, relu)
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max + 1, (2, 8, 9, 7)).astype(dtype)
    prepared, (got,) = run(model, x)
    assert set(ops_of(prepared)) == {"transpose", "quantized_conv2d"}
    values = [constant.read() for constant in model.constants.values()]
    numbers = next(v for v in values if v.ndim == 4).astype(np.int64) - zero
    bias = next(v for v in values if v.dtype == np.int32 and v.ndim == 1)
    padded = np.pad(x.astype(np.int64) - 3, ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = np.zeros((2, len(bias), 9, 7), np.int64) + bias[:, None, None]
    for p in range(3):
        for q in range(3):
            part = padded[:, :, p : p + 9, q : q + 7]
            tap = numbers[:, :, p, q]
            sums += part * tap[:, 0, None, None] if group > 1 else np.einsum("nchw,oc->nohw", part, tap)
    scale = np.float32(0.02) * np.float32(0.01) / np.float32(0.6)
    wanted = np.clip(np.rint(sums.astype(np.float32) * scale) + 7, 7 if relu else info.min, info.max)
    np.testing.assert_array_equal(got, wanted.astype(dtype))


def test_ties_go_to_the_even_number():
    n = Network()
    x = n.b.input("x", (1, 1), "uint8")
    w = n.real(n.known([[1]], "int8"), 0.5, 0, "int8")
    model = n.model(n.on_grid(n.b.op("dense", n.real(x, 1.0, 0), w), 1.0, 0))
    prepared = prepare(model, "cpu:0")
    module = gr.create(model, None, "cpu:0")
    assert ops_of(prepared) == ["quantized_dense"]
    for value, wanted in ((1, 0), (3, 2), (5, 2), (7, 4), (255, 128)):
        module.run(x=np.array([[value]], np.uint8))
        assert module.get_output(0).numpy()[0, 0] == wanted


@pytest.mark.parametrize("op", ["hard_swish", "sigmoid", "relu", "gelu"])
def test_a_function_of_one_byte_is_a_table(op):
    n = Network()
    x = n.b.input("x", (7, 91), "int8")
    model = n.model(n.on_grid(n.b.op(op, n.real(x, 0.05, -3, "int8")), 0.03, 100))
    numbers = RNG.integers(-128, 128, (7, 91)).astype(np.int8)
    prepared, (got,) = run(model, numbers)
    assert ops_of(prepared) == ["lookup"]
    real = (numbers.astype(np.float32) + 3) * np.float32(0.05)
    (y,) = registry.require(op).reference([real], registry.require(op).decode({}))
    np.testing.assert_array_equal(got, np.clip(np.rint(y / np.float32(0.03)) + 100, 0, 255).astype(np.uint8))


def test_bytes_that_are_read_on_two_grids():
    n = Network()
    x = n.b.input("x", (3, 7), "uint8")
    model = n.model(n.on_grid(n.b.op("add", n.real(x, 0.02, 3), n.real(x, 0.01, 7)), 0.03, 11))
    numbers = RNG.integers(0, 256, (3, 7)).astype(np.uint8)
    prepared, (got,) = run(model, numbers)
    assert ops_of(prepared) == ["lookup"]
    real = numbers.astype(np.float32)
    total = (real - 3) * np.float32(0.02) + (real - 7) * np.float32(0.01)
    np.testing.assert_array_equal(
        got, np.clip(np.rint(total / np.float32(0.03)) + 11, 0, 255).astype(np.uint8)
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_chain_of_functions_of_one_byte_is_a_table(dtype):
    """gelu as files have it, every step on a grid of its own, its numbers on grids, too."""
    n = Network()
    x, one = n.b.input("x", (2, 130), dtype), n.real(n.known(2, "uint8"), 0.5, 0)
    inner = n.real(n.on_grid(n.b.op("erf", n.real(x, 0.02, 5, dtype)), 0.008, 120), 0.008, 120)
    inner = n.real(n.on_grid(n.b.op("add", inner, one), 0.008, 0), 0.008, 0)
    y = n.b.op("multiply", n.real(x, 0.02, 5, dtype), inner)
    model = n.model(n.on_grid(y, 0.03, 7, "int8"))
    numbers = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (2, 130)).astype(dtype)
    prepared, (got,) = run(model, numbers)
    assert ops_of(prepared) == ["lookup"]
    real = (numbers.astype(np.float32) - 5) * np.float32(0.02)
    (y,) = registry.require("erf").reference([real], {})
    for add, scale, zero in ((0, 0.008, 120), (1, 0.008, 0)):
        y = np.clip(np.rint((y + np.float32(add)) / np.float32(scale)) + zero, 0, 255)
        y = (y - np.float32(zero)) * np.float32(scale)
    wanted = np.clip(np.rint(real * y / np.float32(0.03)) + 7, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(got, wanted)


def test_two_tensors_of_bytes_are_no_table():
    n = Network()
    x, y = n.b.input("x", (3, 7), "uint8"), n.b.input("y", (3, 7), "uint8")
    total = n.b.op(
        "multiply", n.real(x, 0.02, 3), n.real(n.on_grid(n.b.op("relu", n.real(y, 0.1, 7)), 1, 0), 1, 0)
    )
    prepared, _ = run(n.model(n.on_grid(total, 0.03, 11)), *np.zeros((2, 3, 7), np.uint8))
    assert sorted(ops_of(prepared)) == ["lookup", "quantized_map"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_quotients_are_what_a_division_rounds_to(data):
    """Products make them where they can; numbers next to ties, ends and what is no number."""
    dtype = data.draw(st.sampled_from(("uint8", "int8")))
    bits = data.draw(st.integers(0x0B000000, 0x73FFFFFF))
    scale, info = np.array(bits, np.int32).view(np.float32), np.iinfo(dtype)
    zero = data.draw(st.integers(info.min, info.max))
    with np.errstate(all="ignore"):
        ties = (np.arange(-256, 256, dtype=np.float32) + np.float32(0.5)) * scale
        near = ties.view(np.int32)[:, None] + np.arange(-9, 10, dtype=np.int32)
        ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45], np.float32)
        x = np.append(near.view(np.float32).reshape(-1), ends)
        real = np.rint(x / scale) + np.float32(zero)
    b = gr.GraphBuilder()
    names = b.input("x", x.shape), b.input("scale", ()), b.input("zero", (), dtype)
    b.output(b.op("quantize", *names))
    module = gr.create(b, None, "cpu:0")
    module.run(x=x, scale=scale, zero=np.array(zero, dtype))
    wanted = np.clip(np.where(np.isnan(real), info.min, real), info.min, info.max).astype(dtype)
    np.testing.assert_array_equal(module.get_output(0).numpy(), wanted)


@pytest.mark.parametrize("scale", [0.0, -0.02, np.nan, np.inf, 1e-45, 1e-39, 1e30])
@pytest.mark.parametrize("place", ["image", "weight", "result"])
def test_any_scale_gives_what_float32_gives(scale, place):
    scales = {"image": 0.02, "weight": 0.01, "result": 0.3} | {place: scale}
    n = Network()
    x = n.b.input("x", (1, 7, 5, 3), "uint8")
    w = np.full(4, 0.01, np.float32)
    w[2] = scales["weight"]
    weight = n.weight((4, 7, 1, 1), "int8", w, np.zeros(4, np.int8))
    y = n.b.op("conv2d", n.real(x, scales["image"], 3), weight)
    model = n.model(n.on_grid(y, scales["result"], 11))
    numbers = RNG.integers(0, 256, (1, 7, 5, 3)).astype(np.uint8)
    _, (got,) = run(model, numbers)
    kernel = next(c.read() for c in model.constants.values() if c.read().ndim == 4)[:, :, 0, 0]
    with np.errstate(all="ignore"):
        image = (numbers[0].astype(np.float32) - 3) * np.float32(scales["image"])
        real = np.einsum("oc,chw->ohw", kernel * w[:, None], image) / np.float32(scales["result"])
        kept = np.clip(np.where(np.isnan(real), -np.inf, np.rint(real) + 11), 0, 255)
        near = (
            np.abs(np.abs(real - np.rint(real)) - 0.5) < 1e-3
        )  # float32 sums may round such a tie either way
    assert ((got[0] == kept) | near).all()


def test_an_addition_a_pool_and_movements_stay_bytes():
    n = Network()
    x, y = n.b.input("x", (1, 4, 8, 8), "uint8"), n.b.input("y", (1, 4, 4, 4), "uint8")
    pooled = n.b.op("max_pool2d", n.real(x, 0.1, 3), kernel_shape=(2, 2), strides=(2, 2))
    pooled = n.real(n.on_grid(pooled, 0.1, 3), 0.1, 3)
    total = n.b.op("relu", n.b.op("add", pooled, n.real(y, 0.2, 9)))
    flat = n.b.op("flatten", n.real(n.on_grid(total, 0.15, 1), 0.15, 1))
    a = RNG.integers(0, 256, (1, 4, 8, 8)).astype(np.uint8)
    b = RNG.integers(0, 256, (1, 4, 4, 4)).astype(np.uint8)
    prepared, (got,) = run(n.model(n.on_grid(flat, 0.15, 1)), a, b)
    assert sorted(ops_of(prepared)) == ["flatten", "max_pool2d", "quantized_map"]
    most = a.reshape(1, 4, 4, 2, 4, 2).max(axis=(3, 5))
    real = (most.astype(np.float32) - 3) * np.float32(0.1) + (b.astype(np.float32) - 9) * np.float32(0.2)
    wanted = np.clip(np.rint(np.maximum(real, 0) / np.float32(0.15)) + 1, 0, 255)
    np.testing.assert_array_equal(got, wanted.astype(np.uint8).reshape(1, -1))


@pytest.mark.parametrize("scale", [0.0, np.nan, np.inf, 1e-45])
def test_scales_that_are_no_numbers_keep_the_float_path(scale):
    n = Network()
    x = n.b.input("x", (3, 8), "uint8")
    w = n.weight((5, 8))
    model = n.model(n.on_grid(n.b.op("dense", n.real(x, 0.1, 3), w), scale, 7))
    prepared, (got,) = run(model, RNG.integers(0, 256, (3, 8)).astype(np.uint8))
    assert got.dtype == np.uint8
    if not np.isfinite(scale) or scale == 0:
        assert "quantize" in ops_of(prepared)


def test_a_scaled_product_of_integers_is_one_node():
    n = Network()
    x, scale = n.b.input("x", (3, 2, 9), "uint8"), n.b.input("scale", ())
    zero, bias = n.b.input("zero", (), "uint8"), n.known(RNG.standard_normal(33))
    numbers = RNG.integers(-127, 128, (33, 9)).astype(np.int16)
    sums = n.b.op("quantized_dense", x, n.known(numbers, "int16"), zero, to="int32")
    y = n.b.op("add", n.b.op("multiply", n.b.op("cast", sums, to="float32"), scale), bias)
    model = n.model(y)
    a = RNG.integers(0, 256, (3, 2, 9)).astype(np.uint8)
    prepared, (got,) = run(model, a, np.float32(0.01), np.uint8(77))
    assert ops_of(prepared) == ["quantized_dense"]
    wanted = ((a.astype(np.int64) - 77) @ numbers.T).astype(np.float32) * np.float32(0.01)
    np.testing.assert_array_equal(got, wanted + model.constants["p0"].read())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_panels_hold_every_weight_of_bytes(data):
    n, k = data.draw(st.integers(1, 70)), data.draw(st.integers(0, 40))
    zero = data.draw(st.integers(0, 255))
    w = np.random.default_rng(k).integers(0, 256, (n, k)).astype(np.int16) - np.int16(zero)
    np.testing.assert_array_equal(unpack_bytes(pack_bytes(w), n, k), w)
    kernel = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 4)))
    taps = np.random.default_rng(k).integers(0, 256, (n, 1, *kernel)).astype(np.int16) - np.int16(zero)
    got = unpack_convolution(pack_convolution(taps, depthwise=True), n, 0, kernel)
    np.testing.assert_array_equal(got, taps)


def test_a_column_that_spans_more_than_a_byte_is_refused():
    with pytest.raises(GraphError, match="spans more than a byte"):
        pack_bytes(np.array([[-200, 100]], np.int16))


@pytest.mark.parametrize("devices", [["cpu:0"], ["cpu:0", "tt:0"]])
def test_a_note_says_why_products_are_of_floats(devices):
    n = Network()
    x = n.b.input("x", (3, 8), "uint8")
    model = n.model(n.on_grid(n.b.op("dense", n.real(x, 0.02, 3), n.weight((5, 8))), 0.6, 7))
    prepared = prepare(model, devices)
    said = [note.text for note in prepared.notes if "on integer grids are floats" in note.text]
    assert [("tt may run" in text) for text in said] == [True] * (len(devices) - 1)
    assert ("quantized_dense" in ops_of(prepared)) == (devices == ["cpu:0"])
