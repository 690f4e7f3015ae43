"""gr_jit against jax.jit: trees, static and donated arguments, keys of random numbers, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from graph_runtime.jax import gr_jit  # noqa: E402

pytestmark = pytest.mark.slow  # they are the gate's step jax


def test_trees_static_arguments_and_keywords():
    def f(x, n, *, scale=2.0):
        return {"y": x * n * scale, "z": (x.sum(), [x + 1])}

    ours, theirs = gr_jit(f, static_argnames="n", compile=False), jax.jit(f, static_argnames="n")
    x = np.arange(4, dtype=np.float32)
    for args, words in (((x, 3), {}), ((x,), {"n": 4}), ((x, 3), {"scale": jnp.float32(5)})):
        got, want = ours(*args, **words), theirs(*args, **words)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)
    assert len(ours.modules) == 3


@pytest.mark.parametrize("outputs", ["jax", "numpy", "tensor"])
def test_donated_state_is_not_copied_in_again(outputs):
    def step(state, grads):
        return jax.tree.map(lambda s, g: s - 0.1 * g, state, grads), grads["w"].sum()

    f = gr_jit(step, donate_argnums=0, outputs=outputs, compile=False)
    state = {"w": jnp.ones((3, 3)), "b": jnp.zeros(3)}
    grads = {"w": np.ones((3, 3), np.float32), "b": np.ones(3, np.float32)}
    first = state
    for i in range(1, 4):
        state, _ = f(state, grads)
        got = state["w"].numpy() if outputs == "tensor" else np.asarray(state["w"])
        np.testing.assert_allclose(got, 1 - 0.1 * i, rtol=1e-5)
    assert first["w"].is_deleted()
    (module,) = f.modules
    assert len(module.session.plan.aliases) == 2
    fresh = {"w": jnp.full((3, 3), 7.0), "b": jnp.zeros(3)}
    state, _ = f(fresh, grads)
    got = state["w"].numpy() if outputs == "tensor" else np.asarray(state["w"])
    np.testing.assert_allclose(got, 6.9, rtol=1e-5)


def test_keys_of_random_numbers():
    f = gr_jit(lambda key: (jax.random.normal(key, (5,)), jax.random.split(key)), compile=False)
    key = jax.random.key(3)
    made, keys = f(key)
    np.testing.assert_allclose(made, jax.random.normal(key, (5,)), rtol=1e-5)
    assert (jax.random.key_data(keys) == jax.random.key_data(jax.random.split(key))).all()


def test_refusals():
    with pytest.raises(gr.InputError, match="did you mean 'numpy'"):
        gr_jit(lambda x: x, outputs="numpi")
    f = gr_jit(lambda x: jnp.fft.fft(x), compile=False)
    with pytest.raises(gr.UnsupportedOpError, match=r"1 x stablehlo\.fft"):
        f(jnp.ones(4))
    with pytest.raises(gr.InputError, match="make it static"):
        gr_jit(lambda x, s: x)(jnp.ones(2), object())


@pytest.mark.parametrize("value", [np.array([1, 1 << 40]), np.array([0.0, 1e300])])
def test_a_value_that_32_bits_do_not_hold_is_refused(value):
    """jax.jit wraps it, or makes it infinite."""
    with pytest.raises(gr.InputError, match="which does not fit"):
        gr_jit(lambda x: x + 1, compile=False)(value)
