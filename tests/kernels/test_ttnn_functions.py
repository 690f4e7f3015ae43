"""numerics="ttnn": functions as kernels of ttnn compute them, bit for bit as sfpu_numpy.py has them from the
same descriptions, over every bf16 number; and what a card is known to give."""

from __future__ import annotations

import numpy as np
import pytest
import sfpu_numpy

import graph_runtime as gr
from graph_runtime.accuracy.ulp import bf16_codes
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.ops import registry
from graph_runtime.ir.ops.numerics import NUMERICS
from graph_runtime.testing import Precision, sweep

CODES = bf16_codes().reshape(256, 256)
CHEAP = ("relu", "reciprocal", "gelu", "log")


def run(op: str, *arrays: np.ndarray, format: str = "bf16", numerics: str = "ttnn", **attrs) -> np.ndarray:
    b = GraphBuilder(device="tt:0")
    inputs = [b.input(f"x{i}", a.shape, "float32") for i, a in enumerate(arrays)]
    b.output(b.op(op, *inputs, **attrs))
    module = gr.create(b, None, ["tt:0"], formats={"tt": format}, numerics={"tt": {"numerics": numerics}})
    module.run(**{f"x{i}": a for i, a in enumerate(arrays)})
    return module.get_output(0).numpy()


def as_cards_have_them(x: np.ndarray) -> np.ndarray:
    """The bits of operands: numbers below the smallest normal one are 0."""
    bits = sfpu_numpy.bits(x)
    return np.where(sfpu_numpy.field(bits) == 0, bits & sfpu_numpy.SIGN, bits).astype(np.uint32)


@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=() if op in CHEAP else pytest.mark.slow) for op in sfpu_numpy.FUNCTIONS]
)
def test_a_function_is_its_kernel_bit_for_bit(op):
    with np.errstate(all="ignore"):
        wanted = sfpu_numpy.stored(sfpu_numpy.FUNCTIONS[op](as_cards_have_them(CODES)))
    np.testing.assert_array_equal(run(op, CODES).view(np.uint32), wanted.view(np.uint32))


# what a card gave: tt-eltwise-accuracy-report, Wormhole, tt-metal a3a9fb4229a
POINTS = {
    "log": [(1.265625, 0.23632812), (0.65625, -0.41992188), (-0.0, np.inf), (-1.0, np.inf)],
    "cos": [(151552.0, -0.0074157715), (np.inf, -np.inf), (-np.inf, np.inf)],
    "silu": [(-3.265625, -0.119628906), (-np.inf, -np.inf)],
    "atanh": [(0.030761719, 0.030517578), (2.0, np.inf)],
    "acosh": [(1.125, 0.4921875), (0.5, np.inf)],
    "lgamma": [(-2.453125, 0.01586914), (2.0**-126, 87.0)],
    "softplus": [(-1.4375, 0.21386719), (-6.0, 0.0), (0.0, 0.6953125)],
    "reciprocal": [(1.5795705e-38, 6.313833e37), (-0.0, -np.inf), (np.nan, 0.0)],
    "sqrt": [(-0.0, np.inf), (np.nan, np.inf)],
    "sign": [(-0.0, -1.0), (0.0, 0.0), (np.nan, 1.0)],
    "square": [(1.7194769e-19, 2.938736e-38)],
    "relu": [(np.nan, np.inf)],
}


@pytest.mark.parametrize("op", POINTS)
def test_what_a_card_gave(op):
    at, wanted = np.array(POINTS[op], np.float32).T
    got = run(op, sfpu_numpy.floats(sfpu_numpy.bits(at) + np.uint32(0x7FFF) & np.uint32(0xFFFF0000)))
    np.testing.assert_allclose(got, wanted, rtol=2e-7)


