"""Every rule fires on the pattern that exporters write and on none that only looks like it; whatever happens,
the rewritten model computes the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graph_runtime import GraphBuilder, load_graph
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.base.errors import KernelError
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.model import Model
from graph_runtime.rewrite import fuse, simplify

RNG = np.random.default_rng(7)


class Maker(GraphBuilder):
    """A builder with constants by value, as exporters write them."""

    def number(self, value, shape=()):
        return self.param(f"c{len(self.params)}", np.full(shape, value, np.float32))

    def weight(self, *shape):
        return self.param(f"w{len(self.params)}", RNG.standard_normal(shape).astype(np.float32))


def run(model: Model, inputs: dict) -> list[np.ndarray]:
    values = {name: c.read() for name, c in model.constants.items()}
    return heads(model.graph, interpret(model.graph, {**inputs, **values}))


def ops_of(model: Model) -> list[str]:
    graph = model.graph
    return [graph.node(nid).op for nid in range(graph.num_nodes) if graph.func_id[nid] >= 0]


def rewritten(build, *, fused: bool = False, devices=("cpu:0",)) -> Model:
    """What becomes of build(maker) -> output, held against what it was."""
    b = Maker()
    made = build(b)
    b.output(*(made if isinstance(made, tuple) else (made,)))
    model = Model.from_builder(b)
    inputs = {
        name: RNG.standard_normal(model.graph.entry_type(eid).shape).astype(np.float32)
        for name, eid in zip(model.graph.input_names, model.graph.input_eids.tolist(), strict=True)
        if name in model.input_names
    }
    result = simplify(model, devices)
    result = fuse(result, devices) if fused else result
    assert result.output_names == model.output_names
    load_graph(graph_to_json(result.graph))
    for was, now in zip(run(model, inputs), run(result, inputs), strict=True):
        np.testing.assert_allclose(now, was, rtol=2e-5, atol=2e-5)
    return result


def assert_rule(model: Model, rule: str, *ops: str) -> None:
    """The rule said something, and these ops are what is left."""
    assert any(note.rule == rule and note.nodes and note.text for note in model.notes), model.notes
    assert sorted(ops_of(model)) == sorted(ops)


# ---------------------------------------------------------------- gelu, silu, hard_swish


def gelu_erf(b, x, *, root=2**0.5, half=0.5, one=1.0, order=0):
    e = b.op("add", b.op("erf", b.op("divide", x, b.number(root))), b.number(one))
    if order == 0:  # torch: (x * e) * 0.5
        return b.op("multiply", b.op("multiply", x, e), b.number(half))
    if order == 1:  # (x * 0.5) * e
        return b.op("multiply", b.op("multiply", x, b.number(half)), e)
    return b.op("multiply", x, b.op("multiply", e, b.number(half)))


def gelu_tanh(b, x, *, cubic=0.044715, cube="power"):
    if cube == "power":
        third = b.op("power", x, b.number(3.0))
    else:
        third = b.op("multiply", b.op("multiply", x, x), x)
    u = b.op(
        "multiply", b.op("add", x, b.op("multiply", third, b.number(cubic))), b.number(math.sqrt(2 / math.pi))
    )
    gate = b.op("add", b.op("tanh", u), b.number(1.0))
    return b.op("multiply", b.op("multiply", x, b.number(0.5)), gate)


@pytest.mark.parametrize("order", range(3))
def test_gelu_by_erf_in_every_order(order):
    model = rewritten(lambda b: gelu_erf(b, b.input("x", (3, 8)), order=order))
    assert_rule(model, "activations", "gelu")
    assert model.constants == {}


@pytest.mark.parametrize("cube", ["power", "multiply"])
def test_gelu_by_tanh(cube):
    model = rewritten(lambda b: gelu_tanh(b, b.input("x", (3, 8)), cube=cube))
    assert_rule(model, "activations", "gelu")
    assert "tanh" in model.notes[0].text


@pytest.mark.parametrize("wrong", [{"root": 1.5}, {"half": 0.25}, {"one": 2.0}])
def test_a_wrong_constant_is_no_gelu(wrong):
    assert "gelu" not in ops_of(rewritten(lambda b: gelu_erf(b, b.input("x", (3, 8)), **wrong)))


def test_a_wrong_cubic_is_no_gelu():
    assert "gelu" not in ops_of(rewritten(lambda b: gelu_tanh(b, b.input("x", (3, 8)), cubic=0.05)))


def test_a_part_of_a_gelu_that_others_read_stays():
    def build(b):
        x = b.input("x", (3, 8))
        e = b.op("erf", b.op("divide", x, b.number(math.sqrt(2))))
        gate = b.op("add", e, b.number(1.0))
        return b.op("multiply", b.op("multiply", x, gate), b.number(0.5)), e

    assert "gelu" not in ops_of(rewritten(build))


def test_the_factor_of_a_gelu_is_its_own_input():
    def build(b):
        x, y = b.input("x", (3, 8)), b.input("y", (3, 8))
        gate = b.op("add", b.op("erf", b.op("divide", x, b.number(math.sqrt(2)))), b.number(1.0))
        return b.op("multiply", b.op("multiply", y, gate), b.number(0.5))

    assert "gelu" not in ops_of(rewritten(build))


def test_silu_and_hard_swish():
    model = rewritten(lambda b: (lambda x: b.op("multiply", b.op("sigmoid", x), x))(b.input("x", (3, 8))))
    assert_rule(model, "activations", "silu")

    def hard(b):
        x = b.input("x", (3, 8))
        gate = b.op("clip", b.op("add", x, b.number(3.0)), min=0.0, max=6.0)
        return b.op("divide", b.op("multiply", x, gate), b.number(6.0))

    assert_rule(rewritten(hard), "activations", "hard_swish")


def test_sigmoid_of_another_value_is_no_silu():
    model = rewritten(lambda b: b.op("multiply", b.input("x", (3, 8)), b.op("sigmoid", b.input("y", (3, 8)))))
    assert "silu" not in ops_of(model)


# ---------------------------------------------------------------- norms, softmax


def layer_norm(b, x, *, axes=(-1,), square="power", scale=(8,), divide=True, mean_axes=None):
    centred = b.op("subtract", x, b.op("mean", x, axes=list(mean_axes or axes), keepdims=True))
    factors = {"power": [b.number(2.0)], "multiply": [centred], "square": []}[square]
    squared = b.op(square, centred, *factors)
    var = b.op("add", b.op("mean", squared, axes=list(axes), keepdims=True), b.number(1e-5))
    root = b.op("sqrt", var)
    y = b.op("divide", centred, root) if divide else b.op("multiply", centred, b.op("reciprocal", root))
    if scale is None:
        return y
    return b.op("add", b.op("multiply", y, b.weight(*scale)), b.weight(*scale))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"square": "multiply"},
        {"square": "square"},
        {"divide": False},
        {"scale": None},
        {"axes": (-2, -1), "scale": (4, 8)},
    ],
)
def test_layer_norm_as_it_is_written_out(options):
    model = rewritten(lambda b: layer_norm(b, b.input("x", (2, 4, 8)), **options))
    assert_rule(model, "layer_norms", "layer_norm")


def test_a_norm_over_another_axis_is_left():
    assert "layer_norm" not in ops_of(
        rewritten(lambda b: layer_norm(b, b.input("x", (2, 4, 8)), axes=(1,), scale=(8,)))
    )


def test_a_mean_over_another_axis_makes_no_layer_norm():
    model = rewritten(lambda b: layer_norm(b, b.input("x", (2, 8, 8)), mean_axes=(1,)))
    assert "layer_norm" not in ops_of(model)


def test_a_scale_of_other_dimensions_stays_behind_the_norm():
    def build(b):
        y = layer_norm(b, b.input("x", (2, 4, 8)), scale=None)
        return b.op("multiply", y, b.weight(4, 1))

    assert sorted(ops_of(rewritten(build))) == ["layer_norm", "multiply"]


def test_rms_norm():
    def build(b):
        x = b.input("x", (2, 4, 8))
        mean = b.op("mean", b.op("power", x, b.number(2.0)), axes=[-1], keepdims=True)
        y = b.op("multiply", x, b.op("rsqrt", b.op("add", mean, b.number(1e-6))))
        return b.op("multiply", y, b.weight(8))

    assert_rule(rewritten(build), "layer_norms", "rms_norm")


def softmax(b, x, *, axis=-1, sum_axis=None, shift=True):
    top = b.op("subtract", x, b.op("max", x, axes=[axis], keepdims=True)) if shift else x
    e = b.op("exp", top)
    return b.op("divide", e, b.op("sum", e, axes=[axis if sum_axis is None else sum_axis], keepdims=True))


@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax(axis):
    assert_rule(rewritten(lambda b: softmax(b, b.input("x", (2, 4, 8)), axis=axis)), "softmaxes", "softmax")


@pytest.mark.parametrize("options", [{"sum_axis": 1}, {"shift": False}])
def test_what_is_not_quite_softmax(options):
    assert "softmax" not in ops_of(rewritten(lambda b: softmax(b, b.input("x", (2, 4, 8)), **options)))


# ---------------------------------------------------------------- attention


def attention(b, *, scale="product", swap=True, mask=True, axis=-1, shared=False, fidelity=("", "")):
    """As torch exports it: heads by transposes [0, 2, 1, 3], keys by [0, 2, 3, 1]."""
    q, k, v = (
        b.op("transpose", b.input(name, (2, 5, 3, 4)), perm=perm)
        for name, perm in (
            ("q", [0, 2, 1, 3]),
            ("k", [0, 2, 3, 1] if swap else [0, 2, 1, 3]),
            ("v", [0, 2, 1, 3]),
        )
    )
    if scale == "sides":
        q, k = (b.op("multiply", t, b.number(4**-0.25)) for t in (q, k))
    s = b.op("matmul", q, k, transpose_b=not swap, fidelity=fidelity[0])
    if scale == "product":
        s = b.op("divide", s, b.number(2.0))
    if mask:
        s = b.op("add", s, b.input("mask", (2, 1, 1, 5)))
    p = b.op("softmax", s, axis=axis)
    y = b.op("transpose", b.op("matmul", p, v, fidelity=fidelity[1]), perm=[0, 2, 1, 3])
    return (y, p) if shared else y


@pytest.mark.parametrize("devices", [("cpu:0",), ("cpu:0", "tt:0")], ids=len)
@pytest.mark.parametrize("options", [{}, {"scale": "sides"}, {"mask": False}, {"swap": False}])
def test_attention(options, devices):
    model = rewritten(lambda b: attention(b, **options), devices=devices)
    assert_rule(model, "attentions", "attention", *["transpose"] * 4)


def hiding(b, *, seen=(2, 1, 1, 5), number=-np.inf):
    """Keys hidden by a mask before the softmax."""
    q, k, v = (b.op("transpose", b.input(name, (2, 5, 3, 4)), perm=[0, 2, 1, 3]) for name in "qkv")
    mask = b.op("greater", b.input("seen", seen), b.number(-0.5))
    scores = b.op("add", b.op("matmul", q, k, transpose_b=True), b.input("bias", (2, 1, 1, 5)))
    weights = b.op("softmax", b.op("where", mask, scores, b.number(number)))
    return b.op("matmul", weights, v)


@pytest.mark.parametrize("seen", [(2, 1, 1, 5), (5,), (1, 5)])
def test_attention_whose_keys_are_hidden(seen):
    model = rewritten(lambda b: hiding(b, seen=seen))
    rest = ["transpose"] * 3 + ["greater", "where", "where"] + ["reshape"]
    assert_rule(model, "attentions", "attention", *rest)


@pytest.mark.parametrize("options", [{"seen": (5, 5)}, {"number": -1e4}])
def test_what_hides_more_than_keys_is_no_attention(options):
    assert "attention" not in ops_of(rewritten(lambda b: hiding(b, **options)))


def test_attention_has_the_fidelity_of_its_products():
    model = rewritten(lambda b: attention(b, fidelity=("HiFi2", "HiFi2")), devices=("tt:0",))
    (func,) = [f for f in model.graph.funcs if f.op == "attention"]
    assert func.attrs["fidelity"] == "HiFi2"


@pytest.mark.parametrize("options", [{"axis": -2}, {"shared": True}, {"fidelity": ("HiFi2", "LoFi")}])
def test_what_is_no_attention(options):
    assert "attention" not in ops_of(rewritten(lambda b: attention(b, **options)))


# ---------------------------------------------------------------- products


def conv_bn(b, *, channels=(6, 1, 1), relu=True, op="multiply"):
    y = b.op("conv2d", b.input("x", (2, 3, 7, 7)), b.weight(6, 3, 3, 3), b.weight(6), pads=[1, 1, 1, 1])
    y = b.op("add", b.op(op, y, b.weight(*channels)), b.weight(*channels))
    return b.op("relu", y) if relu else y


@pytest.mark.parametrize("options", [{}, {"channels": (1, 6, 1, 1)}, {"op": "divide"}])
def test_batch_norm_goes_into_the_weights(options):
    model = rewritten(lambda b: conv_bn(b, **options))
    assert_rule(model, "scales", "conv2d", "relu")
    assert all("folded from" in c.source for c in model.constants.values())


def test_batch_norm_as_a_chain_of_its_formula():
    def build(b):
        y = b.op("conv2d", b.input("x", (2, 3, 7, 7)), b.weight(6, 3, 3, 3))
        mean, scale, shift = (b.weight(6, 1, 1) for _ in range(3))
        var = b.param("var", RNG.uniform(0.5, 2, (6, 1, 1)).astype(np.float32))
        root = b.op("sqrt", b.op("add", var, b.number(1e-5)))
        y = b.op("divide", b.op("subtract", y, mean), root)
        return b.op("add", b.op("multiply", y, scale), shift)

    assert_rule(rewritten(build), "scales", "conv2d")


def test_a_scale_of_columns_of_pixels_stays():
    model = rewritten(lambda b: conv_bn(b, channels=(7,)))
    assert ops_of(model) == ["conv2d", "multiply", "add", "relu"]


def test_weights_that_a_user_sets_are_left_alone():
    def build(b):
        y = b.op("matmul", b.input("x", (4, 8)), b.input("w", (8, 3)))
        return b.op("multiply", y, b.weight(3))

    assert ops_of(rewritten(build)) == ["matmul", "multiply"]


@pytest.mark.parametrize("transpose", [False, True])
def test_scale_and_bias_of_a_matmul(transpose):
    def build(b):
        w = b.weight(3, 8) if transpose else b.weight(8, 3)
        y = b.op("matmul", b.input("x", (2, 4, 8)), w, transpose_b=transpose)
        return b.op("add", b.weight(3), b.op("multiply", y, b.weight(3)))

    assert_rule(rewritten(build), "biases", "matmul")


def test_a_product_that_is_read_twice_keeps_its_bias_outside():
    def build(b):
        y = b.op("matmul", b.input("x", (4, 8)), b.weight(8, 3))
        return b.op("add", y, b.weight(3)), y

    assert sorted(ops_of(rewritten(build))) == ["add", "matmul"]


def branches(b, first, second, *, group=1, op="add"):
    """Two convolutions of an image of 6 channels, each (kernel, attributes)."""
    x = b.input("x", (2, 6, 9, 10))
    parts = []
    for kernel, attrs in (first, second):
        w, bias = b.weight(6, 6 // group, *kernel), b.weight(6)
        parts.append(b.op("conv2d", x, w, bias, group=group, **attrs))
    return b.op("relu", b.op(op, *parts))


ROUND = ((3, 3), {"pads": (1, 1, 1, 1)})
POINT = ((1, 1), {})
HALF = {"strides": (2, 2)}
APART = {"pads": (2, 2, 2, 2), "dilations": (2, 2)}


@pytest.mark.parametrize("group", [1, 2, 6])
@pytest.mark.parametrize("op", ["add", "subtract"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ROUND, POINT),
        (POINT, ROUND),
        (POINT, POINT),
        ((ROUND[0], ROUND[1] | HALF), (POINT[0], HALF)),
        (((5, 3), {"pads": (3, 1, 1, 1)}), ((3, 1), {"pads": (2, 0, 0, 0)})),
        (((3, 3), APART), POINT),
        (((5, 5), {"pads": (4, 4, 4, 4), "dilations": (2, 2)}), ((3, 3), APART)),
    ],
)
def test_convolutions_of_one_image_are_one(first, second, op, group):
    model = rewritten(lambda b: branches(b, first, second, group=group, op=op))
    assert_rule(model, "summed_convolutions", "conv2d", "relu")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            ((1, 3), {"pads": (0, 1, 0, 1)}),
            ((3, 1), {"pads": (1, 0, 1, 0)}),
        ),  # neither kernel holds the other
        (((3, 3), APART), ROUND),  # taps between the other's
        (((2, 2), {"pads": (1, 1, 0, 0)}), ((2, 2), {"pads": (0, 0, 1, 1)})),  # one beside the other
        ((POINT[0], {"strides": (9, 1)}), (POINT[0], {"strides": (10, 1)})),
    ],
)
def test_kernels_that_meet_other_pixels_are_no_sum(first, second):
    model = rewritten(lambda b: branches(b, first, second))
    assert ops_of(model).count("conv2d") == 2


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("pads", [(0, 0, 3, 0, 0, 1), (0, 0, 2, 0, 0, 0)])
def test_zeros_around_an_image_are_padding_of_its_convolution(flat, pads):
    def build(b):
        x = b.input("x", (2, 3, 9) if flat else (2, 3, 5, 9))
        if not flat:
            pads_2d = (0, 0, 1, pads[2], 0, 0, 0, pads[5])
            return b.op("conv2d", b.op("pad", x, pads=pads_2d), b.weight(4, 3, 2, 3), pads=(1, 0, 0, 2))
        y = b.op("pad", x, pads=pads)
        y = b.op("reshape", y, shape=[2, 3, 1, y.shape[2]])
        return b.op("conv2d", y, b.weight(4, 3, 1, 3), dilations=(1, 2), strides=(1, 2))

    assert_rule(rewritten(build), "margins", "conv2d", *["reshape"] * flat)


@pytest.mark.parametrize("pads", [(0, 1, 0, 0, 0, 0), (0, 0, -1, 0, 0, 2)])
def test_more_channels_and_fewer_pixels_are_no_padding(pads):
    def build(b):
        y = b.op("pad", b.input("x", (2, 3, 9)), pads=pads)
        y = b.op("reshape", y, shape=[2, y.shape[1], 1, y.shape[2]])
        return b.op("conv2d", y, b.weight(4, y.shape[1], 1, 3))

    assert "pad" in ops_of(rewritten(build))


def sliced(b, start, end, *, stride=1, left=4, right=4, axis=2):
    y = b.op(
        "conv2d",
        b.input("x", (2, 3, 1, 11)),
        b.weight(4, 3, 1, 3),
        pads=(0, left, 0, right),
        strides=(1, stride),
    )
    y = b.op("reshape", y, shape=[2, 4, y.shape[3]])
    return b.op("slice", y, starts=(start,), ends=(end,), axes=(axis,))


@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"stride": 3, "left": 5, "right": 8}])
@pytest.mark.parametrize("part", [(0, -1), (1, 100), (1, -1)])
def test_what_a_slice_takes_off_a_convolution_is_padding(part, options):
    assert_rule(rewritten(lambda b: sliced(b, *part, **options)), "margins", "conv2d", "reshape")


@pytest.mark.parametrize(
    "options", [{"left": 0, "start": 1}, {"right": 0, "end": -1}, {"axis": 1, "start": 1}]
)
def test_what_is_inside_of_an_image_stays_cut_off(options):
    made = {"start": 0, "end": 100, **options}
    assert "slice" in ops_of(rewritten(lambda b: sliced(b, **made)))


def beside(b, *, group, scale=True, shift=True, first=False, op="add"):
    """A convolution, and its image with or without numbers a channel beside it."""
    x = b.input("x", (2, 6, 9, 8))
    own = b.op("multiply", x, b.weight(6, 1, 1)) if scale else x
    own = b.op("add", own, b.weight(6, 1, 1)) if shift else own
    made = b.op("conv2d", x, b.weight(6, 6 // group, 3, 3), group=group, pads=(1, 1, 1, 1))
    return b.op("multiply", b.op(op, *((own, made) if first else (made, own))), b.weight(6, 1, 1))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("op", ["add", "subtract"])
@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("group", [1, 6])
def test_the_image_times_numbers_is_part_of_the_convolution(group, shift, op, first):
    model = rewritten(lambda b: beside(b, group=group, shift=shift, op=op, first=first))
    assert_rule(model, "summed_convolutions", "conv2d")


def test_the_image_itself_is_part_of_a_convolution_by_channels_only():
    of_channels, of_all = (
        rewritten(lambda b, n=n: beside(b, group=n, scale=False, shift=False)) for n in (6, 1)
    )
    assert_rule(of_channels, "summed_convolutions", "conv2d")
    assert "summed_convolutions" not in [note.rule for note in of_all.notes]


@pytest.mark.parametrize("group", [2, 3])
def test_a_group_of_several_channels_has_the_image_beside_it(group):
    assert "add" in ops_of(rewritten(lambda b: beside(b, group=group)))


def test_branches_in_a_row_are_one_convolution():
    def build(b):
        x = b.input("x", (1, 6, 8, 8))
        point = b.op("conv2d", x, b.weight(6, 1, 1, 1), group=6)
        made = b.op("add", point, b.op("multiply", x, b.weight(6, 1, 1)))
        made = b.op("add", made, b.op("conv2d", x, b.weight(6, 1, 3, 3), group=6, pads=(1, 1, 1, 1)))
        made = b.op("subtract", made, b.op("multiply", x, b.weight(6, 1, 1)))
        return b.op("add", x, b.op("multiply", b.weight(6, 1, 1), made))

    assert_rule(rewritten(build), "summed_convolutions", "conv2d")


def test_a_branch_that_others_read_stays():
    def build(b):
        x = b.input("x", (1, 6, 8, 8))
        made = b.op("conv2d", x, b.weight(6, 6, 3, 3), pads=(1, 1, 1, 1))
        return b.op("add", made, b.op("conv2d", x, b.weight(6, 6, 1, 1))), made

    assert ops_of(rewritten(build)).count("conv2d") == 2


def test_a_swapped_operand_is_read_swapped():
    def build(b):
        k = b.op("transpose", b.input("k", (2, 5, 4)), perm=[0, 2, 1])
        return b.op("matmul", b.input("q", (2, 3, 4)), k)

    model = rewritten(build)
    assert_rule(model, "absorb_transposes", "matmul")


# ---------------------------------------------------------------- small ones


def test_inverse_transposes_cancel_also_around_elementwise_ops():
    def build(b):
        y = b.op("transpose", b.input("x", (2, 3, 4, 5)), perm=[0, 2, 3, 1])
        y = b.op("relu", b.op("multiply", y, b.number(2.0)))
        return b.op("transpose", y, perm=[0, 3, 1, 2])

    assert_rule(rewritten(build), "sink_transposes", "multiply", "relu")


def test_a_transpose_that_others_read_stays():
    def build(b):
        y = b.op("transpose", b.input("x", (2, 3, 4)), perm=[0, 2, 1])
        return b.op("transpose", b.op("relu", y), perm=[0, 2, 1]), y

    assert ops_of(rewritten(build)).count("transpose") == 2


def of_a_line(b, *, reshape_after, bias=(4, 1)):
    """A convolution along a line, written as one of an image, and what follows it in the line's shape."""
    x = b.op("reshape", b.input("x", (1, 3, 20)), shape=[1, 3, 1, 20])
    y = b.op("conv2d", x, b.weight(4, 3, 1, 5), pads=[0, 2, 0, 2])
    y = b.op("reshape", y, shape=reshape_after)
    y = b.op("add", y, b.weight(*bias))
    y = b.op("leaky_relu", y, alpha=0.1)
    return b.op("add", b.op("tanh", b.input("residual", y.shape)), y)


