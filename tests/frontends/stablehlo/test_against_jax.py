"""What jax lowers gives what jax computes: on a host, and over a tt device in its format."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr

jax = pytest.importorskip("jax")

sys.path.insert(0, str(Path(__file__).parent))
from functions import FUNCTIONS, GRADIENTS  # noqa: E402

sys.path.pop(0)
pytestmark = pytest.mark.slow  # they are the gate's step jax
CASES = {**FUNCTIONS, **{f"gradient of {name}": case for name, case in GRADIENTS.items()}}
DONATED = {"adam": (0, 1, 2), "sgd": (0, 1)}
TT_BOUND = 2e-2  # of float32 kept as float32, by sums in another order and exp of one more rounding


def computed(name: str, devices) -> list[tuple[np.ndarray, np.ndarray]]:
    """(what is made, what jax makes) of each output."""
    function, args = CASES[name]
    lowered = jax.jit(function, keep_unused=True, donate_argnums=DONATED.get(name, ())).lower(*args)
    module = gr.create(lowered, devices=devices, compile=False)
    leaves = map(np.asarray, jax.tree.leaves(args))
    module.run(**{f"arg{i}": leaf for i, leaf in enumerate(leaves)})
    wanted = jax.tree.leaves(jax.jit(function)(*args))
    return [(module.get_output(i).numpy(), np.asarray(want)) for i, want in enumerate(wanted)]


@pytest.mark.parametrize("name", CASES)
def test_on_a_host_as_jax(name):
    for got, want in computed(name, "cpu:0"):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_over_tt_as_jax(name):
    for got, want in computed(name, ["tt:0", "cpu:0"]):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=TT_BOUND, atol=TT_BOUND)


@pytest.mark.parametrize("algorithm", ["RNG_DEFAULT", "RNG_PHILOX", "RNG_THREE_FRY"])
@pytest.mark.parametrize("shape", [(), (7,), (4, 5), (5, 3), (3, 3), (2, 3, 4), (1, 3, 1), (0, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_are_those_of_xla(algorithm, shape, dtype):
    """From a counter whose low half is about to pass 2**64."""
    key, kind = np.array([1, 2, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32), jax.lax.RandomAlgorithm

    def draw(key):
        return jax.lax.rng_bit_generator(key, shape, np.dtype(dtype), getattr(kind, algorithm))

    with jax.enable_x64(dtype == "uint64"):
        wanted = draw(jax.numpy.asarray(key))
        module = gr.create(jax.jit(draw).lower(key), devices="cpu:0", compile=False)
    module.run(arg0=key)
    for i, want in enumerate(wanted):
        np.testing.assert_array_equal(module.get_output(i).numpy(), np.asarray(want), strict=True)


def test_keys_of_either_kind_draw_as_in_jax():
    for kind in ("rbg", "threefry2x32"):

        def draw(seed, kind=kind):
            return jax.random.normal(jax.random.key(seed, impl=kind), (4, 3))

        module = gr.create(jax.jit(draw).lower(np.int32(5)), devices="cpu:0", compile=False)
        module.run(arg0=np.int32(5))
        np.testing.assert_allclose(module.get_output(0).numpy(), draw(np.int32(5)), rtol=1e-5, atol=1e-6)
