"""NaNs of both signs, and zeros: top_k is in IEEE 754's total order, as XLA's; a sort is in the order that
its comparator asks for."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr

BITS = {"f32": (np.float32, np.uint32, 0xFFC00000), "f64": (np.float64, np.uint64, 0xFFF8 << 48)}
BITS |= {"f16": (np.float16, np.uint16, 0xFE00)}


def values(kind: str) -> np.ndarray:
    dtype, unsigned, negative = BITS[kind]
    (nan,) = np.array([negative], unsigned).view(dtype)
    return np.array([1, np.nan, -np.inf, nan, np.inf, -0.0, 0.0, 2, -0.0, nan, np.nan, -1], dtype)


TOP = [1, 10, 4, 7, 0, 6, 5, 8, 11, 2, 3, 9]  # what jax.lax.top_k gives on a CPU


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("k", [12, 7])
def test_top_k_puts_negative_nan_last(kind, k):
    made = f"tensor<{k}x{kind}>, tensor<{k}xi32>"
    text = f"""func.func @main(%a: tensor<12x{kind}>) -> ({made}) {{
  %v, %i = chlo.top_k(%a, k = {k}) : tensor<12x{kind}> -> ({made})
  return %v, %i : {made}
}}"""
    x = values(kind)
    for devices in ("cpu:0", ["tt:0", "cpu:0"]) if kind == "f32" else ("cpu:0",):
        module = gr.create(text, devices=devices, compile=False)
        module.run(a=x)
        assert module.get_output(1).numpy().tolist() == TOP[:k]
        np.testing.assert_array_equal(module.get_output(0).numpy(), x[TOP[:k]])


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("LT, %x, %y, TOTALORDER", [3, 9, 2, 11, 5, 8, 6, 0, 7, 4, 1, 10]),
        ("GT, %x, %y, TOTALORDER", TOP),
        ("LT, %x, %y, FLOAT", [2, 11, 5, 6, 8, 0, 7, 4, 1, 3, 9, 10]),  # NaN last: C++'s order has none
    ],
)
def test_a_sort_is_in_the_order_of_its_comparator(how, wanted):
    text = f"""func.func @main(%a: tensor<12xf32>) -> tensor<12xi32> {{
  %n = stablehlo.iota dim = 0 : tensor<12xi32>
  %0:2 = "stablehlo.sort"(%a, %n) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):
    %1 = stablehlo.compare {how} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }}) : (tensor<12xf32>, tensor<12xi32>) -> (tensor<12xf32>, tensor<12xi32>)
  return %0#1 : tensor<12xi32>
}}"""
    module = gr.create(text, compile=False)
    module.run(a=values("f32"))
    assert module.get_output(0).numpy().tolist() == wanted


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_top_k_as_jax(dtype):
    jax = pytest.importorskip("jax")
    x = (
        np.random.default_rng(0)
        .choice(values("f64"), (5, 40))
        .astype(np.float32)
        .astype(jax.numpy.dtype(dtype))
    )
    with jax.enable_x64(True):
        module = gr.create(jax.jit(lambda x: jax.lax.top_k(x, 33)).lower(x), compile=False)
        wanted = [np.asarray(each) for each in jax.lax.top_k(x, 33)]
    module.run(arg0=x)
    for i, want in enumerate(wanted):
        got = module.get_output(i).numpy()
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
