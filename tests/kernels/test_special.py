"""Functions that the C library has not: against other ways to the same number, on cpu and tt."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime import eager
from graph_runtime.ir import ops

INF, NAN = np.inf, np.nan
PLACES = [("cpu:0", np.float64), ("cpu:0", np.float32), ("tt:0", np.float32), ("cpu:0", np.float16)]


def done(name, device, values):
    with eager.strict():
        return eager.call(name, eager.array(values, device)).numpy()


def in_ulps(got, wanted):
    """How far results are from what float64 says, in units of the last place of their dtype."""
    unit = np.spacing(np.abs(wanted.astype(got.dtype))).astype(np.float64)
    return np.abs(got.astype(np.float64) - wanted) / unit


# ---------------------------------------------------------------- i0


def bessel_i0(x):
    """The integral of e^(x cos t) over a circle by the trapezoid rule, which is exact to float64 with so many
    points; the exponent without cancellation, and e^x by its square root."""
    t = np.pi * np.arange(256) / 256
    x = np.abs(np.asarray(x, np.float64))[:, None]
    mean = np.exp(-2 * x * np.sin(t) ** 2).mean(axis=1)
    root = np.exp(0.5 * x[:, 0])
    with np.errstate(over="ignore"):
        return root * mean * root


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_i0_is_the_mean_of_exponentials(device, dtype):
    last = {np.float64: 713.9, np.float32: 91.9, np.float16: 12.0}[dtype]
    rng = np.random.default_rng(0)
    drawn = [rng.uniform(-span, span, 3000) for span in (1e-3, 2, 9, last)]
    x = np.concatenate([*drawn, np.linspace(7.99, 8.01, 101), [0.0, -0.0]]).astype(dtype)
    most = 14 if dtype == np.float64 else 0.501  # of which the mean has some
    assert in_ulps(done("i0", device, x), bessel_i0(x)).max() <= most


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_i0_of_special_values(device, dtype):
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, -0.0, least, INF, -INF, NAN, 800.0, -800.0, np.finfo(dtype).max], dtype)
    np.testing.assert_array_equal(done("i0", device, x), [1, 1, 1, INF, INF, NAN, INF, INF, INF])


@settings(deadline=None)
@given(st.lists(st.floats(-90, 90, width=32), min_size=1, max_size=40))
def test_i0_is_even_grows_and_is_the_same_on_cpu_and_tt(values):
    x = np.sort(np.abs(np.array(values, np.float32)))
    made = done("i0", "cpu:0", x)
    assert (np.diff(made) >= 0).all()
    np.testing.assert_array_equal(done("i0", "cpu:0", -x), made)
    np.testing.assert_array_equal(done("i0", "tt:0", x), made)
    (wanted,) = ops.require("i0").reference([x], {})
    np.testing.assert_allclose(made, wanted, rtol=2e-7)


# ---------------------------------------------------------------- digamma


def digamma_of(values):
    return ops.require("digamma").reference([values.astype(np.float64)], {})[0]


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_digamma_is_what_few_terms_far_out_give(device, dtype):
    rng = np.random.default_rng(0)
    spans = (-3, 3), (0, 12), (-60, 60), (1.46, 1.4633), (-900, 60000)
    x = np.concatenate([rng.uniform(*span, 3000) for span in spans]).astype(dtype)
    x = x[(x > 0) | (x != np.floor(x))]
    got, wanted = done("digamma", device, x), digamma_of(x)
    error = np.abs(got - wanted)
    if dtype == np.float64:
        assert (error <= 30 * np.spacing(np.abs(wanted)) + 4e-15).all()  # some is the reference's
    else:
        assert in_ulps(got, wanted).max() <= 0.501


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_digamma_of_special_values(device, dtype):
    x = np.array([0.0, -0.0, -1, -2, -1000, INF, -INF, NAN, 1, 0.5, -0.5], dtype)
    gamma = 0.5772156649015329
    wanted = np.array(
        [-INF, INF, NAN, NAN, NAN, INF, NAN, NAN, -gamma, -gamma - 2 * np.log(2), 0.03648997397857652]
    )
    np.testing.assert_allclose(
        done("digamma", device, x), wanted.astype(dtype), rtol=1e-13 if dtype == np.float64 else 1e-7
    )


@settings(deadline=None)
@given(st.lists(st.floats(-(2.0**12), 2.0**100, width=32), min_size=1, max_size=40))
def test_digamma_is_the_same_on_cpu_and_tt_and_steps_by_the_reciprocal(values):
    x = np.array(values, np.float32)
    np.testing.assert_array_equal(done("digamma", "cpu:0", x), done("digamma", "tt:0", x))
    x = np.abs(x.astype(np.float64)) + 1e-3
    step = done("digamma", "cpu:0", x + 1) - done("digamma", "cpu:0", x)
    np.testing.assert_allclose(step, 1 / x, rtol=1e-12, atol=2e-14)


# ---------------------------------------------------------------- gelu


@settings(deadline=None)
@given(st.lists(st.floats(-12.5, 40, width=32, allow_subnormal=False), min_size=1, max_size=70))
def test_gelu_of_floats_is_within_8_ulp_far_below_0_too(values):
    x = np.array(values, np.float32)
    wanted = ops.require("gelu").reference([x.astype(np.float64)], {"approximate": "none"})[0]
    normal = np.abs(wanted) > 1.2e-38
    assert (in_ulps(done("gelu", "cpu:0", x), wanted)[normal] <= 8).all()


def test_gelu_of_special_values():
    least = np.finfo(np.float32).smallest_subnormal
    x = np.array([0.0, -0.0, INF, -INF, NAN, -13.25, -15, -1e30, 1e38, 64 * least, -64 * least], np.float32)
    tail = 0.5 * -13.25 * math.erfc(13.25 / 2**0.5)
    wanted = [0, 0, INF, NAN, NAN, tail, 0, 0, 1e38, 32 * least, -32 * least]
    np.testing.assert_allclose(done("gelu", "cpu:0", x), wanted, rtol=1e-7, atol=float(4 * least))
