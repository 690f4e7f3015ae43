"""What a model becomes for the devices that its nodes were placed on: the same numbers, channels last and
weights in panels on hosts only, every node where it was placed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graph_runtime import GraphBuilder
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.ir.model import Model
from graph_runtime.ir.ops.products.packed import unpack
from graph_runtime.plan import plan
from graph_runtime.plan.passes import place
from graph_runtime.plan.placing import make_problem
from graph_runtime.plan.pricing import Pricing
from graph_runtime.rewrite import fuse, simplify
from graph_runtime.rewrite.target import target

RNG = np.random.default_rng(5)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def outputs(model, values):
    given_ = {**{name: c.read() for name, c in model.constants.items()}, **values}
    return heads(model.graph, interpret(model.graph, {n: given_[n] for n in model.graph.input_names}))


def ops_of(model):
    return [model.graph.funcs[f].op for f in model.graph.func_id if f >= 0]


def perms_of(model):
    """Of the transposes, in order."""
    funcs = [model.graph.funcs[f] for f in model.graph.func_id if f >= 0]
    return [f.attrs["perm"] for f in funcs if f.op == "transpose"]


def agree(b, values, devices="cpu:0", pins=None, scale=1e-5):
    """Target what was built; it computes the same, and can be planned. Returns (model, placement)."""
    model = Model.from_builder(b)
    made, placement = target(model, place(model.graph, devices, pins=pins))
    for got, wanted in zip(outputs(made, values), outputs(model, values), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=scale)
    assert made.output_names == model.output_names
    assert placement.graph is made.graph
    plan(made.graph, devices, placed=placement)
    return made, placement


@pytest.mark.parametrize(
    ("image", "weight", "attrs", "wanted"),
    [
        ((1, 16, 16, 16), (8, 16, 3, 3), {"pads": (1, 1, 1, 1)}, True),
        ((1, 48, 13, 9), (32, 12, 3, 3), {"pads": (1, 1, 1, 1), "group": 4}, True),  # 2 groups share panels
        ((1, 32, 13, 9), (32, 8, 3, 3), {"pads": (1, 1, 1, 1), "group": 4}, False),  # a kernel of their own
        ((1, 8, 16, 16), (16, 8, 3, 3), {"pads": (1, 1, 1, 1)}, False),  # few channels
        ((1, 16, 16, 16), (16, 16, 3, 3), {"strides": (2, 2)}, False),
        ((1, 16, 16, 16), (16, 16, 3, 3), {"dilations": (2, 2)}, False),
        ((1, 16, 16, 16), (16, 16, 1, 1), {}, False),
        ((1, 16, 16, 16), (8, 16, 3, 3), {"kernel": "conv2d"}, False),
        ((1, 16, 16, 16), (16, 1, 3, 3), {"group": 16}, False),  # depthwise
        ((1, 16, 3, 30), (16, 16, 3, 3), {}, False),  # one row: tiles overhang
        ((1, 128, 7, 7), (128, 128, 3, 3), {"pads": (1, 1, 1, 1)}, False),  # 4 tiles, weights of 2.3 MB
    ],
)
def test_convolutions_of_three_taps_are_made_of_tiles_where_that_pays(image, weight, attrs, wanted):
    b = GraphBuilder()
    x, w, bias = b.input("x", image), b.param("w", array(*weight)), b.param("b", array(weight[0]))
    b.output(b.op("relu", b.op("conv2d", x, w, bias, name="c", **attrs)))
    made, _ = agree(b, {"x": array(*image)}, scale=1e-5 * np.sqrt(9 * weight[1]))
    (conv,) = (f for f in made.graph.funcs if f.op == "conv2d")
    assert bool(conv.attrs.get("winograd")) == wanted


@pytest.mark.parametrize("whole", [True, False])
def test_a_norm_of_a_whole_image_keeps_channels_last(whole):
    """Two images of 4 x 6 x 5: rows of all elements are in another order; those of half of it stay."""
    b = GraphBuilder()
    rows = (2, 1, 120) if whole else (2, 2, 60)
    y = b.op("conv2d", b.input("x", (2, 3, 6, 5)), b.param("w", array(4, 3, 3, 3)), pads=(1, 1, 1, 1))
    scale, bias = b.param("s", array(rows[-1])), b.param("t", array(rows[-1]))
    y = b.op("reshape", b.op("layer_norm", b.op("reshape", y, shape=rows), scale, bias), shape=(2, 4, 6, 5))
    y = b.op("avg_pool2d", y, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    b.output(b.op("conv2d", y, b.param("v", array(2, 4, 1, 1))))
    made, _ = agree(b, {"x": array(2, 3, 6, 5)})
    wanted = [(0, 2, 3, 1), (0, 3, 1, 2)]
    assert perms_of(made) == (wanted if whole else [wanted[0], wanted[1], *wanted])


@pytest.mark.parametrize("split", [(6, 5), (30,), (2, 3, 5)])
def test_tokens_become_an_image_without_a_transpose(split):
    """[n, l, c] -> [n, c, l] -> [n, c, h, w] is only another shape where channels are last. Other numbers of
    dimensions than an image's, and reshapes that take channels apart, stay as they are."""
    b = GraphBuilder()
    y = b.op("transpose", b.input("x", (2, 30, 8)), perm=(0, 2, 1))
    y = b.op("reshape", y, shape=(2, 8, *split) if len(split) == 2 else (2, 4, 2 * split[0], -1))
    c = y.shape[1]
    y = b.op("conv2d", y, b.param("w", array(c, 1, 3, 3)), pads=(1, 1, 1, 1), group=c)
    y = b.op("transpose", b.op("reshape", y, shape=(2, c, -1)), perm=(0, 2, 1))
    b.output(y)
    made, _ = agree(b, {"x": array(2, 30, 8)})
    assert len(perms_of(made)) == (0 if len(split) == 2 else 2)