def test_what_follows_a_reshaped_product_comes_before_the_reshape():
    model = rewritten(lambda b: of_a_line(b, reshape_after=[1, 4, 20]))
    assert_rule(
        model, "sink_reshapes", "reshape", "conv2d", "leaky_relu", "tanh", "reshape", "add", "reshape"
    )


def test_a_reshape_that_moves_channels_stays_where_others_broadcast():
    model = rewritten(lambda b: of_a_line(b, reshape_after=[2, 2, 20], bias=(2, 2, 1)))
    assert ops_of(model)[-1] == "add"
    assert not [note for note in model.notes if note.rule == "sink_reshapes"]


def test_chains_of_reshapes_casts_and_neutral_numbers():
    def build(b):
        y = b.op("reshape", b.op("reshape", b.input("x", (2, 3, 4)), shape=[6, 4]), shape=[2, 12])
        y = b.op("add", b.op("multiply", y, b.number(1.0)), b.number(0.0, (1, 12)))
        return b.op("cast", b.op("cast", y, to="float64"), to="float32")

    model = rewritten(build)
    assert ops_of(model) == ["reshape"]
    assert {note.rule for note in model.notes} == {"reshapes", "neutral", "casts"}


def test_a_cast_that_loses_something_stays():
    def build(b):
        return b.op("cast", b.op("cast", b.input("x", (8,)), to="int32"), to="float32")

    assert ops_of(rewritten(build)) == ["cast", "cast"]


