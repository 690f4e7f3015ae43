"""Functions of two and three floats: special values, as numpy has them, on cpu and tt."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graph_runtime import eager
from graph_runtime.base.errors import GraphError
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType

NAN, INF = np.nan, np.inf
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1e-45, -1e-40, 1e30, -1e30, 3e38, 88.0, -88.0, -104.0, 5.0, -9.0, 0.5]
# no product or quotient of two leaves float32, or is rounded: float64 has more numbers between
MILD = [NAN, INF, -INF, 0.0, -0.0, 2.0**-5, -(2.0**5), 4.0, -8.0, 1.0, 0.5, 0.25]
PLACES = [
    ("cpu:0", "float32"),
    ("cpu:0", "float64"),
    ("cpu:0", "float16"),
    ("cpu:0", "bfloat16"),
    ("tt:0", "float32"),  # its bf16 has no NaN
]
PAIRS = ("hypot", "logaddexp", "logaddexp2", "ldexp", "squared_difference")
TRIPLES = (
    ("lerp", {}),
    ("addcmul", {}),
    ("addcmul", {"value": -0.5}),
    ("addcdiv", {}),
    ("addcdiv", {"value": 2.0}),
)
WITHIN = {"float32": 4e-7, "float64": 1e-15, "float16": 1e-3, "bfloat16": 8e-3}


def arrays(values, count, dtype):
    """Every choice of ``count`` of the values."""
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    with np.errstate(over="ignore"):
        return [x.reshape(-1).astype(dtype) for x in np.meshgrid(*[values] * count)]


def done(name, device, given, attrs=None):
    tensors = [eager.array(x, device) for x in given]
    return eager.call(name, *tensors, **(attrs or {})).numpy()


def check(name, device, dtype, given, attrs=None):
    op = ops.require(name)
    made = done(name, device, given, attrs), op.reference(given, op.decode(attrs or {}))[0]
    got, wanted = (np.asarray(a, np.float64) for a in made)
    least = {"float32": 1e-43, "float16": 1e-7}.get(dtype, 0.0)
    np.testing.assert_allclose(got, wanted, rtol=WITHIN[dtype], atol=least)


@pytest.mark.parametrize(("device", "dtype"), PLACES)
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_special_values(name, device, dtype):
    check(name, device, dtype, arrays(SPECIAL, 2, dtype))


@pytest.mark.parametrize(("device", "dtype"), PLACES)
@pytest.mark.parametrize(("name", "attrs"), TRIPLES, ids=str)
def test_triples_of_special_values(name, attrs, device, dtype):
    check(name, device, dtype, arrays(MILD, 3, dtype), attrs)


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_nothing_overflows_before_the_result_does(device):
    big = np.array([1e30, 2e38, -2e38], np.float32)
    np.testing.assert_array_equal(done("hypot", device, [big, big]), np.hypot(big, big))
    np.testing.assert_array_equal(done("logaddexp", device, [big, big]), big)
    np.testing.assert_array_equal(done("logaddexp2", device, [big, -big]), np.abs(big))
    a, b = np.array([2.0**-100, 2.0**100, -3.0], np.float32), np.array([200, -240, -1.5], np.float32)
    np.testing.assert_allclose(done("ldexp", device, [a, b]), [2.0**100, 2.0**-140, -3 * 2**-1.5], rtol=1e-7)


@pytest.mark.parametrize(("device", "dtype"), [PLACES[0], PLACES[1], PLACES[4]])
def test_ldexp_by_integers_is_numpys(device, dtype):
    """Bit for bit: subnormal numbers, too, are rounded once."""
    info = np.finfo(dtype)
    rng = np.random.default_rng(1)
    edges = [info.max, info.tiny, info.smallest_subnormal, 77 * info.smallest_subnormal, -0.0, INF, NAN]
    a = np.concatenate([edges, rng.standard_normal(50), info.tiny * rng.standard_normal(20)]).astype(dtype)
    by = np.concatenate([np.arange(-info.bits * 5, info.bits * 5), [-(2**30), 2**30]])
    for dense in (by, by * 8):
        with np.errstate(over="ignore", under="ignore"):
            wanted = np.ldexp(a[:, None], np.clip(dense, -(2**31), 2**31 - 1).astype(np.int32))
        got = done("ldexp", device, [a[:, None], dense.astype(dtype)])
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got[:-1]), np.signbit(wanted[:-1]))


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_lerp_ends_where_it_should(device):
    a, b = np.array([1e8, -3.1, 0.1], np.float32), np.array([-7.3, 1e8, 0.7], np.float32)
    for weight, wanted in ((0.0, a), (1.0, b)):
        got = done("lerp", device, [a, b, np.full(3, weight, np.float32)])
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", [*PAIRS, "lerp", "addcmul", "addcdiv"])
def test_integers_are_refused(name):
    op = ops.require(name)
    with pytest.raises(GraphError, match=f"op {name}: does not take int32"):
        op.infer([TensorType("int32", (3,))] * op.arity[0], op.decode({}))
