"""Convolutions, products, softmax, reductions and functions of the host against numpy where sizes are odd:
windows that stick out, groups, tails of rows and columns, rows of any length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graph_runtime import GraphBuilder
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.ir import ops
from graph_runtime.ir.model import Model
from graph_runtime.run.factory import create, set_constants

RNG = np.random.default_rng(3)
pytestmark = pytest.mark.core


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def agree(b: GraphBuilder, values: dict[str, np.ndarray], scale: float) -> None:
    """What was built gives the numbers of its references, run as a host runs it."""
    model = Model.from_builder(b)
    prepared = prepare(model, ["cpu:0"])
    module = create(prepared.plan, None)
    set_constants(module, prepared.model.constants)
    module.run(**values)
    known = {**{name: c.read() for name, c in model.constants.items()}, **values}
    wanted = heads(model.graph, interpret(model.graph, {n: known[n] for n in model.graph.input_names}))
    for i, array_ in enumerate(wanted):
        np.testing.assert_allclose(module.get_output(i).numpy(), array_, rtol=1e-4, atol=scale)


SIZES = st.integers(1, 4)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_convolutions_of_any_shape(data):
    draw = data.draw
    group = draw(st.sampled_from([1, 1, 2, 3, 8]))
    inside, outside = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    kernel, strides, dilations = ([draw(SIZES) for _ in range(2)] for _ in range(3))
    dilations = [d if draw(st.booleans()) else 4 * d - 3 for d in dilations]
    size, pads = [draw(st.integers(1, 33)) for _ in range(2)], [draw(st.integers(0, 9)) for _ in range(4)]
    for d in range(2):
        assume(size[d] + pads[d] + pads[d + 2] > (kernel[d] - 1) * dilations[d])
    b, image = GraphBuilder(), (draw(st.integers(1, 2)), group * inside, *size)
    w = b.param("w", array(group * outside, inside, *kernel))
    inputs = [b.input("x", image), w]
    if draw(st.booleans()):
        inputs.append(b.param("bias", array(group * outside)))
    y = b.op("conv2d", *inputs, strides=strides, pads=pads, dilations=dilations, group=group)
    after = draw(st.sampled_from([None, "relu", "gelu", "silu", "residual"]))
    y = b.op("add", y, b.input("r", y.shape)) if after == "residual" else b.op(after, y) if after else y
    b.output(y)
    values = {"x": array(*image)} | ({"r": array(*y.shape)} if after == "residual" else {})
    agree(b, values, 3e-5 * np.sqrt(inside * kernel[0] * kernel[1]))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_depthwise_convolutions_of_any_shape(data):
    draw = data.draw
    channels, kernel = (
        draw(st.sampled_from([24, 40, *range(1, 46)])),
        [draw(st.sampled_from([1, 3, 5, 7, 9, 11])) for _ in range(2)],
    )
    strides, dilation = [draw(st.integers(1, 3)) for _ in range(2)], draw(st.sampled_from([1, 1, 1, 2]))
    size, pads = [draw(st.integers(1, 30)) for _ in range(2)], [draw(st.integers(0, 4)) for _ in range(4)]
    for d in range(2):
        assume(size[d] + pads[d] + pads[d + 2] > (kernel[d] - 1) * dilation)
    b, image = GraphBuilder(), (draw(st.integers(1, 2)), channels, *size)
    inputs = [b.input("x", image), b.param("w", array(channels, 1, *kernel))]
    if draw(st.booleans()):
        inputs.append(b.param("bias", array(channels)))
    attrs = {"strides": strides, "pads": pads, "dilations": [dilation] * 2}
    y = b.op("conv2d", *inputs, group=channels, **attrs)
    after = draw(st.sampled_from([None, "relu", "gelu", "residual"]))
    y = b.op("add", y, b.input("r", y.shape)) if after == "residual" else b.op(after, y) if after else y
    b.output(y)
    values = {"x": array(*image)} | ({"r": array(*y.shape)} if after == "residual" else {})
    agree(b, values, 3e-5 * np.sqrt(kernel[0] * kernel[1]))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_pools_with_channels_last_of_any_shape(data):
    draw = data.draw
    channels, mean = draw(st.sampled_from([1, 3, 4, 7, 8, 24, 33, 700])), draw(st.booleans())
    kernel, strides = ([draw(st.integers(1, 5)) for _ in range(2)] for _ in range(2))
    size = [draw(st.integers(1, 24 if channels < 100 else 9)) for _ in range(2)]
    pads = [draw(st.integers(0, kernel[d % 2] // 2)) for d in range(4)]
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": draw(st.booleans())}
    for d in range(2):
        assume(size[d] + pads[d] + pads[d + 2] >= kernel[d])
    if mean:
        attrs["count_include_pad"] = draw(st.booleans())
    b, image = GraphBuilder(), (draw(st.integers(1, 2)), *size, channels)
    op = "avg_pool2d" if mean else "max_pool2d"
    b.output(b.op(op, b.input("x", image), layout="NHWC", **attrs))
    x = array(*image)
    if not mean and draw(st.booleans()):
        x.flat[RNG.integers(x.size)] = np.nan
        x.flat[RNG.integers(x.size)] = -np.inf
    agree(b, {"x": x}, 1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 80), st.integers(1, 60), st.integers(1, 70), st.booleans(), st.booleans())
def test_short_products_of_any_shape(rows, k, n, clamped, residual):
    b = GraphBuilder()
    y = b.op("dense", b.input("x", (rows, k)), b.param("w", array(n, k)), b.param("bias", array(n)))
    y = b.op("add", y, b.input("r", (rows, n))) if residual else y
    b.output(b.op("clip", y, min=-0.5, max=0.75) if clamped else y)
    values = {"x": array(rows, k)} | ({"r": array(rows, n)} if residual else {})
    values["x"].flat[RNG.integers(rows * k)] = np.nan if rows > 20 else 1
    agree(b, values, 3e-5 * np.sqrt(k))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_convolutions_of_volumes_of_any_shape(data):
    draw = data.draw
    inside, outside, batch = draw(st.integers(1, 9)), draw(st.integers(1, 20)), draw(st.integers(1, 2))
    kernel, strides, dilations = ([draw(st.integers(1, 3)) for _ in range(3)] for _ in range(3))
    size, pads = [draw(st.integers(1, 9)) for _ in range(3)], [draw(st.integers(0, 2)) for _ in range(6)]
    for d in range(3):
        assume(size[d] + pads[d] + pads[d + 3] > (kernel[d] - 1) * dilations[d])
    b, image = GraphBuilder(), (batch, inside, *size)
    inputs = [b.input("x", image), b.param("w", array(outside, inside, *kernel))]
    if draw(st.booleans()):
        inputs.append(b.param("bias", array(outside)))
    y = b.op("conv3d", *inputs, strides=strides, pads=pads, dilations=dilations)
    values, after = {"x": array(*image)}, draw(st.sampled_from([None, "relu", "channel", "residual"]))
    if after == "residual":
        y, values["r"] = b.op("add", y, b.input("r", y.shape)), array(*y.shape)
    elif after:
        y = b.op(after, y) if after == "relu" else b.op("multiply", y, b.param("s", array(outside, 1, 1, 1)))
    window = [min(2, n) for n in y.shape[2:]]
    y = b.op("max_pool3d", y, kernel_shape=window, strides=window) if draw(st.booleans()) else y
    y = b.op("conv3d", y, b.param("v", array(3, outside, 1, 1, 1))) if draw(st.booleans()) else y
    b.output(y)
    agree(b, values, 1e-4 * np.sqrt(inside * outside * np.prod(kernel)))


@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 31, 33, 40, 48, 49, 64])
def test_one_row_times_panels_that_are_full_or_half_empty(n):
    b = GraphBuilder()
    x, residual = b.input("x", (1, 389)), b.input("r", (1, n))
    y = b.op("dense", x, b.param("w", array(n, 389)), b.param("bias", array(n)))
    b.output(b.op("relu", b.op("add", y, residual)))
    agree(b, {"x": array(1, 389), "r": array(1, n)}, 3e-5 * np.sqrt(389))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 45), st.sampled_from([1, 7, 31, 383, 384, 385, 512, 800]), st.integers(1, 75))
def test_products_of_any_shape(rows, k, n):
    b = GraphBuilder()
    x = b.input("x", (rows, k))
    b.output(b.op("tanh", b.op("dense", x, b.param("w", array(n, k)), b.param("bias", array(n)))))
    agree(b, {"x": array(rows, k)}, 3e-5 * np.sqrt(k))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 70), st.booleans(), st.booleans())
def test_softmax_of_rows_of_any_length(rows, n, logs, whole):
    x = 5 * array(rows, n)
    x[0, RNG.integers(n)] = -np.inf if n > 1 and not whole else 3
    b = GraphBuilder()
    b.output(b.op("log_softmax" if logs else "softmax", b.input("x", x.shape)))
    agree(b, {"x": x}, 1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["sum", "mean", "max", "min", "sum_squares", "prod"]),
    st.lists(st.sampled_from([1, 2, 3, 17, 40, 65, 130]), min_size=1, max_size=3),
    st.sets(st.integers(0, 2), min_size=1),
    st.booleans(),
)
def test_reductions_of_any_axes(name, shape, axes, hidden):
    axes = sorted({a % len(shape) for a in axes})
    x = array(*shape) if name != "prod" else np.sign(array(*shape)) * np.float32(1)
    if hidden and name in ("max", "min"):
        x.flat[RNG.integers(x.size)] = np.nan
    b = GraphBuilder()
    b.output(b.op(name, b.input("x", x.shape), axes=axes, keepdims=False))
    agree(b, {"x": x}, 1e-5 * np.sqrt(x.size))


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "silu", "gelu", "erf", "elu", "softplus", "mish"])
def test_functions_keep_what_is_small_and_what_is_no_number(name):
    op = ops.require(name)
    x = np.concatenate([np.linspace(-120, 120, 4001), np.logspace(-44, 3, 300), -np.logspace(-44, 3, 300)])
    x = np.append(x.astype(np.float32), [np.float32(np.nan), np.float32(np.inf), np.float32(0)])
    with np.errstate(all="ignore"):
        (wanted,) = op.reference([x.astype(np.float64)], op.decode({}))
    b = GraphBuilder()
    b.output(b.op(name, b.input("x", x.shape)))
    prepared = prepare(Model.from_builder(b), ["cpu:0"])
    module = create(prepared.plan, None)
    module.run(x=x)
    got = module.get_output(0).numpy()
    with np.errstate(over="ignore"):
        wanted = wanted.astype(np.float32)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=3e-45)
