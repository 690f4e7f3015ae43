"""Infinities and NaN on hosts: they reach the results that read them and no others, whatever zeros are around
a panel's tail, an odd channel, a group or a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graph_runtime import GraphBuilder
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.ir.model import Model
from graph_runtime.run.factory import create, set_constants

pytestmark = pytest.mark.core
SIZES, SEEDS = st.integers(1, 4), st.integers(0, 99)
FORMATS = st.sampled_from([{}, {"cpu": "bf16"}])
UNUSUAL = (np.inf, -np.inf, np.nan, -0.0)


def with_unusual(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some elements are what sums cannot undo."""
    at = rng.integers(x.size, size=rng.integers(1, 4))
    x.flat[at] = rng.choice(UNUSUAL, at.size)
    return x


def agree(
    b: GraphBuilder, values: dict[str, np.ndarray], formats: dict[str, str], *, spreads: bool = False
) -> None:
    """As the references on a host. ``spreads``: beside a NaN there may be more of them, and nothing else."""
    model = Model.from_builder(b)
    prepared = prepare(model, ["cpu:0"], formats=formats)
    module = create(prepared.plan, None)
    set_constants(module, prepared.model.constants)
    module.run(**values)
    known = {**{name: c.read() for name, c in model.constants.items()}, **values}
    with np.errstate(all="ignore"):
        wanted = heads(model.graph, interpret(model.graph, {n: known[n] for n in model.graph.input_names}))
    scale = 3e-2 if formats else 1e-4
    for i, array in enumerate(wanted):
        got = module.get_output(i).numpy()
        if spreads:
            assert np.isnan(got[np.isnan(array)]).all()
            array = np.where(np.isnan(got), got, array)
        finite = np.abs(array[np.isfinite(array)])
        atol = scale * max(float(finite.max()) if finite.size else 0.0, 1.0)
        np.testing.assert_allclose(got, array, rtol=scale, atol=atol)


@settings(max_examples=120, deadline=None)
@given(st.data(), FORMATS, SEEDS)
def test_convolutions(data, formats, seed):
    draw, rng = data.draw, np.random.default_rng(seed)
    group = draw(st.sampled_from([1, 1, 2, 3, 8, 33]))
    inside, outside = draw(st.integers(1, 20 if group < 8 else 4)), draw(st.integers(1, 20))
    kernel, strides, dilations = ([draw(SIZES) for _ in range(2)] for _ in range(3))
    size, pads = [draw(st.integers(1, 17)) for _ in range(2)], [draw(st.integers(0, 4)) for _ in range(4)]
    if depthwise := draw(st.booleans()):
        inside = outside = 1
    for d in range(2):
        assume(size[d] + pads[d] + pads[d + 2] > (kernel[d] - 1) * dilations[d])
    b, image = GraphBuilder(), (draw(st.integers(1, 2)), group * inside, *size)
    w = b.param("w", rng.standard_normal((group * outside, inside, *kernel)).astype(np.float32))
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    b.output(b.op("conv2d", b.input("x", image), w, **attrs))
    x = with_unusual(rng.standard_normal(image).astype(np.float32), rng)
    tiles = kernel == [3, 3] and strides == dilations == [1, 1]
    folded = bool(formats) and inside % 2 == 1 and strides[1] % 2 == 0 and kernel[1] % strides[1] > 0
    # groups of other sizes share panels, zeros between them (docs/cpu.md, Numbers)
    agree(b, {"x": x}, formats, spreads=tiles or folded or (group > 1 and not depthwise))


@settings(max_examples=40, deadline=None)
@given(SIZES, SIZES, st.integers(0, 2), st.sampled_from([1, 4]), st.integers(1, 9), FORMATS, SEEDS)
def test_transposed_convolutions(kernel, stride, pad, group, size, formats, seed):
    rng = np.random.default_rng(seed)
    assume((size - 1) * stride + kernel > 2 * pad)
    b = GraphBuilder()
    w = b.param("w", rng.standard_normal((8, 8 // group, kernel, kernel)).astype(np.float32))
    attrs = {"strides": (stride, stride), "pads": (pad,) * 4, "group": group}
    b.output(b.op("conv_transpose2d", b.input("x", (1, 8, size, size + 1)), w, **attrs))
    x = with_unusual(rng.standard_normal((1, 8, size, size + 1)).astype(np.float32), rng)
    # kernels that are no multiple of the stride have zeros behind them (docs/cpu.md, Numbers)
    agree(b, {"x": x}, formats, spreads=group > 1 or kernel % stride > 0 or kernel // stride == 3)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 70), st.booleans(), FORMATS, SEEDS)
def test_products(rows, k, n, constant, formats, seed):
    rng = np.random.default_rng(seed)
    b, w = GraphBuilder(), rng.standard_normal((k, n)).astype(np.float32)
    x = b.input("x", (rows, k))
    values = {"x": with_unusual(rng.standard_normal((rows, k)).astype(np.float32), rng)}
    if not constant:
        values["w"] = with_unusual(w, rng)
    b.output(b.op("matmul", x, b.param("w", w) if constant else b.input("w", (k, n))))
    agree(b, values, formats)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 80), st.integers(1, 80), st.integers(1, 40), FORMATS, SEEDS)
def test_attention(heads_, queries, keys, width, formats, seed):
    """A score that is no number makes NaN of its query's row; a value that is none, of its column."""
    rng = np.random.default_rng(seed)
    shapes = {"q": (1, heads_, queries, width), "k": (1, heads_, keys, width), "v": (1, heads_, keys, width)}
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    odd = rng.choice(list(shapes))
    with_unusual(values[odd], rng)
    b = GraphBuilder()
    b.output(b.op("attention", *(b.input(name, shape) for name, shape in shapes.items())))
    agree(b, values, formats)


@pytest.mark.parametrize("group", [1, 6])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_sums_of_convolutions(value, group):
    """The zeros around a smaller kernel are added to the larger one's weights, so that they meet no pixel
    that the larger one did not. Weights that are added have one sign: else their infinities were NaN."""
    rng = np.random.default_rng(group)
    b = GraphBuilder()
    x = b.input("x", (1, 6, 9, 9))
    large, small = (rng.standard_normal((6, 6 // group, k, k)).astype(np.float32) for k in (5, 1))
    small = np.copysign(small, large[:, :, 2:3, 2:3])
    made = b.op("conv2d", x, b.param("w", large), pads=(2, 2, 2, 2), group=group)
    made = b.op("add", made, b.op("conv2d", x, b.param("v", small), group=group))
    scale = np.copysign(np.ones((6, 1, 1)), np.einsum("ccij->cij" if group == 1 else "caij->cij", small))
    b.output(b.op("add", made, b.op("multiply", x, b.param("s", scale.astype(np.float32)))))
    image = rng.standard_normal((1, 6, 9, 9)).astype(np.float32)
    image[0, 3, 4, 5] = value
    agree(b, {"x": image}, {})