def image_network(pool="max_pool2d", between=()):
    b = GraphBuilder()
    x = b.input("x", (2, 3, 12, 10))
    y = b.op(
        "conv2d", x, b.param("w1", array(8, 3, 3, 3)), b.param("b1", array(8)), pads=(1, 1, 1, 1), name="c1"
    )
    y = b.op("relu", y, name="r1")
    z = b.op("conv2d", y, b.param("w2", array(8, 1, 3, 3)), pads=(1, 1, 1, 1), group=8, name="c2")
    y = b.op("add", y, z, name="sum")
    y = b.op("multiply", y, b.param("scale", array(8, 1, 1)), name="scaled")
    y = b.op(pool, y, kernel_shape=(2, 2), strides=(2, 2), name="p")
    y = b.op("conv2d", y, b.param("w3", array(5, 8, 1, 1)), name="c3")
    y = b.op("global_avg_pool2d", y, name="g")
    y = b.op("reshape", y, shape=(2, 5), name="flat")
    b.output(b.op("dense", y, b.param("w4", array(4, 5)), b.param("b4", array(4)), name="logits"))
    return b


@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
def test_an_image_is_transposed_once_for_a_whole_network(pool):
    made, _ = agree(image_network(pool), {"x": array(2, 3, 12, 10)})
    assert ops_of(made).count("transpose") == 1
    layouts = {f.op: f.attrs["layout"] for f in made.graph.funcs if "layout" in f.attrs}
    assert set(layouts.values()) == {"NHWC"}
    assert all(f.attrs["packed"] for f in made.graph.funcs if f.op in ("conv2d", "dense"))
    assert {note.rule for note in made.notes} == {"channels_last", "pack_weights"}


@pytest.mark.parametrize(
    ("kernel", "attrs", "pools"),
    [
        ((5, 5), {"pads": (2, 2, 2, 2)}, 2),
        ((4, 6), {"pads": (1, 2, 0, 3), "strides": (1, 2)}, 2),
        ((8, 8), {"strides": (2, 2), "ceil_mode": True}, 2),
        ((5, 5), {"strides": (5, 5)}, 1),
        ((3, 3), {"pads": (1, 1, 1, 1)}, 1),
    ],
)
def test_large_maxima_are_taken_along_rows_and_columns_in_turn(kernel, attrs, pools):
    b = GraphBuilder()
    y = b.op("conv2d", b.input("x", (2, 3, 15, 16)), b.param("w", array(8, 3, 1, 1)))
    b.output(b.op("max_pool2d", y, kernel_shape=kernel, **attrs))
    made, _ = agree(b, {"x": array(2, 3, 15, 16)})
    assert ops_of(made).count("max_pool2d") == pools


