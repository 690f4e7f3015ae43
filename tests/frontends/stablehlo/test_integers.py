"""Integers of StableHLO are XLA's, whatever the operands: quotients by 0, the lowest integer by -1, shifts
beyond the width, floats that no integer holds."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
EDGES = [
    0.5,
    1.5,
    127.5,
    128,
    129,
    255.5,
    256,
    32768,
    65535.5,
    65536,
    2.0**31,
    2.0**32,
    2.0**53,
    2.0**63,
    2.0**64,
]
EDGES += [0.0, 1e30, 3e9, np.inf, np.nan]


def text_of(op: str, kind: str) -> str:
    return f"""func.func @main(%a: tensor<6x{kind}>, %b: tensor<6x{kind}>) -> tensor<6x{kind}> {{
  %0 = stablehlo.{op} %a, %b : tensor<6x{kind}>
  return %0 : tensor<6x{kind}>
}}"""


@pytest.mark.parametrize(
    ("op", "wanted", "unsigned"),
    [
        ("divide", [-1, -1, -1, -128, 3, -1], [255, 255, 255, 0, 3, 0]),
        ("remainder", [7, -7, 0, 0, 1, 0], [7, 249, 0, 128, 1, 1]),
        ("power", [1, 1, 1, 0, 49, 1], [1, 1, 1, 0, 49, 1]),
    ],
)
@pytest.mark.parametrize("devices", ["cpu:0", ["tt:0", "cpu:0"]])
def test_every_pair_has_a_value(op, wanted, unsigned, devices):
    a, b = np.array([7, -7, 0, -128, 7, 1]), np.array([0, 0, 0, -1, 2, -1])
    for kind, dtype, values in (("i8", np.int8, wanted), ("ui8", np.uint8, unsigned)):
        module = gr.create(text_of(op, kind), devices=devices, compile=False)
        module.run(a=a.astype(dtype), b=b.astype(dtype))
        assert module.get_output(0).numpy().tolist() == values


def test_a_divisor_that_is_known_costs_nothing_more():
    text = """func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {
  %c = stablehlo.constant dense<-3> : tensor<i32>
  %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4xi32>
  %1 = stablehlo.divide %a, %0 : tensor<4xi32>
  %2 = stablehlo.remainder %1, %0 : tensor<4xi32>
  return %2 : tensor<4xi32>
}"""
    graph = gr.frontends.stablehlo.load_model(text).graph
    assert sorted({graph.node(nid).op for nid in range(graph.num_nodes)}) == ["divide", "input", "mod"]


# ---------------------------------------------------------------- against jax


def computed(function, *args, folded: bool = False):
    """(what is made, what jax makes) of each output. ``folded``: of constants, while the text is read."""
    import jax

    with jax.enable_x64(True):
        if folded:
            constants = [jax.numpy.asarray(arg) for arg in args]
            lowered, given = jax.jit(lambda: function(*constants)).lower(), ()
        else:
            lowered, given = jax.jit(function, keep_unused=True).lower(*args), args
        module = gr.create(lowered, compile=False)
        wanted = [np.asarray(each) for each in jax.tree.leaves(jax.jit(function)(*args))]
    module.run(**{f"arg{i}": arg for i, arg in enumerate(given)})
    return [(module.get_output(i).numpy(), want) for i, want in enumerate(wanted)]


def values_of(dtype: str, rng: np.random.Generator) -> np.ndarray:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    edges = [v for v in (low, low + 1, high, high - 1, -3, -2, -1, 0, 1, 2, 7, 8, 64) if low <= v <= high]
    random = rng.integers(low, high, 40, dtype=dtype, endpoint=True)
    return np.concatenate([np.array(edges, dtype), random, rng.integers(max(low, -9), 80, 40).astype(dtype)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "folded"),
    [*((dtype, False) for dtype in INTEGERS), ("int8", True), ("int32", True), ("uint64", True)],
)
def test_random_integers_as_jax(dtype, folded):
    lax, jnp = pytest.importorskip("jax.lax"), pytest.importorskip("jax.numpy")

    def function(a, b):
        two = (lax.div, lax.rem, lax.add, lax.sub, lax.mul, lax.shift_left, lax.shift_right_arithmetic)
        two += (lax.shift_right_logical, lax.max, jnp.floor_divide, jnp.mod)
        one = (lax.neg, lax.sign, lax.clz, lax.population_count, lambda x: lax.integer_pow(x, 3))
        made = [op(a, b) for op in two] + [op(a) for op in one]
        return made + [lax.convert_element_type(a, to) for to in (*INTEGERS, "bool", "float32")]

    x = values_of(dtype, np.random.default_rng(0))
    many = 40 if folded else len(x)  # constants beyond 64 KiB are not folded
    a, b = (part.reshape(-1) for part in np.meshgrid(x[:many], x[:many]))
    for i, (got, want) in enumerate(computed(function, a, b, folded=folded)):
        np.testing.assert_array_equal(got, want, strict=True, err_msg=f"output {i}")


@pytest.mark.slow
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_that_no_integer_holds_as_jax(dtype, folded):
    jax = pytest.importorskip("jax")
    with np.errstate(all="ignore"):
        x = np.array([*EDGES, *(-v for v in EDGES)]).astype(jax.numpy.dtype(dtype))

    def function(x):
        return [jax.lax.convert_element_type(x, to) for to in (*INTEGERS, "bool")]

    for i, (got, want) in enumerate(computed(function, x, folded=folded)):
        np.testing.assert_array_equal(got, want, strict=True, err_msg=f"output {i}")