def test_a_sum_is_not_the_nearest_number():
    a, b = np.float32([[1.4601844e-38] * 2]), np.float32([[-6.018531e-36] * 2])
    np.testing.assert_allclose(run("add", a, b), [[-6.018531e-36] * 2], rtol=1e-7)
    np.testing.assert_allclose(run("add", a, b, numerics="fast"), [[-5.9950212e-36] * 2], rtol=4e-3)
    assert (run("add", a, b) != run("add", a, b, numerics="fast")).all()


def test_a_product_with_one_number_is_cut():
    x = np.float32([[1.0078125, 3.0]])
    assert run("multiply", x, np.float32([[1.0078125, 3.0]])).tolist() == [[1.015625, 9.0]]
    y = np.float32([1.9921875])
    assert run("multiply", x, y).tolist() == [[2.0, 5.96875]]


FUNCTIONS = [
    name for name, op in registry.all_ops().items() if "tt" in op.bodies and op.bodies["tt"].functions
]


@pytest.mark.parametrize(
    "op", [name for name in FUNCTIONS if name != "fused"] + ["add", "subtract", "multiply"]
)
def test_every_function_takes_it_and_stays_near(op):
    """In float32, where kernels are long: no result is far off where numbers are ordinary."""
    entry = registry.require(op)
    assert NUMERICS in entry.attrs
    attrs = {"min": -1.0, "max": 1.0} if op == "clip" else {}
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(1.25, 2.75, (9, 40)).astype(np.float32) for _ in range(entry.arity[0])]
    if op in ("asin", "acos", "atanh"):
        arrays = [a / 3 for a in arrays]
    (right,) = entry.reference([a.astype(np.float64) for a in arrays], entry.decode(attrs))
    np.testing.assert_allclose(run(op, *arrays, format="f32", **attrs), right, rtol=5e-3, atol=1e-3)


def test_a_node_s_own_word_goes_before_the_device_s():
    """Below -5.54 the kernel of gelu gives 0."""
    x = np.float32([[-6.0]])
    b = GraphBuilder(device="tt:0")
    b.output(b.op("gelu", b.input("x0", x.shape, "float32"), numerics="fast"))
    module = gr.create(b, None, ["tt:0"], formats={"tt": "bf16"}, numerics={"tt": {"numerics": "ttnn"}})
    module.run(x0=x)
    assert module.get_output(0).numpy()[0, 0] < 0
    assert run("gelu", x)[0, 0] == 0
    assert run("gelu", x, numerics="fast")[0, 0] < 0


def test_the_default_is_right_to_the_last_place():
    assert sweep("gelu", "tt:0").max_ulp <= 0.5001
    assert sweep("gelu", "tt:0", Precision.of("bf16/ttnn")).max_ulp > 100


def test_a_node_with_a_word_of_its_own_is_no_step():
    x = np.linspace(-7, 3, 4096, dtype=np.float32).reshape(64, 64)
    made = []
    for words in ({}, {"numerics": "ttnn"}):
        b = GraphBuilder(device="tt:0")
        b.output(b.op("sigmoid", b.op("gelu", b.input("x0", x.shape, "float32"), **words)))
        module = gr.create(b, None, ["tt:0"], formats={"tt": "bf16"}, fuse=True)
        module.run(x0=x)
        made.append(module.get_output(0).numpy())
    assert (made[0] != made[1]).any()


def test_steps_of_a_program_are_kernels_too():
    """Fused or not, the same bits: each step is stored as bf16."""
    x = CODES[:, ::8].copy()
    b = GraphBuilder(device="tt:0")
    node = b.input("x0", x.shape, "float32")
    b.output(b.op("fused", node, body=[["silu", [0], {}], ["multiply", [-1, 0], {}], ["tanh", [-2], {}]]))
    module = gr.create(b, None, ["tt:0"], formats={"tt": "bf16"}, numerics={"tt": {"numerics": "ttnn"}})
    module.run(x0=x)
    silu = run("silu", x)
    wanted = run("tanh", run("multiply", silu, x))
    np.testing.assert_array_equal(module.get_output(0).numpy().view(np.uint32), wanted.view(np.uint32))