def _branches(b, y):
    parts = [b.op("slice", y, starts=(i,), ends=(i + 4,), axes=(1,)) for i in (0, 4)]
    return b.op("concatenate", b.op("relu", parts[1]), parts[0], axis=1)


def _shuffled(b, y):
    n, c, h, w = y.shape
    y = b.op("reshape", y, shape=(n, 2, c // 2, h, w))
    return b.op("reshape", b.op("transpose", y, perm=(0, 2, 1, 3, 4)), shape=(n, c, h, w))


def _excited(b, y):
    gate = b.op("mean", y, axes=(2, 3), keepdims=True)
    gate = b.op("conv2d", gate, b.param("gate", array(8, 8, 1, 1)))
    return b.op("multiply", y, b.op("sigmoid", gate))


def _in_rows(b, y):  # as ConvNeXt has it: a block that is written with channels last
    z = b.op("transpose", y, perm=(0, 2, 3, 1))
    z = b.op("layer_norm", z, b.param("s", array(8)), b.param("t", array(8)))
    return b.op("add", y, b.op("transpose", b.op("relu", z), perm=(0, 3, 1, 2)))


def _padded(b, y):
    y = b.op("pad", y, pads=(0, 1, 0, 2, 0, 0, 1, 0), value=0.5)
    return b.op("slice", y, starts=(1, -5), ends=(9, 100), axes=(1, 3))


def _stretched(b, y):
    rows = b.param("rows", np.array([0, 0, 1, 3, 2], np.int32))
    return b.op("take", y, rows, axis=2)


def _as_a_line(b, y):
    n, c, h, w = y.shape
    line = b.op("reshape", y, shape=(n, c, h * w))
    line = b.op("multiply", b.op("bias_add", line, b.param("bias", array(c))), b.param("k", array(c, 1)))
    return b.op("reshape", line, shape=(n, c, h, w))


@pytest.mark.parametrize(
    "between",
    [_branches, _shuffled, _excited, _in_rows, _padded, _stretched, _as_a_line],
    ids=lambda f: f.__name__,
)
def test_what_lies_between_convolutions_moves_no_image(between):
    b = GraphBuilder()
    y = b.op("conv2d", b.input("x", (2, 3, 6, 7)), b.param("w", array(8, 3, 3, 3)), pads=(1, 1, 1, 1))
    y = between(b, y)
    y = b.op("conv2d", y, b.param("v", array(5, 8, 3, 3)))
    b.output(b.op("mean", y, axes=(2, 3), keepdims=False))
    made, _ = agree(b, {"x": array(2, 3, 6, 7)})
    shuffle = [(0, 1, 2, 4, 3)] if between is _shuffled else []  # of channels, in its place
    assert perms_of(made) == [(0, 2, 3, 1), *shuffle]


def test_a_row_of_patches_is_read_where_the_convolution_put_it():
    b = GraphBuilder()
    y = b.op("conv2d", b.input("x", (2, 3, 8, 8)), b.param("w", array(16, 3, 4, 4)), strides=(4, 4))
    y = b.op("transpose", b.op("reshape", y, shape=(2, 16, 4)), perm=(0, 2, 1))
    b.output(b.op("dense", y, b.param("v", array(5, 16))))
    made, _ = agree(b, {"x": array(2, 3, 8, 8)})
    assert ops_of(made).count("transpose") == 1


def _stretching(n, m, taps):
    """[m, n], few elements a row."""
    matrix = np.zeros((m, n), np.float32)
    for row in matrix:
        row[RNG.choice(n, taps, replace=False)] = RNG.standard_normal(taps)
    return matrix


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize(("taps", "found"), [(1, True), (2, True), (4, True), (7, False)])
def test_a_product_along_an_axis_with_a_nearly_empty_matrix_is_a_sum_of_few(axis, taps, found):
    b = GraphBuilder()
    shape = [2, 16, 17, 18]
    n = shape[axis]
    perm = [*(d for d in range(4) if d != axis), axis]
    y = b.input("x", shape) if axis == 3 else b.op("transpose", b.input("x", shape), perm=perm)
    y = b.op("reshape", y, shape=(-1, n))
    y = b.op("matmul", y, b.param("m", _stretching(n, 5, taps)), transpose_b=True)
    y = b.op("reshape", y, shape=(*(shape[p] for p in perm[:3]), 5))
    b.output(b.op("relu", y if axis == 3 else b.op("transpose", y, perm=[perm.index(d) for d in range(4)])))
    made, _ = agree(b, {"x": array(*shape)})
    assert ops_of(made) == ["resample", "relu"] if found else "resample" not in ops_of(made)


def test_a_stretched_image_between_convolutions_moves_no_image():
    b = GraphBuilder()
    y = b.op("conv2d", b.input("x", (1, 3, 18, 18)), b.param("w", array(8, 3, 3, 3)))
    y = b.op("transpose", y, perm=(0, 1, 3, 2))
    y = b.op("reshape", y, shape=(128, 16))
    y = b.op("matmul", y, b.param("m", _stretching(16, 32, 2)), transpose_b=True)
    y = b.op("transpose", b.op("reshape", y, shape=(1, 8, 16, 32)), perm=(0, 1, 3, 2))
    b.output(b.op("global_avg_pool2d", b.op("conv2d", y, b.param("u", array(5, 8, 1, 1)))))
    made, _ = agree(b, {"x": array(1, 3, 18, 18)})
    assert perms_of(made) == [(0, 2, 3, 1)]


@pytest.mark.parametrize(
    ("channels", "out", "group", "packed"),
    [
        (32, 32, 4, True),
        (64, 48, 2, True),
        (24, 72, 3, True),
        (40, 40, 5, True),
        (16, 32, 16, True),
        (32, 16, 16, False),
        (8, 8, 8, True),
    ],
)
def test_groups_are_packed_where_few_share_panels(channels, out, group, packed):
    b = GraphBuilder()
    w = b.param("w", array(out, channels // group, 3, 3))
    y = b.op("conv2d", b.input("x", (1, channels, 6, 7)), w, group=group, pads=(1, 1, 1, 1))
    b.output(b.op("relu", y))
    made, _ = agree(b, {"x": array(1, channels, 6, 7)})
    (conv,) = [f for f in made.graph.funcs if f.op == "conv2d"]
    assert bool(conv.attrs["packed"]) == packed


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_transposed_convolutions_become_convolutions(data):
    group = data.draw(st.sampled_from([1, 1, 2]))
    channels, out = group * data.draw(st.integers(1, 4)), data.draw(st.sampled_from([1, 2, 3, 5, 16, 20]))
    kernel, strides = [[data.draw(st.integers(1, 5)) for _ in range(2)] for _ in range(2)]
    size = [data.draw(st.integers(1, 6)) for _ in range(2)]
    more = [data.draw(st.integers(0, s - 1)) for s in strides]
    pads = [data.draw(st.integers(0, k + 2)) for k in (*kernel, *kernel)]
    for d in range(2):
        made = (size[d] - 1) * strides[d] + kernel[d] + more[d] - pads[d] - pads[d + 2]
        assume(made > 0)
    b = GraphBuilder()
    w = b.param("w", array(channels, out, *kernel))
    inputs = [b.input("x", (2, channels, *size)), w]
    if data.draw(st.booleans()):
        inputs.append(b.param("bias", array(group * out)))
    attrs = {"strides": strides, "pads": pads, "group": group, "output_padding": more}
    b.output(b.op("relu", b.op("conv_transpose2d", *inputs, **attrs)))
    made, _ = agree(b, {"x": array(2, channels, *size)})
    assert "conv_transpose2d" not in ops_of(made)


@pytest.mark.parametrize(
    ("size", "kernel", "pad", "more", "convolutions"),
    [
        (4, 4, 1, 0, 4),  # 5 x 5 places for each step of the strides at once, 4 x 4 alone
        (16, 4, 1, 0, 1),
        (9, 3, 1, 1, 4),  # 4 x 4 taps at once, of which 9 are not zero
        (9, 2, 0, 0, 1),
        (9, 3, 0, 0, 1),  # an odd number of results
    ],
)
def test_steps_of_a_stride_are_convolutions_of_their_own_where_that_pays(
    size, kernel, pad, more, convolutions
):
    b = GraphBuilder()
    x, w = b.input("x", (1, 6, size, size)), b.param("w", array(6, 32, kernel, kernel))
    attrs = {"strides": (2, 2), "pads": (pad,) * 4, "output_padding": (more, more)}
    b.output(b.op("relu", b.op("conv_transpose2d", x, w, b.param("bias", array(32)), **attrs)))
    made, _ = agree(b, {"x": array(1, 6, size, size)})
    assert ops_of(made).count("conv2d") == convolutions
    assert ops_of(made).count("relu") == 0 or convolutions == 1


@pytest.mark.parametrize("after", [("relu",), ("elu",), ("sigmoid", "tanh"), ("silu",)])
def test_a_transposed_convolution_takes_its_bias_and_functions_along(after):
    b = GraphBuilder()
    w, bias = b.param("w", array(4, 6, 4, 4)), b.param("bias", array(6))
    y = b.op("conv_transpose2d", b.input("x", (1, 4, 5, 5)), w, bias, strides=(2, 2), pads=(1, 1, 1, 1))
    for name in after:
        y = b.op(name, y)
    b.output(y)
    model = fuse(Model.from_builder(b))
    made, _ = target(model, place(model.graph, "cpu:0"))
    values = {"x": array(1, 4, 5, 5)}
    for got, wanted in zip(outputs(made, values), outputs(Model.from_builder(b), values), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert set(ops_of(made)) == {"conv2d", "transpose", "slice", "reshape"}


@pytest.mark.parametrize("group", [1, 2])
def test_a_scale_behind_a_transposed_convolution_goes_into_its_weights(group):
    b = GraphBuilder()
    y = b.op("conv_transpose2d", b.input("x", (2, 4, 5, 6)), b.param("w", array(4, 3, 3, 3)), group=group)
    y = b.op("multiply", y, b.param("scale", array(3 * group, 1, 1)))
    b.output(b.op("add", y, b.param("shift", array(3 * group, 1, 1))))
    model, values = Model.from_builder(b), {"x": array(2, 4, 5, 6)}
    made = simplify(model)
    for got, wanted in zip(outputs(made, values), outputs(model, values), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert (ops_of(made) == ["conv_transpose2d"]) == (group == 1)


@pytest.mark.parametrize(
    ("size", "kernel", "attrs", "wanted"),
    [
        (14, 3, {"dilations": (24, 24), "pads": (24,) * 4}, (1, 1)),
        (14, 3, {"dilations": (12, 12), "pads": (12,) * 4}, (3, 3)),
        (5, 5, {"dilations": (4, 1), "pads": (8, 2, 8, 2)}, (3, 5)),
        (6, 5, {"pads": (7, 0, 2, 0), "strides": (3, 1)}, (5, 5)),
        (1, 3, {"pads": (1,) * 4}, (1, 1)),
    ],
)
def test_taps_that_meet_padding_only_go(size, kernel, attrs, wanted):
    b = GraphBuilder()
    x, w = b.input("x", (1, 6, size, size)), b.param("w", array(7, 6, kernel, kernel))
    b.output(b.op("conv2d", x, w, b.param("bias", array(7)), **attrs))
    made, _ = agree(b, {"x": array(1, 6, size, size)})
    (conv,) = [f for f in made.graph.funcs if f.op == "conv2d"]
    assert tuple(conv.attrs["kernel_shape"]) == wanted


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_convolutions_with_any_padding_keep_their_numbers(data):
    size, kernel, strides, dilations, pads = (
        [data.draw(st.integers(low, high)) for _ in range(count)]
        for low, high, count in ((1, 6, 2), (1, 4, 2), (1, 3, 2), (1, 7, 2), (0, 12, 4))
    )
    for d in range(2):
        assume(size[d] + pads[d] + pads[d + 2] > (kernel[d] - 1) * dilations[d])
    b = GraphBuilder()
    w = b.param("w", array(3, 2, *kernel))
    y = b.op("conv2d", b.input("x", (2, 2, *size)), w, strides=strides, dilations=dilations, pads=pads)
    b.output(b.op("relu", y))
    agree(b, {"x": array(2, 2, *size)})


@pytest.mark.parametrize("several", [2, 3])
@pytest.mark.parametrize("rest", [False, True])
def test_several_results_of_a_channel_are_convolutions_of_one_each(several, rest):
    b = GraphBuilder()
    w, bias = b.param("w", array(5 * several, 1, 3, 3)), b.param("bias", array(5 * several))
    x, attrs = b.input("x", (1, 5, 7, 6)), {"group": 5, "strides": (2, 1), "pads": (1, 1, 1, 1)}
    inputs = [x, w, bias] if rest else [x, w]
    y = b.op("conv2d", *inputs, **attrs)
    values = {"x": array(1, 5, 7, 6)}
    if rest:
        y = b.op("relu", b.op("add", y, b.input("r", y.shape)))
        values["r"] = array(*y.shape)
    b.output(y)
    model = fuse(Model.from_builder(b))
    made, _ = target(model, place(model.graph, "cpu:0"))
    for got, wanted in zip(outputs(made, values), outputs(model, values), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    (conv,) = [f for f in made.graph.funcs if f.op == "conv2d"]
    assert conv.attrs["group"] == 5 * several
    assert conv.attrs["packed"]


def test_a_transposed_convolution_between_convolutions_moves_no_image():
    b = GraphBuilder()
    y = b.op("conv2d", b.input("x", (1, 3, 6, 6)), b.param("w", array(8, 3, 3, 3)))
    y = b.op("conv_transpose2d", y, b.param("v", array(8, 4, 4, 4)), strides=(2, 2), pads=(1, 1, 1, 1))
    b.output(b.op("global_avg_pool2d", b.op("conv2d", b.op("relu", y), b.param("u", array(5, 4, 1, 1)))))
    made, _ = agree(b, {"x": array(1, 3, 6, 6)})
    assert perms_of(made) == [(0, 2, 3, 1), (0, 1, 3, 2, 4)]


def test_an_image_whose_channels_meet_the_batch_is_turned_back():
    b = GraphBuilder()
    y = b.op("conv2d", b.input("x", (2, 3, 6, 6)), b.param("w", array(8, 3, 3, 3)), name="c")
    b.output(b.op("reshape", y, shape=(16, 16)), b.op("sum", y, axes=(2,), keepdims=False))
    agree(b, {"x": array(2, 3, 6, 6)})


def test_an_output_and_a_reader_that_wants_channels_first_get_them():
    b = GraphBuilder()
    x = b.input("x", (1, 4, 6, 5))
    y = b.op("conv2d", x, b.param("w", array(6, 4, 3, 3)), name="y")
    b.output(y, b.op("softmax", y, axis=1, name="s"), b.op("reshape", y, shape=(1, 72), name="flat"))
    made, _ = agree(b, {"x": array(1, 4, 6, 5)})
    assert ops_of(made).count("transpose") == 2


def test_only_nodes_on_hosts_change():
    made, placement = agree(
        image_network(), {"x": array(2, 3, 12, 10)}, ["cpu:0", "tt:0"], {"c1": "tt:0", "logits": "tt:0"}
    )
    did = dict(zip(made.graph.names, placement.did.tolist(), strict=True))
    by_name = {made.graph.names[n]: made.graph.node(n) for n in range(made.graph.num_nodes)}
    assert (did["c1"], did["logits"], did["c2"]) == (1, 1, 0)
    assert by_name["c1"].func.attrs["layout"] == "NCHW"
    assert not by_name["logits"].func.attrs["packed"]
    assert "pin 'c1': tt:0" in placement.causes[placement.cause_id[made.graph.names.index("c1")]]


def test_weights_that_are_computed_or_of_another_type_stay_plain():
    b = GraphBuilder()
    x, w = b.input("x", (1, 4, 6, 5)), b.input("w", (6, 4, 3, 3))
    d = b.input("d", (3, 4), "float64")
    b.output(
        b.op("conv2d", x, w, name="c"), b.op("dense", d, b.param("v", RNG.standard_normal((5, 4))), name="y")
    )
    values = {"x": array(1, 4, 6, 5), "w": array(6, 4, 3, 3), "d": RNG.standard_normal((3, 4))}
    made, _ = agree(b, values)
    assert ops_of(made) == ["conv2d", "dense"]


def test_panels_hold_the_weight_and_are_made_when_they_are_read():
    b = GraphBuilder()
    w = array(40, 70)
    b.output(b.op("matmul", b.input("x", (3, 40)), b.param("w", w), name="y"))
    made, _ = agree(b, {"x": array(3, 40)})
    ((name, constant),) = made.constants.items()
    assert name == "w.panels"
    assert constant.type.shape == (3, 40, 32)
    np.testing.assert_array_equal(unpack(constant.read(), 70), w)
    assert not constant.read()[2, :, 6:].any()


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("shape", [(4, 7), (1, 1, 4, 7), (3, 1, 1, 7), (2, 4, 7), (3, 2, 4, 7), (7,)])
def test_what_each_batch_of_a_product_adds_goes_with_its_panels(shape, constant):
    b = GraphBuilder()
    added = array(*shape)
    extra = b.param("e", added) if constant else b.input("e", shape)
    product = b.op("matmul", b.input("x", (3, 2, 4, 5)), b.param("w", array(5, 7)), name="y")
    b.output(b.op("add", product, extra, name="z"))
    fused = fuse(Model.from_builder(b), ["cpu:0"])
    made, placement = target(fused, place(fused.graph, ["cpu:0"]))
    assert "dense" in ops_of(made)
    assert "add" not in ops_of(made)
    values = {"x": array(3, 2, 4, 5), "e": added}
    np.testing.assert_allclose(outputs(made, values)[0], outputs(fused, values)[0], rtol=1e-5, atol=1e-5)
    plan(made.graph, ["cpu:0"], placed=placement)


@settings(max_examples=15)
@given(st.data())
def test_random_convolutions_between_elementwise_ops(data):
    draw = data.draw
    c, o = draw(st.integers(1, 5)), draw(st.integers(1, 40))
    depthwise = draw(st.booleans())
    o = c if depthwise else o
    k = draw(st.sampled_from([(1, 1), (3, 3), (2, 3)]))
    pads = draw(st.tuples(*[st.integers(0, 2)] * 4))
    attrs = {
        "pads": pads,
        "strides": draw(st.tuples(st.integers(1, 2), st.integers(1, 3))),
        "dilations": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "group": c if depthwise else 1,
    }
    b = GraphBuilder()
    x = b.input("x", (draw(st.integers(1, 2)), c, draw(st.integers(5, 9)), draw(st.integers(5, 9))))
    y = b.op("conv2d", b.op("relu", x), b.param("w", array(o, 1 if depthwise else c, *k)), **attrs)
    other = y if draw(st.booleans()) else b.param("n", array(1))
    y = b.op(draw(st.sampled_from(["add", "maximum"])), y, other)
    b.output(b.op("tanh", y, name="out"))
    agree(b, {"x": array(*x.shape)})


def test_attention_of_many_rows_and_products_of_activations_name_their_kernel():
    b = GraphBuilder()
    q, few = b.input("q", (2, 20, 8)), b.input("few", (2, 1, 8))
    k = b.input("k", (2, 33, 8))
    factor, scaled = b.param("factor", array(1)), [["multiply", [-1, 2], {}]]
    b.output(
        b.op("attention", q, k, k, name="many"),
        b.op("attention", few, k, k, name="one"),
        b.op("matmul", q, k, transpose_b=True, name="product"),
        b.op("matmul", q, k, factor, transpose_b=True, epilogue=scaled, name="finished"),
    )
    made, _ = agree(b, {"q": array(2, 20, 8), "few": array(2, 1, 8), "k": array(2, 33, 8)})
    nodes = [made.graph.node(n) for n in range(made.graph.num_nodes) if made.graph.func_id[n] >= 0]
    named = {node.name: node.func.attrs.get("kernel") for node in nodes}
    by_panels = {"product": "matmul_panels", "finished": "matmul_panels"}
    assert named == {"many": "attention_panels", "one": None, **by_panels}


def test_a_measured_kernel_wins_over_the_rule():
    b = GraphBuilder()
    q, k = b.input("q", (2, 20, 8)), b.input("k", (2, 33, 8))
    b.output(b.op("matmul", q, k, transpose_b=True, name="y"))
    model, asked = Model.from_builder(b), []

    def measure(op, attrs, inputs, kernels):
        asked.append((op, tuple(kernels)))
        return {name: float(name != "matmul") for name in kernels}

    made, _ = target(model, place(model.graph, "cpu:0"), measure)
    assert asked == [("matmul", ("matmul", "matmul_panels", "matmul_blas"))]
    assert made.graph is model.graph


# ---------------------------------------------------------------- what placing knew of it


def test_policies_see_the_costs_of_the_kernels_that_target_chooses():
    """Each product costs before the rules what it costs after them, and a weight that is no constant stays
    dear."""
    b = image_network()
    x = b.input("y", (64, 96))
    y = b.op("matmul", x, b.param("w5", array(96, 80)), name="product")
    y = b.op("matmul", y, b.input("w6", (80, 64)), name="activations")
    b.output(b.op("dense", y, b.input("w7", (48, 64)), name="plain"))
    model = Model.from_builder(b)
    before = make_problem(model.graph, parse_list("cpu:0"), Pricing(constants=model.constants))
    as_it_stands = make_problem(model.graph, parse_list("cpu:0"))
    made, _ = target(model, place(model.graph, "cpu:0"))
    after = make_problem(made.graph, parse_list("cpu:0"))
    then, now, plain = (dict(products_of(p)) for p in (before, after, as_it_stands))
    # atol: padding of panels is read, too
    np.testing.assert_allclose(sorted(then.values()), sorted(now.values()), atol=20)
    dearer = {name for name in then if plain[name] > 1.5 * then[name]}
    assert dearer >= {"product", "activations"}
    assert "plain" not in dearer


def products_of(problem):
    """(name, ns) of each product."""
    nodes = [(nid, problem.graph.node(nid)) for nid in range(problem.num_nodes)]
    return [
        (node.name, int(problem.cost[nid, 0]))
        for nid, node in nodes
        if node.op in ("conv2d", "dense", "matmul")
    ]


# ---------------------------------------------------------------- volumes


@pytest.mark.parametrize(
    ("taps", "attrs"),
    [
        ((3, 3, 3), {"pads": (1,) * 6}),
        ((1, 3, 3), {"pads": (0, 1, 1, 0, 1, 1), "strides": (1, 2, 2)}),
        ((3, 1, 1), {"pads": (2, 0, 0, 0, 0, 0), "strides": (2, 1, 1)}),
        ((2, 2, 3), {"dilations": (3, 2, 1), "strides": (1, 1, 3)}),
    ],
    ids=str,
)
def test_volumes_are_images_on_hosts(taps, attrs):
    b = GraphBuilder()
    w, bias = b.param("w", array(5, 3, *taps)), b.param("b", array(5))
    b.output(b.op("relu", b.op("conv3d", b.input("x", (2, 3, 6, 7, 9)), w, bias, **attrs)))
    made, _ = agree(b, {"x": array(2, 3, 6, 7, 9)})
    assert "conv2d" in ops_of(made)
    assert "conv3d" not in ops_of(made)
    assert "conv3d" in ops_of(agree(b, {"x": array(2, 3, 6, 7, 9)}, "tt:0")[0])


@pytest.mark.parametrize("shape", [(1, 3, 4, 6, 7), (3, 4, 6, 7), (3, 1, 1, 1), (4, 6, 7)], ids=str)
def test_epilogues_of_volumes_with_fewer_axes(shape):
    b = GraphBuilder()
    y = b.op("conv3d", b.input("x", (1, 3, 4, 6, 7)), b.param("w", array(3, 3, 3, 3, 3)), pads=(1,) * 6)
    b.output(b.op("multiply", y, b.param("c", array(*shape))))
    assert "conv2d" in ops_of(agree(b, {"x": array(1, 3, 4, 6, 7)})[0])


def test_epilogues_of_volumes_of_one_channel_with_fewer_axes():
    b = GraphBuilder()
    y = b.op("conv3d", b.input("x", (1, 1, 4, 6, 7)), b.param("w", array(1, 1, 3, 3, 3)), pads=(1,) * 6)
    b.output(b.op("multiply", y, b.param("c", array(4, 6, 7))))
    assert "conv2d" in ops_of(agree(b, {"x": array(1, 1, 4, 6, 7)})[0])


def test_groups_and_weights_that_come_later_stay_volumes():
    b = GraphBuilder()
    x, w = b.input("x", (1, 4, 3, 5, 5)), b.input("w", (4, 4, 2, 3, 3))
    y = b.op("conv3d", x, w)
    b.output(b.op("conv3d", y, b.param("v", array(4, 1, 1, 2, 2)), group=4))
    made, _ = agree(b, {"x": array(1, 4, 3, 5, 5), "w": array(4, 4, 2, 3, 3)})
    assert ops_of(made).count("conv3d") == 2