def test_a_zero_that_widens_is_no_neutral_number():
    model = rewritten(lambda b: b.op("add", b.input("x", (1, 4)), b.number(0.0, (3, 4))))
    assert ops_of(model) == ["add"]


def test_constants_are_folded_and_equal_nodes_are_one():
    def build(b):
        x, w = b.input("x", (4,)), b.op("exp", b.weight(4))
        return b.op("add", b.op("multiply", x, w), b.op("multiply", x, w))

    model = rewritten(build)
    assert sorted(ops_of(model)) == ["add", "multiply"]
    assert {note.rule for note in model.notes} >= {"fold", "equal_nodes"}


def test_what_grows_much_is_folded_where_only_what_is_folded_reads_it():
    def inside(b):
        wide = b.op("broadcast_to", b.weight(600, 1), shape=(600, 600))  # 1.4 MB of 2.4 KB
        return b.op("add", b.input("x", (600,)), b.op("sum", b.op("square", wide), axes=[0], keepdims=False))

    def kept(b):
        return b.op("add", b.input("x", (600,)), b.op("broadcast_to", b.weight(600, 1), shape=(600, 600)))

    def few(b):  # of 1 MiB
        return b.op("add", b.input("x", (512,)), b.op("broadcast_to", b.weight(512, 1), shape=(512, 512)))

    assert ops_of(rewritten(inside)) == ["add"]
    assert "broadcast_to" in ops_of(rewritten(kept))
    assert ops_of(rewritten(few)) == ["add"]


