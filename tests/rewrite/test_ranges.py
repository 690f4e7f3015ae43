"""Constants near the ends of their dtype stay where they are: a rule that moved one would compute another
result; usual ones are moved."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime import GraphBuilder
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.ir.model import Model
from graph_runtime.rewrite import simplify
from graph_runtime.rewrite.ranges import keeps_range

ENDS = (np.finfo(np.float32).min, 1e38, np.inf, np.nan, 0.0, 1e-38, 1e-40, 1e-45)


def array(*shape, dtype="float32"):
    return (np.random.default_rng(5).standard_normal(shape) * 3).astype(dtype)


def rewritten(build, x, *arrays) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The ops that are left of build(builder, x, *arrays), what they make and what the model made before."""
    b = GraphBuilder()
    given = [b.param(f"c{i}", np.asarray(a)) for i, a in enumerate(arrays)]
    b.output(build(b, b.input("x", x.shape, x.dtype.name), *given))
    made = []
    model = Model.from_builder(b)
    with np.errstate(all="ignore"):
        small = simplify(model, ("cpu:0",))
        for each in (small, model):
            values = {name: c.read() for name, c in each.constants.items()}
            made.append(heads(each.graph, interpret(each.graph, {"x": x, **values}))[0])
    graph = small.graph
    ops = [graph.node(nid).op for nid in range(graph.num_nodes) if graph.func_id[nid] >= 0]
    return ops, made[0], made[1]


def same(made, wanted, rtol=1e-5):
    size = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    np.testing.assert_allclose(made, wanted, rtol=rtol, atol=float(size) * rtol)


@pytest.mark.parametrize("op", ["multiply", "divide"])
@pytest.mark.parametrize("product", ["matmul", "dense", "conv2d"])
def test_a_scale_near_the_end_of_float32_stays_behind_the_product(op, product):
    for scale in ENDS:
        factors = np.full(6, 2, np.float32)
        factors[2] = scale
        shape, weight = ((4, 8), (8, 6) if product == "matmul" else (6, 8))
        if product == "conv2d":
            shape, weight, factors = (1, 8, 5, 5), (6, 8, 3, 3), factors.reshape(6, 1, 1)

        def build(b, x, w, s):
            return b.op(op, b.op(product, x, w), s)

        ops, made, wanted = rewritten(build, array(*shape), array(*weight), factors)
        same(made, wanted)
        moved = op == "multiply" and scale == 0
        assert ops == ([product] if moved else [product, op]), scale
    assert rewritten(build, array(*shape), array(*weight), np.full_like(factors, 8))[0] == [product]


@pytest.mark.parametrize(
    ("size", "scale"), [(3e37, 10), (1e-37, 0.01), (1e-30, 1e-20), (1e30, 1e-20), (1e10, 1e15)]
)
def test_a_weight_that_the_scale_takes_beyond_float32_keeps_its_own(size, scale):
    def build(b, x, w, s):
        return b.op("multiply", b.op("matmul", x, w), s)

    x, w = array(4, 8) / np.float32(size), array(8, 6) * np.float32(size)
    ops, made, wanted = rewritten(build, x, w, np.float32(scale))
    assert ops == ["matmul", "multiply"]
    same(made, wanted)


@pytest.mark.parametrize("scale", [300.0, 1e-5, 6e-8])
def test_limits_are_those_of_the_dtype(scale):
    def build(b, x, w, s):
        return b.op("multiply", b.op("matmul", x, w), s)

    made = rewritten(build, array(4, 8, dtype="float16"), array(8, 6, dtype="float16"), np.float16(scale))
    assert made[0] == ["matmul", "multiply"]
    same(*made[1:], rtol=2e-3)


def test_a_quotient_of_a_product_of_integers_is_not_one_of_its_weight():
    def build(b, x, w, s):
        return b.op("divide", b.op("matmul", x, w), s)

    x, w = array(4, 8).astype(np.int32), array(8, 6).astype(np.int32)
    _, made, wanted = rewritten(build, x, w, np.int32(3))
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("op", ["add", "subtract"])
def test_biases_whose_sum_overflows_are_added_one_after_the_other(op):
    def build(b, x, w, first, second):
        return b.op(op, b.op("add", b.op("dense", x, w), first), second)

    ends = np.full(6, 3e38, np.float32)
    others = -ends if op == "subtract" else ends
    x, w = array(4, 8), array(6, 8)
    w[:] = -1e37 * np.sign(w) * np.sign(x[:1])  # what is made of the first row is about -3e38
    ops, made, wanted = rewritten(build, x, w, ends, others)
    assert ops == ["dense", op]
    same(made, wanted)


@pytest.mark.parametrize("scale", [3e38, np.inf, 1e-40])
def test_convolutions_are_not_added_beyond_float32(scale):
    def build(b, x, w, v):
        return b.op("add", b.op("conv2d", x, w, pads=(1, 1, 1, 1)), b.op("conv2d", x, v))

    w, v = array(6, 8, 3, 3), np.full((6, 8, 1, 1), scale, np.float32)
    w[:, :, 1, 1] = 1e38
    ops, made, wanted = rewritten(build, array(1, 8, 5, 5) * np.float32(1e-3), w, v)
    assert ops == ["conv2d", "conv2d", "add"]
    same(made, wanted)


@pytest.mark.parametrize("pair", [(1e30, 1e-30), (1e-30, 1e30), (3e38, 3e-39)])
def test_numbers_that_cancel_are_not_joined_where_one_overflows(pair):
    def silu(b, x, first, second):
        return b.op("multiply", b.op("multiply", b.op("multiply", x, first), sigmoid(b, x)), second)

    def sigmoid(b, x):
        return b.op("sigmoid", x)

    def attend(b, x, first, second):
        q, k = (b.op("multiply", x, number) for number in (first, second))
        return b.op("matmul", b.op("softmax", b.op("matmul", q, k, transpose_b=True)), x)

    numbers = [np.float32(n) for n in pair]
    ops, made, wanted = rewritten(silu, array(4, 8) * np.float32(1e10), *numbers)
    assert "silu" not in ops
    same(made, wanted)
    ops, made, wanted = rewritten(attend, array(2, 4, 8), *numbers)
    assert "attention" not in ops
    same(made, wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_power_of_minus_two_is_small_where_the_square_overflows(dtype):
    x = np.array([300, 1e4, 2e19, -3e20, 1e22, 0, np.inf, np.nan], np.float64)
    x = x[:2].astype(dtype) if dtype == "float16" else x.astype(dtype)
    ops, made, _ = rewritten(lambda b, x, e: b.op("power", x, e), x, np.array(-2, dtype))
    assert ops == ["reciprocal", "square"]
    with np.errstate(divide="ignore"):
        wanted = (x.astype(np.float64) ** -2).astype(dtype)
    np.testing.assert_allclose(made, wanted, rtol=1e-3, atol=float(np.finfo(dtype).smallest_subnormal))


def test_what_may_be_moved():
    assert keeps_range("float32", 0.0, 1e30) is False  # no room for sums
    assert keeps_range("float32", 2e-19, 2e-19)
    assert not keeps_range("float32", 1e-20, 1e-20)
    assert keeps_range("float16", 255.0)
    assert not keeps_range("float16", 257.0)
    assert keeps_range("float64", 1e100)
    assert not keeps_range("int32", 1.0)