def test_what_is_read_twice_is_folded_once():
    """Each reads the one before twice, by ways of its own: computing when read would take 2^n steps."""

    def build(b):
        x = b.weight(200, 200)
        y = b.op("broadcast_to", b.weight(200, 1), shape=(200, 200))
        for _ in range(14):
            y = b.op("add", b.op("negative", y), b.op("abs", y))
        return b.op("add", b.op("multiply", x, b.input("x", (200, 200))), y)

    assert ops_of(rewritten(build)) == ["multiply", "add"]


# ---------------------------------------------------------------- indices


def looked_up(b):
    """A take of an input's indices and of a constant's, and where the greatest of them is."""
    x = b.input("x", (40, 8))
    known = b.op("take", x, b.param("rows", np.array([3, -1, 7], np.int64)))
    some = b.op("take_along_axis", known, b.param("columns", np.array([[0, 5]] * 3, np.int64)), axis=1)
    return b.op("argmax", some, axis=1)


@pytest.mark.parametrize(
    ("devices", "wanted"),
    [
        (("cpu:0",), ["argmax", "take", "take_along_axis"]),
        (("cpu:0", "tt:0"), ["argmax", "cast", "take", "take_along_axis"]),
    ],
)
def test_indices_are_narrow_where_tt_needs_it(devices, wanted):
    model = rewritten(looked_up, devices=devices)
    assert sorted(ops_of(model)) == wanted
    for func in model.graph.funcs:
        assert func.op != "argmax" or func.attrs["dtype"] == ("int32" if "tt:0" in devices else "int64")


def test_indices_of_maxima_are_narrow_where_tt_needs_it():
    def pooled(b):
        y, at = b.op("max_pool2d_indices", b.input("x", (1, 2, 6, 6)), kernel_shape=(2, 2))
        b.output(y)
        return b.op("add", at, at)

    model = rewritten(pooled, devices=("cpu:0", "tt:0"))
    assert sorted(ops_of(model)) == ["add", "cast", "max_pool2d_indices"]


def test_an_index_beyond_int32_is_still_out_of_range():
    b = Maker()
    b.output(b.op("take", b.input("x", (4, 3)), b.input("i", (2,), "int64")))
    model = simplify(Model.from_builder(b), ("cpu:0", "tt:0"))
    assert sorted(ops_of(model)) == ["cast", "clip", "take"]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    (got,) = run(model, {"x": x, "i": np.array([1, -1], np.int64)})
    np.testing.assert_array_equal(got, x[[1, -1]])
    for far in (2**32, -(2**32), 2**62):
        with pytest.raises(KernelError, match="out of range"):
            run(model, {"x": x, "i": np.array([0, far], np.int64)})


# ---------------------------------------------------------------- powers


@pytest.mark.parametrize(
    ("exponent", "ops"),
    [
        (2.0, ["square"]),
        (3.0, ["square", "multiply"]),
        (4.0, ["square", "square"]),
        (-1.0, ["reciprocal"]),
        (-2.0, ["reciprocal", "square"]),
        (2.5, ["power"]),
        (0.5, ["power"]),
    ],
)
def test_a_power_with_a_constant_exponent_is_a_product(exponent, ops):
    def build(b):
        x = b.op("add", b.op("abs", b.input("x", (3, 5))), b.number(0.5))
        return b.op("power", b.op("subtract", x, b.number(0.25)), b.number(exponent))

    assert ops_of(rewritten(build)) == ["abs", "add", "subtract", *ops]


@pytest.mark.parametrize(("exponent", "op"), [(0.5, "sqrt"), (-0.5, "rsqrt")])
def test_a_root_of_squares_is_a_root(exponent, op):
    def build(b):
        squares = b.op("power", b.input("x", (3, 5)), b.number(2.0))
        return b.op("power", b.op("sum", squares, axes=[1]), b.number(exponent))

    assert ops_of(rewritten(build)) == ["square", "sum", op]


def test_a_root_of_what_may_be_minus_infinity_stays_a_power():
    b = Maker()
    b.output(b.op("power", b.input("x", (4,)), b.number(0.5)))
    model = Model.from_builder(b)
    x = np.array([-np.inf, -0.0, 4.0, np.inf], np.float32)
    for was, now in zip(run(model, {"x": x}), run(simplify(model, ["cpu:0"]), {"x": x}), strict=True):
        np.testing.assert_array_equal(now, was)
